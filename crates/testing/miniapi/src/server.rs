//! The listener and its connections, on a thread of their own.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use hyper::service::service_fn;
use sluice_api::{History, Identity};
use sluice_http::{Limits, converse};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::broadcast;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::answer::{Client, answer};
use crate::body::Cut;
use crate::error::Error;
use crate::fault::Faults;
use crate::journal::Journal;
use crate::options::Options;
use crate::watches::Watches;
use crate::wire::{Line, Wire};

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 1024;

/// What the test's thread and the server's have in common.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) history: Arc<History>,
    pub(crate) watches: Arc<Watches>,
    pub(crate) journal: Journal,
    pub(crate) faults: Faults,
    /// The token that is good now.
    pub(crate) token: Mutex<Option<String>>,
    pub(crate) identity: Option<Identity>,
    pub(crate) sent: Arc<AtomicU64>,
}

/// How the server meets connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    Open,
    /// Connections are accepted and never read.
    Mute,
    /// Nobody listens. The port stays ours.
    Closed,
}

/// Something the test's thread wants done; the answer says that it is.
#[derive(Debug)]
pub(crate) enum Command {
    Door(Door),
    /// End all connections.
    Cut(Cut),
}

/// A command with the way back.
pub(crate) type Commanded = (Command, mpsc::Sender<Result<(), Error>>);

/// The door as it is.
enum Entrance {
    Open(TcpListener),
    Mute(TcpListener, Vec<TcpStream>),
    /// Bound, so that nobody takes the port, yet not listening: connections are refused.
    Closed(TcpSocket),
}

/// A listener on `address`.
pub(crate) fn listen(address: SocketAddr) -> Result<TcpListener, Error> {
    let listening = bind(address)?.listen(BACKLOG);
    listening.map_err(|cause| Error::Listen { address, cause })
}

fn bind(address: SocketAddr) -> Result<TcpSocket, Error> {
    let bind = || {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok(socket)
    };
    bind().map_err(|cause| Error::Listen { address, cause })
}

/// Serves until the sender of `commands` is gone.
pub(crate) async fn run(
    shared: Arc<Shared>,
    listener: TcpListener,
    address: SocketAddr,
    mut commands: UnboundedReceiver<Commanded>,
) {
    let mut entrance = Entrance::Open(listener);
    let mut connections = JoinSet::new();
    let cut = broadcast::Sender::new(1);
    let mut count = 0;
    loop {
        tokio::select! {
            commanded = commands.recv() => {
                let Some((command, reply)) = commanded else { return };
                match command {
                    Command::Door(door) => match entrance.turn(door, address) {
                        Ok(turned) => entrance = turned,
                        Err(error) => {
                            // The test may have stopped waiting.
                            let _ = reply.send(Err(error));
                            return;
                        }
                    },
                    Command::Cut(how) => {
                        // Without connections nobody receives it.
                        let _ = cut.send(how);
                        while connections.join_next().await.is_some() {}
                    }
                }
                let _ = reply.send(Ok(()));
            }
            stream = entrance.accept() => {
                count += 1;
                let line = Arc::new(Line::new(count));
                let wire = Wire::new(stream, line.clone(), shared.sent.clone());
                let mut cut = cut.subscribe();
                let shared = shared.clone();
                connections.spawn(async move {
                    // The line must know its end before the socket is dropped.
                    let cut = async { line.end_by(cut.recv().await.unwrap_or(Cut::Close)) };
                    tokio::select! {
                        () = connection(shared, wire, line.clone()) => {}
                        () = cut => {}
                    }
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

impl Entrance {
    /// The next connection to answer.
    async fn accept(&mut self) -> TcpStream {
        loop {
            let accepted = match self {
                Self::Open(listener) => listener.accept().await,
                Self::Mute(listener, held) => {
                    if let Ok((stream, _)) = listener.accept().await {
                        held.push(stream);
                    }
                    continue;
                }
                Self::Closed(_) => std::future::pending().await,
            };
            match accepted {
                Ok((stream, _)) => {
                    // As Go's servers do: an event must not wait for the one before to be
                    // acknowledged. Where it fails, events are only late.
                    let _ = stream.set_nodelay(true);
                    return stream;
                }
                // The client gave up, or descriptors ran out: let others run, then try again.
                Err(_) => tokio::task::yield_now().await,
            }
        }
    }

    /// Changes the door. The port is free for an instant when it closes.
    fn turn(self, door: Door, address: SocketAddr) -> Result<Self, Error> {
        let listener = match self {
            Self::Closed(bound) if door == Door::Closed => return Ok(Self::Closed(bound)),
            Self::Closed(bound) => {
                let listening = bound.listen(BACKLOG);
                listening.map_err(|cause| Error::Listen { address, cause })?
            }
            Self::Open(listener) | Self::Mute(listener, _) => listener,
        };
        Ok(match door {
            Door::Open => Self::Open(listener),
            Door::Mute => Self::Mute(listener, Vec::new()),
            Door::Closed => {
                drop(listener);
                Self::Closed(bind(address)?)
            }
        })
    }
}

async fn connection(shared: Arc<Shared>, wire: Wire, line: Arc<Line>) {
    match &shared.identity {
        None => {
            http(
                shared,
                wire,
                Client {
                    line,
                    certified: false,
                },
            )
            .await
        }
        Some(identity) => {
            let acceptor = TlsAcceptor::from(identity.server());
            // A client that speaks no TLS or distrusts us has its own error to show.
            if let Ok(stream) = acceptor.accept(wire).await {
                let certified = stream.get_ref().1.peer_certificates().is_some();
                http(shared, stream, Client { line, certified }).await;
            }
        }
    }
}

async fn http(
    shared: Arc<Shared>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    client: Client,
) {
    let service = service_fn(|request| answer(shared.clone(), client.clone(), request));
    converse(stream, service, Limits::API).await;
}

impl Shared {
    /// Bytes written to all sockets so far.
    pub(crate) fn bytes_sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}
