//! Health check node ports: whether a load balancer that keeps client addresses should send
//! connections to this node (`spec.healthCheckNodePort`).
//!
//! ```text
//! Agent ──update──▶ latest wish ─▶ listeners ─▶ one small HTTP server per Service and address
//!                                    │  ▲
//!                       announce ◀───┘  └── retry while a port is taken
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use nix::sys::socket::{setsockopt, sockopt};
use sluice_model::Announcement;
use sluice_model::{IpFamily, NamespacedName, ObjectKey};
use sluice_plan::HealthCheck;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::{info, warn};

use crate::health::Health;
use crate::metrics::Metrics;
use crate::server::listen::serve;

/// Between attempts to get ports that others have.
const RETRY_PERIOD: Duration = Duration::from_secs(5);
/// Connections that the kernel keeps until they are accepted.
const BACKLOG: u32 = 128;

/// What the servers are to say.
#[derive(Debug, Default)]
struct Wanted {
    checks: BTreeMap<NamespacedName, HealthCheck>,
    addresses: BTreeSet<IpAddr>,
}

/// Tells the servers what to say. Never waits.
#[derive(Debug)]
pub struct HealthChecks(watch::Sender<Wanted>);

/// The servers, before they start.
#[derive(Debug)]
pub struct HealthCheckServers(watch::Receiver<Wanted>);

/// Both ends.
pub fn health_checks() -> (HealthChecks, HealthCheckServers) {
    let (sender, receiver) = watch::channel(Wanted::default());
    (HealthChecks(sender), HealthCheckServers(receiver))
}

impl HealthChecks {
    /// Serves these checks on these addresses from now on; an unspecified address stands for all
    /// of its family. Listeners that stay the same stay open. Ports that could not be had are
    /// tried again.
    pub fn update(
        &self,
        checks: &BTreeMap<NamespacedName, HealthCheck>,
        addresses: &BTreeSet<IpAddr>,
    ) {
        self.0.send_modify(|wanted| {
            if wanted.checks != *checks {
                wanted.checks.clone_from(checks);
            }
            if wanted.addresses != *addresses {
                wanted.addresses.clone_from(addresses);
            }
        });
    }
}

/// Who the servers tell, and whom they ask.
#[derive(Clone, Debug)]
pub(crate) struct Links {
    pub(crate) health: Arc<Health>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) announce: Sender<Announcement>,
}

impl HealthCheckServers {
    /// Serves until the other end is dropped.
    pub(crate) async fn run(mut self, links: Links) {
        let mut servers = Servers::new(links);
        loop {
            let (targets, lost) = {
                let wanted = self.0.borrow_and_update();
                targets(&wanted)
            };
            let complete = servers.renew(targets, lost).await;
            let changed = match complete {
                true => self.0.changed().await,
                false => match timeout(RETRY_PERIOD, self.0.changed()).await {
                    Ok(changed) => changed,
                    Err(_) => Ok(()),
                },
            };
            if changed.is_err() {
                return;
            }
        }
    }
}

/// What is to listen on one address and port.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Target {
    service: NamespacedName,
    local_endpoints: usize,
}

/// Who listens where, and what cannot be. Two Services cannot have one port: the first by name
/// gets it.
fn targets(
    wanted: &Wanted,
) -> (
    BTreeMap<SocketAddr, Target>,
    BTreeMap<NamespacedName, String>,
) {
    let mut targets = BTreeMap::new();
    let mut lost = BTreeMap::new();
    let mut holders = BTreeMap::new();
    for (service, check) in &wanted.checks {
        let holder = *holders.entry(check.port).or_insert(service);
        if holder != service {
            let problem = format!("Service {holder} has the same health check node port");
            lost.insert(service.clone(), problem);
            continue;
        }
        for address in &wanted.addresses {
            let Some(local_endpoints) = check.local_endpoints(IpFamily::of(address)) else {
                continue;
            };
            let target = Target {
                service: service.clone(),
                local_endpoints,
            };
            targets.insert(SocketAddr::new(*address, check.port.get()), target);
        }
    }
    (targets, lost)
}

/// An open port.
#[derive(Debug)]
struct Open {
    service: NamespacedName,
    local_endpoints: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Servers {
    links: Links,
    open: BTreeMap<SocketAddr, Open>,
    /// What was said and still holds, by Service.
    announced: BTreeMap<NamespacedName, String>,
}

impl Servers {
    fn new(links: Links) -> Self {
        Self {
            links,
            open: BTreeMap::new(),
            announced: BTreeMap::new(),
        }
    }

