//! Accepts connections and serves routes on them, within limits.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::serve::Listener;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Connections that one listener serves at once; more wait in the kernel's queue.
const CONNECTIONS: usize = 128;
/// A connection without a request for this time is closed. Load balancers and Prometheus ask more
/// often and may keep their connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest life of a connection: one whose client reads no answer must not block others.
const LIFETIME: Duration = Duration::from_secs(600);
/// Most bytes of a request's head.
const LARGEST_HEAD: usize = 16 << 10;
/// Most header fields of a request.
const FIELDS: usize = 64;

/// Listens on an address and port.
pub(crate) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// Serves until the future is dropped, which closes every connection.
pub(crate) async fn serve<L: Listener>(mut listener: L, routes: Router) {
    let free = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let Ok(place) = free.clone().acquire_owned().await else {
            return;
        };
        let (stream, _) = listener.accept().await;
        while connections.try_join_next().is_some() {}
        let routes = TowerToHyperService::new(routes.clone());
        connections.spawn(async move {
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIMEOUT)
                .max_buf_size(LARGEST_HEAD)
                .max_headers(FIELDS)
                .title_case_headers(true);
            let connection = pin!(http.serve_connection(TokioIo::new(stream), routes));
            // An error on a connection concerns its client only.
            let _ = timeout(LIFETIME, connection).await;
            drop(place);
        });
    }
}
