//! The identity server, which plays a container: each port answers with the server's name and the client's address.

use std::fs;
use std::io::Write as _;
use std::net::{Ipv6Addr, SocketAddr};
use std::path::{Component, Path as FilePath, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use axum::Router;
use axum::extract::{ConnectInfo, Path, State};
use axum::http::{StatusCode, Uri};
use axum::response::{Html, IntoResponse as _, Response};
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

/// The part that a server plays.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// The name that it answers with.
    pub name: String,
    /// A folder whose files come before the other answers.
    pub pages: Option<PathBuf>,
    /// How long `/healthz` says that it is well; `None`: always.
    pub healthy_for: Option<Duration>,
    /// Whether `/` has a line `client_address=CLIENT` besides.
    pub tells_client: bool,
}

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
pub fn serve(part: Part, ports: &[Port]) -> anyhow::Result<()> {
    if ports.is_empty() {
        bail!("no port to serve");
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(run(part, ports))
}

async fn run(part: Part, ports: &[Port]) -> anyhow::Result<()> {
    let name = part.name.clone();
    let server = Arc::new((part, Instant::now()));
    let (stop, stopped) = tokio::sync::watch::channel(());
    let mut servers = JoinSet::new();
    for port in ports {
        match *port {
            Port::Tcp(number) => {
                let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, number)).await;
                let listener = listener.with_context(|| format!("listen on {port}"))?;
                let app = app(server.clone()).into_make_service_with_connect_info::<SocketAddr>();
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
                servers.spawn(answer_datagrams(socket, name.clone(), stopped.clone()));
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

/// A part, and since when it is played.
type Server = State<Arc<(Part, Instant)>>;

fn app(server: Arc<(Part, Instant)>) -> Router {
    Router::new()
        .route("/", get(identity))
        .route(
            "/hostname",
            get(|State(server): Server| async move { server.0.name.clone() }),
        )
        .route("/clientip", get(client))
        .route("/healthz", get(health))
        .route("/slow/{seconds}", get(slow))
        .fallback(get(|State(server): Server, uri: Uri| async move {
            let page = page(&server.0, uri.path());
            page.ok_or(StatusCode::NOT_FOUND)
        }))
        .with_state(server)
}

async fn identity(State(server): Server, ConnectInfo(peer): ConnectInfo<SocketAddr>) -> Response {
    let part = &server.0;
    if let Some(page) = page(part, "/index.html") {
        return page.into_response();
    }
    let mut text = line(&part.name, peer);
    if part.tells_client {
        text += &format!("client_address={}\n", peer.ip().to_canonical());
    }
    text.into_response()
}

/// A file that somebody wrote where the image has its pages.
fn page(part: &Part, path: &str) -> Option<Html<Vec<u8>>> {
    let below = FilePath::new(path.trim_start_matches('/'));
    let is_below = below
        .components()
        .all(|it| matches!(it, Component::Normal(_)));
    let folder = part.pages.as_ref().filter(|_| is_below)?;
    fs::read(folder.join(below)).ok().map(Html)
}

async fn health(State(server): Server) -> (StatusCode, String) {
    let (part, since) = &*server;
    let age = since.elapsed();
    if part.healthy_for.is_some_and(|it| age > it) {
        let text = format!("error: {age:?}");
        return (StatusCode::INTERNAL_SERVER_ERROR, text);
    }
    (StatusCode::OK, "ok".to_owned())
}

async fn client(ConnectInfo(peer): ConnectInfo<SocketAddr>) -> String {
    format!(
        "{}\n",
        SocketAddr::new(peer.ip().to_canonical(), peer.port())
    )
}

async fn slow(
    State(server): Server,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    Path(seconds): Path<u8>,
) -> (StatusCode, String) {
    sleep(Duration::from_secs(seconds.into())).await;
    (StatusCode::OK, line(&server.0.name, peer))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_those_of_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let pages = folder.path().join("pages");
        fs::create_dir_all(pages.join("sub")).unwrap();
        fs::write(pages.join("sub/a.html"), "a").unwrap();
        fs::write(folder.path().join("secret"), "b").unwrap();
        let part = Part {
            pages: Some(pages),
            ..Part::default()
        };
        let found = |part: &Part, path: &str| page(part, path).map(|it| it.0);
        assert_eq!(found(&part, "/sub/a.html"), Some(b"a".to_vec()));
        for path in [
            "/../secret",
            "/sub/../../secret",
            "//etc/passwd",
            "/sub",
            "/",
        ] {
            assert_eq!(found(&part, path), None, "{path}");
        }
        assert_eq!(found(&Part::default(), "/sub/a.html"), None);
    }

    #[tokio::test]
    async fn health_ends_when_it_is_to_end() {
        let of = |healthy_for: Option<u64>| Part {
            healthy_for: healthy_for.map(Duration::from_secs),
            ..Part::default()
        };
        let long_ago = Instant::now().checked_sub(Duration::from_secs(11)).unwrap();
        for (part, since, expected) in [
            (of(None), long_ago, StatusCode::OK),
            (of(Some(10)), long_ago, StatusCode::INTERNAL_SERVER_ERROR),
            (of(Some(1000)), Instant::now(), StatusCode::OK),
        ] {
            let said = health(State(Arc::new((part, since)))).await;
            assert_eq!(said.0, expected);
        }
    }
}
