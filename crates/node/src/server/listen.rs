//! Accepts connections and serves routes on them, within limits.

use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::serve::Listener;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::{JoinSet, yield_now};
use tokio::time::timeout;

use super::budget::{Budget, Closed, Peer, Place, Stage};

/// Connections that the kernel queues until we accept them: the kernel's default of
/// `net.core.somaxconn`. A client whose connection finds a full queue tries again after one second.
const BACKLOG: u32 = 4096;
/// Timeout of a request's head, from the first moment of the connection or the end of the last
/// answer: the longest time of a kept connection without a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// After this time a connection ends with the answer in progress.
const LIFETIME: Duration = Duration::from_secs(60);
/// Timeout of that last answer: the longest CPU profile takes 120 s.
const LAST_ANSWER_TIMEOUT: Duration = Duration::from_secs(150);
/// Most bytes of a request's head.
const LARGEST_HEAD: usize = 16 << 10;
/// Most header fields of a request.
const FIELDS: usize = 64;

/// Opens a socket for [`listen`].
pub fn socket(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    socket.set_reuseaddr(true)?;
    Ok(socket)
}

/// Listens on an address and port.
pub fn listen(socket: TcpSocket, address: SocketAddr) -> io::Result<TcpListener> {
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves until the future is dropped, which closes every connection.
///
/// An error of accept(2) ends nothing: axum's [`Listener`] tries again, at once when only one
/// connection is lost (`ECONNABORTED`), otherwise (`EMFILE`, `ENFILE`) after one second.
pub async fn serve<L>(mut listener: L, routes: Router, budget: Arc<Budget>)
where
    L: Listener,
    L::Io: Peer,
{
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await;
        while connections.try_join_next().is_some() {}
        if let Some((place, closed)) = budget.admit(&stream) {
            connections.spawn(converse(stream, routes.clone(), place, closed));
        }
        // Requests that have arrived are read before the next connection may push out theirs.
        yield_now().await;
    }
}

/// Serves one connection. An error on it concerns its client only.
async fn converse<S>(stream: S, routes: Router, place: Place, closed: Closed)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let place = Arc::new(place);
    let stream = TokioIo::new(Watched {
        stream,
        place: place.clone(),
    });
    let routes = TowerToHyperService::new(routes);
    let service = service_fn(move |request| {
        place.enter(Stage::Computing);
        let (answer, place) = (routes.call(request), place.clone());
        async move {
            let answer = answer.await;
            place.enter(Stage::Sending);
            answer
        }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(LARGEST_HEAD)
        .max_headers(FIELDS)
        .title_case_headers(true);
    let serving = async {
        let mut connection = pin!(http.serve_connection(stream, service));
        if timeout(LIFETIME, connection.as_mut()).await.is_err() {
            connection.as_mut().graceful_shutdown();
            let _ = timeout(LAST_ANSWER_TIMEOUT, connection).await;
        }
    };
    tokio::select! {
        biased;
        _ = closed => {}
        () = serving => {}
    }
}

/// A stream that reports the end of each answer. hyper flushes the stream when all that it has
/// buffered is written. It buffers the head of an answer together with the body, because the body of
/// each page is one piece.
struct Watched<S> {
    stream: S,
    place: Arc<Place>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        self.place.written();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests;
