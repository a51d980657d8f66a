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
use hyper::service::service_fn;
use prometheus::TEXT_FORMAT;
use sluice_http::{Limits, serve_each};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::engine::Common;

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
    /// The plugin, and the path of the page.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Health => ("health", "/health"),
            Self::Ready => ("ready", "/ready"),
            Self::Metrics => ("prometheus", "/metrics"),
        }
    }

    pub(crate) fn plugin(self) -> &'static str {
        self.names().0
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
    /// Of a server whose Corefile is not known yet: pages are served before it is.
    pub(crate) fn new(common: Arc<Common>) -> Self {
        Self {
            common,
            stops: AtomicBool::new(false),
            needs_objects: AtomicBool::new(true),
        }
    }

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
    let budget = state.common.options.page_budget.clone();
    let open = |stream: TcpStream| {
        let state = state.clone();
        let answer = service_fn(move |request: Request<Incoming>| {
            let answer = answer(&request, page, &state);
            async move { Ok::<_, Infallible>(answer) }
        });
        async move { Some((stream, answer)) }
    };
    serve_each(listener, budget, Limits::PAGES, open).await;
}

fn answer(request: &Request<Incoming>, page: Page, state: &State) -> http::Response<Full<Bytes>> {
    let is_read = [Method::GET, Method::HEAD].contains(request.method());
    let (status, body, kind) = if request.uri().path() != page.names().1 {
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

#[cfg(test)]
mod tests {
    use std::sync::RwLock;

    use sluice_zone::{NamespaceRule, Objects};

    use super::*;
    use crate::Options;

    #[tokio::test]
    async fn nothing_is_ready_before_a_corefile_is_served() {
        let objects = Arc::new(RwLock::new(Objects::new(NamespaceRule::Declared)));
        let runtime = tokio::runtime::Handle::current();
        let state = State::new(Common::new(objects, Options::default(), 1, runtime));
        assert_eq!(state.page(Page::Ready).0, StatusCode::SERVICE_UNAVAILABLE);
    }
}
