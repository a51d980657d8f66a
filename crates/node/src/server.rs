//! The servers of health, metrics and the web page over TCP and of the status over a unix socket; signals.
//!
//! All of them run on one thread with one runtime, so that no request can slow a sync, and share the
//! budget of connections of the process.

mod answer;
mod debug;
mod health;
mod metrics;
mod profile;
mod programs;
mod socket;
mod status;
mod web;
mod zpages;

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use axum::Router;
use sluice_http::Budget;
use sluice_model::{Announcement, Node, Reference};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::sleep;
use tracing::{info, warn};

pub use answer::{Tags, await_answer, json, plain, query};
pub use debug::SetVerbosity;
pub use metrics::MetricsServer;
pub use programs::Programs;
#[cfg(test)]
pub(crate) use socket::listen_on;
pub use web::{Page, Token, WebServer, guarded};

use crate::error::{NodeError, failed};
use crate::flock::Lock;
use crate::health::Health;
use crate::metrics::Metrics;
use crate::runtime::Control;
use socket::StatusSocket;

/// Pause between attempts to bind a port that is in use; kube-proxy uses the same.
const BIND_PERIOD: Duration = Duration::from_secs(5);

/// How long the programs that the loop waits for may go on when the agent is asked to stop.
const STOP_TAKES: Duration = Duration::from_secs(2);

/// A server that runs on the thread of the servers for as long as the process, within their budget of connections.
pub type OwnServer =
    Box<dyn FnOnce(Arc<Budget>) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// Gets the problems of the status socket; none when it is served.
pub type ReportProblem = Box<dyn Fn(Vec<String>) + Send>;

/// Pages and paths that consumers add to the servers.
#[derive(Debug)]
pub struct Shown {
    /// Paths of the status socket beside `/status`.
    pub questions: Router,
    /// The web page.
    pub page: Page,
    /// Paths of the web page's data beside `/api/status`.
    pub data: Router,
}

/// All servers of the process.
pub struct Server {
    /// The status socket. Where its file system is full or read-only, the agent works without it, and tries again.
    pub socket: PathBuf,
    /// Told whether the status socket is served.
    pub report_socket: ReportProblem,
    /// Address of the health server; `None` for no such server.
    pub health_address: Option<SocketAddr>,
    /// The metrics server; `None` for no such server.
    pub metrics_server: Option<MetricsServer>,
    /// The web page; `None` for no such server.
    pub web_server: Option<WebServer>,
    /// Whether a port that is taken is an error (kube-proxy's `bindAddressHardFail`); else it is
    /// tried again every five seconds.
    pub bind_hard_fail: bool,
    /// Name of the node that Events about taken ports are about.
    pub node_name: Arc<str>,
    /// The connections of all servers of the process together.
    pub budget: Arc<Budget>,
    /// The answers of the health server.
    pub health: Arc<Health>,
    /// The answers of the metrics server.
    pub metrics: Arc<Metrics>,
    /// Servers of consumers.
    pub others: Vec<OwnServer>,
    /// Gets Events about taken ports.
    pub announce: Sender<Announcement>,
    /// The runtime.
    pub control: Control,
    /// The programs that the runtime's consumers run.
    pub programs: Programs,
    /// Pages and paths of consumers.
    pub shown: Shown,
}

/// Running servers. Dropping it removes the status socket.
#[derive(Debug)]
pub struct Served {
    socket: PathBuf,
    /// The socket is ours.
    is_made: Arc<AtomicBool>,
}

impl Drop for Served {
    fn drop(&mut self) {
        if self.is_made.load(Ordering::Relaxed) {
            // The next agent replaces a socket that stays.
            let _ = fs::remove_file(&self.socket);
        }
    }
}

