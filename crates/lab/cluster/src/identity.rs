//! The identity server, which plays a container: each port answers with the server's name and the client's address.

use std::io::Write as _;
use std::net::{Ipv6Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, bail};
use axum::Router;
use axum::extract::{ConnectInfo, Path, State};
use axum::http::StatusCode;
use axum::routing::get;
use tokio::net::{TcpListener, UdpSocket};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// As `println!`, without a panic: the log may be on a full disk.
macro_rules! say {
    ($($text:tt)*) => { drop(writeln!(std::io::stdout(), $($text)*)) };
}

/// How long a server accepts connections after SIGTERM, until every proxy has removed it. In production a `preStop`
/// hook sleeps for that time.
const DRAIN: Duration = Duration::from_secs(2);

/// Longest time after [`DRAIN`] that open requests may take.
const LAST: Duration = Duration::from_secs(5);

/// A port to serve, and its protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// HTTP: `/` is `NAME CLIENT PORT`, `/hostname`, `/clientip`, `/healthz`, `/slow/SECONDS`.
    Tcp(u16),
    /// Each datagram is answered with `NAME CLIENT PORT`.
    Udp(u16),
}

impl std::str::FromStr for Port {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (number, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
        let number = number.parse().map_err(|it| format!("{text}: {it}"))?;
        match protocol {
            "tcp" => Ok(Self::Tcp(number)),
            "udp" => Ok(Self::Udp(number)),
            _ => Err(format!("{text}: tcp or udp")),
        }
    }
}

impl std::fmt::Display for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(number) => write!(f, "{number}/tcp"),
            Self::Udp(number) => write!(f, "{number}/udp"),
        }
    }
}

/// Serves until SIGTERM or SIGINT; `sluice lab identity`.
///
/// # Errors
///
/// A port is in use.
pub fn serve(name: &str, ports: &[Port]) -> anyhow::Result<()> {
    if ports.is_empty() {
        bail!("no port to serve");
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(run(name, ports))
}

async fn run(name: &str, ports: &[Port]) -> anyhow::Result<()> {
    let (stop, stopped) = tokio::sync::watch::channel(());
    let mut servers = JoinSet::new();
    for port in ports {
        match *port {
            Port::Tcp(number) => {
                let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, number)).await;
                let listener = listener.with_context(|| format!("listen on {port}"))?;
                let app = app(name).into_make_service_with_connect_info::<SocketAddr>();
                let mut stopped = stopped.clone();
                let ended = async move { drop(stopped.changed().await) };
                servers.spawn(async move {
                    #[expect(
                        clippy::disallowed_methods,
                        reason = "a pod of the lab, which serves what users run"
                    )]
                    let server = axum::serve(listener, app).with_graceful_shutdown(ended);
                    drop(server.await);
                });
            }
            Port::Udp(number) => {
                let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, number)).await;
                let socket = socket.with_context(|| format!("listen on {port}"))?;
                servers.spawn(answer_datagrams(socket, name.to_owned(), stopped.clone()));
            }
        }
        say!("{name} listens on {port}");
    }
    let (mut term, mut int) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );
    tokio::select! {
        _ = term.recv() => say!("{name} was asked to end"),
        _ = int.recv() => {}
    }
    sleep(DRAIN).await;
    drop(stop);
    let all = async { while servers.join_next().await.is_some() {} };
    if timeout(LAST, all).await.is_err() {
        say!("{name} leaves open requests");
    }
    Ok(())
}

fn app(name: &str) -> Router {
    let name = name.to_owned();
    Router::new()
        .route("/", get(identity))
        .route(
            "/hostname",
            get(|State(name): State<String>| async { name }),
        )
        .route("/clientip", get(client))
        .route("/healthz", get(|| async { "ok" }))
        .route("/slow/{seconds}", get(slow))
        .with_state(name)
}

async fn identity(
    State(name): State<String>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
) -> String {
    line(&name, peer)
}

async fn client(ConnectInfo(peer): ConnectInfo<SocketAddr>) -> String {
    format!(
        "{}\n",
        SocketAddr::new(peer.ip().to_canonical(), peer.port())
    )
}

async fn slow(
    State(name): State<String>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    Path(seconds): Path<u8>,
) -> (StatusCode, String) {
    sleep(Duration::from_secs(seconds.into())).await;
    (StatusCode::OK, line(&name, peer))
}

fn line(name: &str, peer: SocketAddr) -> String {
    format!("{name} {} {}\n", peer.ip().to_canonical(), peer.port())
}

async fn answer_datagrams(
    socket: UdpSocket,
    name: String,
    mut stopped: tokio::sync::watch::Receiver<()>,
) {
    let mut buffer = [0; 2048];
    loop {
        tokio::select! {
            _ = stopped.changed() => return,
            received = socket.recv_from(&mut buffer) => {
                // An error concerns one datagram only.
                if let Ok((_, peer)) = received {
                    drop(socket.send_to(line(&name, peer).as_bytes(), peer).await);
                }
            }
        }
    }
}
