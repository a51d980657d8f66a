//! Everything that others ask the agent: health over TCP, status over a unix socket, signals.
//!
//! All of it lives on one thread with one small runtime, so that no question can slow a sync.

use std::fs::{self, Permissions};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use jiff::Timestamp;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use crate::agent::Input;
use crate::flock::Lock;
use crate::health::Health;

/// Between attempts to get the health port, as kube-proxy does.
const BIND_PERIOD: Duration = Duration::from_secs(5);
/// How long a status may take: the agent answers between two syncs.
const STATUS_TIMEOUT: Duration = Duration::from_secs(10);

/// What to serve where.
#[derive(Debug)]
pub struct Server {
    /// Address of the health server; `None` for no such server.
    pub health_address: Option<SocketAddr>,
    /// The status socket.
    pub socket: PathBuf,
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
    /// The status socket cannot be made or no thread started. A health port that is taken is no
    /// error: it is tried again.
    pub fn start(
        self,
        lock: Lock,
        health: Arc<Health>,
        inputs: Sender<Input>,
    ) -> Result<Served, ServerError> {
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
        drop(guard);
        let address = self.health_address;
        let serve = move || {
            runtime.spawn(signals.forward(inputs.clone()));
            if let Some(address) = address {
                runtime.spawn(serve_health(address, health));
            }
            let status = Router::new()
                .route("/status", get(status))
                .with_state(inputs);
            if let Err(error) = runtime.block_on(axum::serve(listener, status).into_future()) {
                warn!(%error, "status server ended: `sluice status` gets no answer");
            }
        };
        let spawned = thread::Builder::new().name("server".into()).spawn(serve);
        spawned.map_err(failed("start server thread"))?;
        Ok(served)
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

async fn serve_health(address: SocketAddr, health: Arc<Health>) {
    let mut said = false;
    let listener = loop {
        match TcpListener::bind(address).await {
            Ok(listener) => break listener,
            Err(error) if said => tracing::debug!(%address, %error, "health port still taken"),
            Err(error) => {
                warn!(%address, %error, "health port not available: trying every 5 s");
                said = true;
            }
        }
        sleep(BIND_PERIOD).await;
    };
    if said {
        info!(%address, "health port available now");
    }
    let routes = health_routes(health);
    if let Err(error) = axum::serve(listener, routes).await {
        warn!(%error, "health server ended: load balancers will avoid this node");
    }
}

fn health_routes(health: Arc<Health>) -> Router {
    Router::new()
        .route("/healthz", get(report_health))
        .route("/livez", get(report_health))
        .with_state(health)
}

async fn report_health(State(health): State<Arc<Health>>) -> Response {
    let report = health.report(Instant::now(), Timestamp::now());
    let status = match report.healthy {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    let nosniff = (HeaderName::from_static("x-content-type-options"), "nosniff");
    (status, [nosniff], Json(report)).into_response()
}

async fn status(State(inputs): State<Sender<Input>>) -> Response {
    let (reply, answer) = oneshot::channel();
    let unavailable = |why: &'static str| {
        let plain = [(header::CONTENT_TYPE, "text/plain")];
        (StatusCode::SERVICE_UNAVAILABLE, plain, why).into_response()
    };
    if inputs.send(Input::Status(reply)).is_err() {
        return unavailable("the agent is stopping\n");
    }
    match timeout(STATUS_TIMEOUT, answer).await {
        Ok(Ok(status)) => Json(status).into_response(),
        Ok(Err(_)) => unavailable("the agent is stopping\n"),
        Err(_) => unavailable("the agent is busy with a sync\n"),
    }
}

#[cfg(test)]
mod tests;
