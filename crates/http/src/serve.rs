//! Accepts connections and answers the requests on them, within limits.

use std::error::Error;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::serve::Listener;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, sockopt};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::{JoinSet, yield_now};
use tokio::time::timeout;

use crate::budget::{Budget, Peer, Place, Stage};

/// Connections that the kernel queues until we accept them: the kernel's default of
/// `net.core.somaxconn`. A client whose connection finds a full queue tries again after one second.
const BACKLOG: u32 = 4096;
/// Timeout of the answer in progress when a connection has reached its lifetime: the longest CPU
/// profile takes 120 s.
const LAST_ANSWER_TIMEOUT: Duration = Duration::from_secs(150);
/// Most header fields of a request.
const FIELDS: usize = 64;

/// An error of any type.
type Fault = Box<dyn Error + Send + Sync>;

/// The limits of one connection.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most bytes of a request's head.
    head: usize,
    /// Timeout of opening (TLS), and of a request's head, from the first moment of the connection or the end of
    /// the last answer: the longest time of a kept connection without a request.
    head_time: Duration,
    /// After this time a connection ends with the answer in progress. `None`: answers may last forever.
    lifetime: Option<Duration>,
}

impl Limits {
    /// Of pages for people, probes and Prometheus.
    pub const PAGES: Self = Self {
        head: 16 << 10,
        head_time: Duration::from_secs(10),
        lifetime: Some(Duration::from_secs(60)),
    };
    /// Of the Kubernetes API: a watch has no end. Clients in Go and hyper close an idle connection after 90 s;
    /// closed earlier here, it could be lost while a request is on its way.
    pub const API: Self = Self {
        head: 400 << 10,
        head_time: Duration::from_secs(100),
        lifetime: None,
    };
}

/// The address to listen on for one that was asked for: `0.0.0.0` and `::` both mean all addresses of both families, as for
/// Go's listeners (`favoriteAddrFamily` in `net/ipsock_posix.go`). That is `::`, or `0.0.0.0` where the kernel lacks IPv6.
#[must_use]
pub fn widened(address: SocketAddr) -> SocketAddr {
    if !address.ip().is_unspecified() {
        return address;
    }
    let flags = SockFlag::SOCK_CLOEXEC;
    let probe = nix::sys::socket::socket(AddressFamily::Inet6, SockType::Datagram, flags, None);
    let any: IpAddr = match probe {
        Ok(_) => Ipv6Addr::UNSPECIFIED.into(),
        Err(_) => Ipv4Addr::UNSPECIFIED.into(),
    };
    SocketAddr::new(any, address.port())
}

/// Opens a socket for [`listen`]. One for `::` takes connections of both families, whatever `net.ipv6.bindv6only` says.
///
/// # Errors
///
/// No descriptor is left, or the kernel lacks the family.
pub fn socket(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    if address.is_ipv6() && address.ip().is_unspecified() {
        setsockopt(&socket, sockopt::Ipv6V6Only, &false)?;
    }
    socket.set_reuseaddr(true)?;
    Ok(socket)
}

/// Listens on an address and port.
///
/// # Errors
///
/// The address is not the machine's, or the port is taken.
pub fn listen(socket: TcpSocket, address: SocketAddr) -> io::Result<TcpListener> {
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves pages until the future is dropped, which closes every connection.
pub async fn serve<L>(listener: L, routes: Router, budget: Arc<Budget>)
where
    L: Listener,
    L::Io: Peer,
{
    let open = move |stream| {
        let service = TowerToHyperService::new(routes.clone());
        async move { Some((stream, service)) }
    };
    serve_each(listener, budget, Limits::PAGES, open).await;
}

/// Serves until the future is dropped, which closes every connection. `open` makes of an accepted stream the
/// stream that HTTP is spoken on, and the service that answers there; `None` ends the connection.
///
/// An error of accept(2) ends nothing: axum's [`Listener`] tries again, at once when only one
/// connection is lost (`ECONNABORTED`), otherwise (`EMFILE`, `ENFILE`) after one second.
pub async fn serve_each<L, O, F, I, S, B>(
    mut listener: L,
    budget: Arc<Budget>,
    limits: Limits,
    open: O,
) where
    L: Listener,
    L::Io: Peer,
    O: Fn(L::Io) -> F,
    F: Future<Output = Option<(I, S)>> + Send + 'static,
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service<Request<Incoming>, Response = Response<B>> + Send + 'static,
    S::Error: Into<Fault> + Send,
    S::Future: Send + 'static,
    B: Body<Data: Send, Error: Into<Fault>> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await;
        while connections.try_join_next().is_some() {}
        if let Some((place, closed)) = budget.admit(&stream) {
            let opening = timeout(limits.head_time, open(stream));
            let serving = async move {
                if let Ok(Some((stream, service))) = opening.await {
                    in_place(stream, service, limits, place).await;
                }
            };
            connections.spawn(async move {
                tokio::select! {
                    biased;
                    _ = closed => {}
                    () = serving => {}
                }
            });
        }
        // Requests that have arrived are read before the next connection may push out theirs.
        yield_now().await;
    }
}

/// Serves one connection, and tells its place in the budget what it does.
async fn in_place<I, S, B>(stream: I, service: S, limits: Limits, place: Place)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service<Request<Incoming>, Response = Response<B>>,
    S::Error: Into<Fault>,
    B: Body<Error: Into<Fault>> + 'static,
{
    let place = Arc::new(place);
    let stream = Watched {
        stream,
        place: place.clone(),
    };
    let service = service_fn(move |request| {
        place.enter(Stage::Computing);
        let (answer, place) = (service.call(request), place.clone());
        async move {
            let answer = answer.await;
            place.enter(Stage::Sending);
            answer
        }
    });
    converse(stream, service, limits).await;
}

/// Serves one connection, outside any budget. An error on it concerns its client only.
pub async fn converse<I, S, B>(stream: I, service: S, limits: Limits)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service<Request<Incoming>, Response = Response<B>>,
    S::Error: Into<Fault>,
    B: Body<Error: Into<Fault>> + 'static,
{
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(limits.head_time)
        .max_buf_size(limits.head)
        .max_headers(FIELDS)
        .title_case_headers(true);
    let connection = http.serve_connection(TokioIo::new(stream), service);
    // A service that answers 101 goes on with the stream.
    let mut connection = pin!(connection.with_upgrades());
    let Some(lifetime) = limits.lifetime else {
        let _ = connection.await;
        return;
    };
    if timeout(lifetime, connection.as_mut()).await.is_err() {
        connection.as_mut().graceful_shutdown();
        let _ = timeout(LAST_ANSWER_TIMEOUT, connection).await;
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
