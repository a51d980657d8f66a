//! /health, /ready and /metrics.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use http::header::CONTENT_TYPE;
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus::TEXT_FORMAT;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::engine::Common;

/// Connections to one server: kubelet, Prometheus, and some people.
const CONNECTIONS: usize = 64;
/// Timeout of a request's head, and longest time of an idle connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection ends after this time.
const LIFETIME: Duration = Duration::from_secs(300);
/// Most bytes of a request's head.
const LARGEST_HEAD: usize = 16 << 10;
/// Own requests to /health, as in CoreDNS.
const PROBE_PERIOD: Duration = Duration::from_secs(1);
/// The largest bound of the metric's buckets is below this.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Page {
    Health,
    Ready,
    Metrics,
}

impl Page {
    pub(crate) fn plugin(self) -> &'static str {
        match self {
            Self::Health => "health",
            Self::Ready => "ready",
            Self::Metrics => "prometheus",
        }
    }

    fn path(self) -> &'static str {
        match self {
            Self::Health => "/health",
            Self::Ready => "/ready",
            Self::Metrics => "/metrics",
        }
    }
}

/// The state that the pages show.
pub(crate) struct State {
    pub(crate) common: Arc<Common>,
    /// Set while the server stops.
    pub(crate) stops: AtomicBool,
    /// Whether any server block has the plugin `kubernetes`, which is ready when it has all objects.
    pub(crate) needs_objects: AtomicBool,
}

impl State {
    /// Whether every plugin can answer.
    pub(crate) fn is_ready(&self) -> bool {
        let objects = self
            .common
            .objects
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let has_objects = !self.needs_objects.load(Ordering::Acquire) || objects.is_synced();
        has_objects && !self.stops.load(Ordering::Acquire)
    }

    /// Status, body and its type.
    fn page(&self, page: Page) -> (StatusCode, String, &'static str) {
        let stops = self.stops.load(Ordering::Acquire);
        let plain = "text/plain; charset=utf-8";
        match page {
            Page::Health | Page::Ready if stops => (
                StatusCode::SERVICE_UNAVAILABLE,
                "Shutting down".into(),
                plain,
            ),
            Page::Ready if !self.is_ready() => {
                (StatusCode::SERVICE_UNAVAILABLE, "kubernetes".into(), plain)
            }
            Page::Health | Page::Ready => (StatusCode::OK, "OK".into(), plain),
            Page::Metrics => (StatusCode::OK, self.common.metrics.text(), TEXT_FORMAT),
        }
    }
}

/// Serves one page until the future is dropped, which closes every connection.
pub(crate) async fn serve(listener: TcpListener, page: Page, state: Arc<State>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let Ok(place) = places.clone().acquire_owned().await else {
            return;
        };
        while connections.try_join_next().is_some() {}
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let state = state.clone();
        connections.spawn(async move {
            converse(stream, page, state).await;
            drop(place);
        });
    }
}

async fn converse(stream: TcpStream, page: Page, state: Arc<State>) {
    let answer = service_fn(move |request: Request<Incoming>| {
        let answer = answer(&request, page, &state);
        async move { Ok::<_, Infallible>(answer) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(LARGEST_HEAD);
    // An error concerns the client only.
    let _ = timeout(
        LIFETIME,
        http.serve_connection(TokioIo::new(stream), answer),
    )
    .await;
}

fn answer(request: &Request<Incoming>, page: Page, state: &State) -> http::Response<Full<Bytes>> {
    let is_read = [Method::GET, Method::HEAD].contains(request.method());
    let (status, body, kind) = if request.uri().path() != page.path() {
        let body = "404 page not found\n";
        (StatusCode::NOT_FOUND, body.to_owned(), "text/plain")
    } else if is_read {
        state.page(page)
    } else {
        (StatusCode::METHOD_NOT_ALLOWED, String::new(), "text/plain")
    };
    let mut response = http::Response::new(Full::from(body));
    *response.status_mut() = status;
    let kind = http::HeaderValue::from_static(kind);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// Asks /health once a second and measures how long it takes: a server without processor time shows here.
pub(crate) async fn probe(address: SocketAddr, common: Arc<Common>) {
    let mut ticks = interval(PROBE_PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let metrics = &common.metrics;
    loop {
        ticks.tick().await;
        let began = Instant::now();
        match timeout(PROBE_TIMEOUT, request(address)).await {
            Ok(Ok(())) => metrics.health.observe(began.elapsed().as_secs_f64()),
            Ok(Err(_)) | Err(_) => metrics.health_failures.inc(),
        }
    }
}

async fn request(address: SocketAddr) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    let request = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(())
}