impl Server {
    /// Starts serving. The lock shows that no other agent uses the socket.
    ///
    /// # Errors
    ///
    /// The status socket cannot be made although there is room, no thread can be started, or a port is taken with
    /// `bind_hard_fail`.
    pub fn start(self, lock: Lock) -> Result<Served, NodeError> {
        let mut socket = StatusSocket {
            path: self.socket.clone(),
            lock,
            listener: None,
            is_made: Arc::default(),
            report: self.report_socket,
        };
        socket.open()?;
        let served = Served {
            socket: self.socket,
            is_made: socket.is_made.clone(),
        };
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build();
        let runtime = runtime.map_err(failed("start server runtime"))?;
        let in_runtime = runtime.enter();
        let terminate = signal(SignalKind::terminate()).map_err(failed("watch signals"))?;
        let interrupt = signal(SignalKind::interrupt()).map_err(failed("watch signals"))?;
        let Shown {
            questions,
            page,
            data,
        } = self.shown;
        let port = |server, reason, address, routes| Port {
            server,
            reason,
            address,
            routes,
            listener: None,
        };
        let mut ports = Vec::new();
        if let Some(address) = self.health_address {
            let routes = health::routes(self.health.clone(), self.metrics.clone());
            let reason = "FailedToStartProxierHealthcheck";
            ports.push(port("health", reason, address, routes));
        }
        if let Some(server) = self.metrics_server {
            let (address, reason) = (server.address, "FailedToStartMetricServer");
            let routes = metrics::routes(server, self.metrics.clone());
            ports.push(port("metrics", reason, address, routes));
        }
        if let Some(server) = self.web_server {
            let address = server.address;
            let routes = web::routes(server, page, self.control.clone(), data);
            ports.push(port("web", "FailedToStartWebServer", address, routes));
        }
        for port in &mut ports {
            match port.listen() {
                Ok(listener) => port.listener = Some(listener),
                Err(error) => {
                    // The receiver may have ended; log or caller have the error too.
                    let _ = self.announce.send(port.taken(&self.node_name, &error));
                    if self.bind_hard_fail {
                        return Err(failed(port.describe())(error));
                    }
                    warn!(port = port.describe(), %error, "port not available: trying every 5 s");
                }
            }
        }
        drop(in_runtime);
        let budget = self.budget;
        let serve = move || {
            let stop = self.programs.end_all;
            runtime.spawn(forward_signals(
                terminate,
                interrupt,
                self.control.clone(),
                stop,
            ));
            runtime.spawn(self.programs.watch());
            ports.into_iter().for_each(|it| {
                runtime.spawn(it.serve(budget.clone()));
            });
            self.others.into_iter().for_each(|serve| {
                runtime.spawn(serve(budget.clone()));
            });
            let status = status::routes(self.control, self.programs, questions);
            runtime.block_on(socket.serve(status, budget));
            // Without the socket: the others go on.
            runtime.block_on(std::future::pending::<()>());
        };
        let spawned = thread::Builder::new().name("server".into()).spawn(serve);
        spawned.map_err(failed("start server thread"))?;
        Ok(served)
    }
}

/// A TCP server that runs for as long as the process.
#[derive(Debug)]
struct Port {
    server: &'static str,
    /// The reason of the Event about a taken port: kube-proxy's, where it has such a server.
    reason: &'static str,
    address: SocketAddr,
    routes: Router,
    /// `None` while the port is taken.
    listener: Option<TcpListener>,
}

impl Port {
    fn describe(&self) -> String {
        format!("listen on {} for the {} server", self.address, self.server)
    }

    fn taken(&self, node_name: &Arc<str>, error: &io::Error) -> Announcement {
        Announcement {
            about: Reference::cluster_scoped::<Node>(node_name),
            is_warning: true,
            reason: self.reason,
            action: "StartKubeProxy",
            note: format!("{}: {error}", self.describe()),
        }
    }

    fn listen(&self) -> io::Result<TcpListener> {
        let address = sluice_http::widened(self.address);
        sluice_http::listen(sluice_http::socket(address)?, address)
    }

    /// Serves as soon as the port is free.
    async fn serve(mut self, budget: Arc<Budget>) {
        while self.listener.is_none() {
            sleep(BIND_PERIOD).await;
            self.listener = self.listen().ok();
            if self.listener.is_some() {
                info!(port = self.describe(), "port available now");
            }
        }
        if let Some(listener) = self.listener {
            sluice_http::serve(listener, self.routes, budget).await;
        }
    }
}

/// Stops the agent at the first SIGTERM or SIGINT, with the programs that it waits for, and exits at the second.
async fn forward_signals(
    mut terminate: Signal,
    mut interrupt: Signal,
    control: Control,
    end_programs: fn(),
) {
    for is_first in [true, false] {
        let signal = tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        };
        info!(signal, "asked to stop");
        if is_first {
            tokio::spawn(async move {
                sleep(STOP_TAKES).await;
                end_programs();
            });
        }
        if !is_first || !control.stop() {
            // The kernel applies a pending transaction whole or not at all.
            #[expect(
                clippy::disallowed_methods,
                reason = "the agent does not stop by itself"
            )]
            std::process::exit(1);
        }
    }
}

#[cfg(test)]
mod tests;