    /// Makes what is open what should be. `false`: some port could not be had.
    async fn renew(
        &mut self,
        targets: BTreeMap<SocketAddr, Target>,
        lost: BTreeMap<NamespacedName, String>,
    ) -> bool {
        self.close_others(&targets).await;
        let mut failures = BTreeMap::new();
        for (address, target) in targets {
            if let Some(open) = self.open.get(&address) {
                let count = &open.local_endpoints;
                count.store(target.local_endpoints, Ordering::Relaxed);
                continue;
            }
            match listen(address) {
                Ok(listener) => self.open(address, target, listener),
                Err(error) => {
                    let problem = format!("listen on {address}: {error}");
                    failures.entry(target.service).or_insert(problem);
                }
            }
        }
        let complete = failures.is_empty();
        failures.extend(lost);
        self.announce(failures);
        let served: BTreeSet<_> = self.open.values().map(|it| &it.service).collect();
        let gauge = &self.links.metrics.ours.health_checks;
        gauge.set(i64::try_from(served.len()).unwrap_or(i64::MAX));
        complete
    }

    async fn close_others(&mut self, targets: &BTreeMap<SocketAddr, Target>) {
        let is_target = |address: &SocketAddr, open: &mut Open| {
            let target = targets.get(address);
            target.is_none_or(|it| it.service != open.service)
        };
        let mut closing = Vec::new();
        for (_, open) in self.open.extract_if(.., is_target) {
            open.task.abort();
            closing.push(open.task);
        }
        // Only then are the ports free for others.
        for task in closing {
            let _ = task.await;
        }
    }

    fn open(&mut self, address: SocketAddr, target: Target, listener: TcpListener) {
        let local_endpoints = Arc::new(AtomicUsize::new(target.local_endpoints));
        let page = Page {
            service: target.service.clone(),
            local_endpoints: local_endpoints.clone(),
            health: self.links.health.clone(),
        };
        let routes = Router::new().fallback(answer).with_state(Arc::new(page));
        let open = Open {
            service: target.service,
            local_endpoints,
            task: tokio::spawn(serve(listener, routes)),
        };
        self.open.insert(address, open);
    }

    /// Says what is new, once.
    fn announce(&mut self, failures: BTreeMap<NamespacedName, String>) {
        for (service, problem) in &failures {
            if self.announced.get(service) == Some(problem) {
                continue;
            }
            warn!(%service, problem, "health check node port not served: will retry");
            let announcement = Announcement {
                about: ObjectKey::Service(service.clone()),
                is_warning: true,
                reason: "FailedToStartServiceHealthcheck",
                action: "Listen",
                note: format!("health check node port: {problem}"),
            };
            // Whoever passes announcements on has gone; the log has it.
            let _ = self.links.announce.send(announcement);
        }
        let solved = self.announced.keys();
        for service in solved.filter(|it| !failures.contains_key(*it)) {
            info!(%service, "health check node port: solved");
        }
        self.announced = failures;
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.open.values().for_each(|it| it.task.abort());
    }
}

/// Both families may listen on the same port of all their addresses.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => {
            let socket = TcpSocket::new_v6()?;
            setsockopt(&socket, sockopt::Ipv6V6Only, &true)?;
            socket
        }
    };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// What the server of one Service needs to answer.
#[derive(Debug)]
struct Page {
    service: NamespacedName,
    local_endpoints: Arc<AtomicUsize>,
    health: Arc<Health>,
}

/// The same on every path, in the very form of kube-proxy
/// (`pkg/proxy/healthcheck/service_health.go`): load balancers may compare text.
async fn answer(State(page): State<Arc<Page>>) -> Response {
    let count = page.local_endpoints.load(Ordering::Relaxed);
    let healthy = page.health.is_healthy(Instant::now());
    let status = match count > 0 && healthy {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    let NamespacedName { namespace, name } = &page.service;
    let body = format!(
        "{{\n\t\"service\": {{\n\t\t\"namespace\": \"{namespace}\",\n\t\t\"name\": \"{name}\"\n\t}},\n\
         \t\"localEndpoints\": {count},\n\t\"serviceProxyHealthy\": {healthy}\n}}"
    );
    let head = [
        (header::CONTENT_TYPE, "application/json".to_owned()),
        (
            HeaderName::from_static("x-content-type-options"),
            "nosniff".to_owned(),
        ),
        (
            HeaderName::from_static("x-load-balancing-endpoint-weight"),
            count.to_string(),
        ),
    ];
    (status, head, body).into_response()
}

#[cfg(test)]
mod tests;
