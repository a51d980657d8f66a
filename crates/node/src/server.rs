//! Everything that others ask the agent: health and metrics over TCP, status over a unix socket,
//! signals.
//!
//! All of it lives on one thread with one small runtime, so that no question can slow a sync.

mod debug;
mod health;
pub(crate) mod listen;
mod metrics;
mod profile;

use std::fs::{self, Permissions};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use sluice_model::{Announcement, ObjectKey};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

pub use debug::{Profiling, SetVerbosity};
pub use metrics::MetricsServer;

use crate::agent::Input;
use crate::flock::Lock;
use crate::health::Health;
use crate::health_check::{HealthCheckServers, Links};
use crate::metrics::Metrics;

/// Between attempts to get a port, as kube-proxy does.
const BIND_PERIOD: Duration = Duration::from_secs(5);
/// How long a status may take: the agent answers between two syncs.
const STATUS_TIMEOUT: Duration = Duration::from_secs(10);

/// What happens when a port is taken (kube-proxy's `bindAddressHardFail`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortTaken {
    /// It is tried every five seconds.
    Retry,
    /// The process does not start.
    Fail,
}

/// What to serve where.
#[derive(Debug)]
pub struct Server {
    /// The status socket.
    pub socket: PathBuf,
    /// Address of the health server; `None` for no such server.
    pub health_address: Option<SocketAddr>,
    /// The metrics server; `None` for no such server.
    pub metrics: Option<MetricsServer>,
    /// When one of these ports is taken.
    pub port_taken: PortTaken,
    /// Name of the node, to announce that one is.
    pub node_name: Arc<str>,
}

/// Whom the servers ask and tell.
#[derive(Debug)]
pub struct Wires {
    /// What the health server says.
    pub health: Arc<Health>,
    /// What the metrics server says.
    pub metrics: Arc<Metrics>,
    /// The servers of health check node ports.
    pub health_checks: HealthCheckServers,
    /// Hears of ports that are taken.
    pub announce: Sender<Announcement>,
    /// The agent.
    pub inputs: Sender<Input>,
}

/// The servers; removes the socket when dropped.
#[derive(Debug)]
pub struct Served {
    socket: PathBuf,
    _lock: Lock,
}

impl Drop for Served {
    fn drop(&mut self) {
        // A socket that stays is replaced by the next agent.
        let _ = fs::remove_file(&self.socket);
    }
}

/// Why the servers could not start.
#[derive(Debug, thiserror::Error)]
#[error("{operation}: {source}")]
pub struct ServerError {
    /// What was tried, with its object.
    pub operation: String,
    /// What the system said.
    pub source: io::Error,
}

fn failed(operation: impl Into<String>) -> impl FnOnce(io::Error) -> ServerError {
    let operation = operation.into();
    move |source| ServerError { operation, source }
}

impl Server {
    /// Starts serving. The lock shows that no other agent uses the socket.
    ///
    /// # Errors
    /// The status socket cannot be made or no thread started. A port that is taken is an error
    /// only with [`PortTaken::Fail`].
    pub fn start(self, lock: Lock, wires: Wires) -> Result<Served, ServerError> {
        let listener = listen(&self.socket)?;
        let served = Served {
            socket: self.socket,
            _lock: lock,
        };
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build();
        let runtime = runtime.map_err(failed("start server runtime"))?;
        let guard = runtime.enter();
        let listener = tokio::net::UnixListener::from_std(listener);
        let listener = listener.map_err(failed("watch status socket"))?;
        let signals = Signals::new().map_err(failed("watch signals"))?;
        let mut ports = Vec::new();
        if let Some(address) = self.health_address {
            let routes = health::routes(wires.health.clone(), wires.metrics.clone());
            ports.push((Port::health(address), routes));
        }
        if let Some(server) = self.metrics {
            let port = Port::metrics(server.address);
            ports.push((port, metrics::routes(server, wires.metrics.clone())));
        }
        let announcer = Announcer {
            node: ObjectKey::Node(self.node_name),
            announce: wires.announce.clone(),
        };
        let mut opened = Vec::new();
        for (port, routes) in ports {
            let listener = match (listen::bind(port.address), self.port_taken) {
                (Ok(listener), _) => Some(listener),
                (Err(error), PortTaken::Fail) => {
                    announcer.taken(&port, &error);
                    return Err(failed(port.describe())(error));
                }
                (Err(error), PortTaken::Retry) => {
                    announcer.taken(&port, &error);
                    warn!(port = port.describe(), %error, "port not available: trying every 5 s");
                    None
                }
            };
            opened.push((port, listener, routes));
        }
        drop(guard);
        let metrics = wires.metrics.clone();
        let links = Links {
            health: wires.health,
            metrics: wires.metrics,
            announce: wires.announce,
        };
        let serve = move || {
            runtime.spawn(signals.forward(wires.inputs.clone()));
            for (port, listener, routes) in opened {
                runtime.spawn(port.serve(listener, routes));
            }
            runtime.spawn(wires.health_checks.run(links));
            let status = Router::new()
                .route("/status", get(status))
                .with_state(wires.inputs)
                .route("/connections", get(connections))
                .with_state(metrics);
            runtime.block_on(listen::serve(listener, status));
        };
        let spawned = thread::Builder::new().name("server".into()).spawn(serve);
        spawned.map_err(failed("start server thread"))?;
        Ok(served)
    }
}

/// A TCP port that the process has for as long as it lives.
#[derive(Debug)]
struct Port {
    server: &'static str,
    address: SocketAddr,
    /// The reason to announce when it is taken, as kube-proxy's.
    reason: &'static str,
}

impl Port {
    fn health(address: SocketAddr) -> Self {
        Self {
            server: "health",
            address,
            reason: "FailedToStartProxierHealthcheck",
        }
    }

    fn metrics(address: SocketAddr) -> Self {
        Self {
            server: "metrics",
            address,
            reason: "FailedToStartMetricServer",
        }
    }

    fn describe(&self) -> String {
        format!("listen on {} for the {} server", self.address, self.server)
    }

    /// Serves, when the port is there.
    async fn serve(self, mut listener: Option<TcpListener>, routes: Router) {
        let listener = loop {
            match listener.take() {
                Some(listener) => break listener,
                None => {
                    sleep(BIND_PERIOD).await;
                    listener = listen::bind(self.address).ok();
                    if listener.is_some() {
                        info!(port = self.describe(), "port available now");
                    }
                }
            }
        };
        listen::serve(listener, routes).await;
    }
}

struct Announcer {
    node: ObjectKey,
    announce: Sender<Announcement>,
}

impl Announcer {
    fn taken(&self, port: &Port, error: &io::Error) {
        let announcement = Announcement {
            about: self.node.clone(),
            is_warning: true,
            reason: port.reason,
            action: "StartKubeProxy",
            note: format!("{}: {error}", port.describe()),
        };
        // Whoever passes announcements on has gone; the caller or the log says it too.
        let _ = self.announce.send(announcement);
    }
}

/// The socket file of a dead agent is in the way of a new one; the lock shows that it is dead.
fn listen(path: &Path) -> Result<UnixListener, ServerError> {
    let name = path.display();
    let is_socket = fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket());
    if is_socket {
        fs::remove_file(path).map_err(failed(format!("remove old socket {name}")))?;
    }
    let listener = UnixListener::bind(path).map_err(failed(format!("bind socket {name}")))?;
    let mode = fs::set_permissions(path, Permissions::from_mode(0o600));
    mode.map_err(failed(format!("protect socket {name}")))?;
    let nonblocking = listener.set_nonblocking(true);
    nonblocking.map_err(failed(format!("configure socket {name}")))?;
    Ok(listener)
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }

    async fn forward(mut self, inputs: Sender<Input>) {
        let signal = self.next().await;
        info!(signal, "asked to stop");
        if inputs.send(Input::Stop).is_ok() {
            self.next().await;
        }
        // The transaction in flight is applied by the kernel whole or not at all.
        std::process::exit(1);
    }
}

fn sorry(status: StatusCode, why: impl IntoResponse) -> Response {
    let plain = [(header::CONTENT_TYPE, "text/plain")];
    (status, plain, why).into_response()
}

async fn status(State(inputs): State<Sender<Input>>) -> Response {
    let (reply, answer) = oneshot::channel();
    let unavailable = |why| sorry(StatusCode::SERVICE_UNAVAILABLE, why);
    if inputs.send(Input::Status(reply)).is_err() {
        return unavailable("the agent is stopping\n");
    }
    match timeout(STATUS_TIMEOUT, answer).await {
        Ok(Ok(status)) => Json(status).into_response(),
        Ok(Err(_)) => unavailable("the agent is stopping\n"),
        Err(_) => unavailable("the agent is busy with a sync\n"),
    }
}

async fn connections(State(metrics): State<Arc<Metrics>>) -> Response {
    let Some(connections) = metrics.connections() else {
        let why = format!("{}\n", metrics.plane().uncounted);
        return sorry(StatusCode::NOT_FOUND, why);
    };
    connections.refresh().await;
    Json(connections.report()).into_response()
}

#[cfg(test)]
mod tests;
