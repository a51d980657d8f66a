//! Health check node ports: whether a load balancer that keeps client addresses should send
//! connections to this node (`spec.healthCheckNodePort`).
//!
//! ```text
//! Agent ──update──▶ latest checks ─▶ listeners ─▶ one small HTTP server per Service and address
//!                                      │  ▲
//!                         announce ◀───┘  └── retry while a port is taken
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
use sluice_http::Budget;
use sluice_model::Announcement;
use sluice_model::{IpFamily, NamespacedName, Reference, Service};
use sluice_node::Health;
use sluice_node::metrics::to_gauge;
use sluice_plan::HealthCheck;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::{info, warn};

use crate::metrics::ServiceMetrics;

/// Between attempts to bind ports that are taken.
const RETRY_PERIOD: Duration = Duration::from_secs(5);

/// The checks to serve, and the addresses to serve them on.
#[derive(Debug, Default)]
struct Wanted {
    checks: BTreeMap<NamespacedName, HealthCheck>,
    addresses: BTreeSet<IpAddr>,
}

/// Sets the health checks. Never waits.
#[derive(Debug)]
pub struct HealthChecks(watch::Sender<Wanted>);

/// The servers before they start.
#[derive(Debug)]
pub struct HealthCheckServers(watch::Receiver<Wanted>);

/// The two ends of the channel between agent and servers.
pub fn health_checks() -> (HealthChecks, HealthCheckServers) {
    let (sender, receiver) = watch::channel(Wanted::default());
    (HealthChecks(sender), HealthCheckServers(receiver))
}

impl HealthChecks {
    /// Sets all checks and addresses; an unspecified address stands for all of its family. Listeners that stay the
    /// same stay open. Ports that were in use are tried again. Services that are `unwritten` keep their earlier
    /// check: load balancers must not send connections before the kernel has the rules of the endpoints.
    pub fn update(
        &self,
        checks: &BTreeMap<NamespacedName, HealthCheck>,
        addresses: &BTreeSet<IpAddr>,
        unwritten: impl Fn(&NamespacedName) -> bool,
    ) {
        self.0.send_modify(|wanted| {
            wanted.checks.retain(|it, _| unwritten(it));
            let written = checks.iter().filter(|(it, _)| !unwritten(it));
            let written = written.map(|(service, check)| (service.clone(), *check));
            wanted.checks.extend(written);
            wanted.addresses.clone_from(addresses);
        });
    }
}

#[cfg(test)]
impl HealthChecks {
    /// How many checks are to be served.
    pub(crate) fn wanted(&self) -> usize {
        self.0.borrow().checks.len()
    }
}

/// The parts of the process that the servers use.
#[derive(Clone)]
pub struct Links {
    /// Whether the rules are up to date.
    pub health: Arc<Health>,
    /// Shows how many Services are served.
    pub metrics: Arc<ServiceMetrics>,
    /// Gets Events about ports that are taken.
    pub announce: Sender<Announcement>,
}

impl HealthCheckServers {
    /// Serves until [`HealthChecks`] is dropped.
    pub async fn run(mut self, links: Links, budget: Arc<Budget>) {
        let mut servers = Servers {
            links,
            budget,
            open: BTreeMap::new(),
            failures: BTreeMap::new(),
        };
        loop {
            let (targets, conflicts) = targets(&self.0.borrow_and_update());
            let all_bound = servers.update(targets, conflicts).await;
            let changed = if all_bound {
                self.0.changed().await
            } else {
                let changed = timeout(RETRY_PERIOD, self.0.changed()).await;
                changed.unwrap_or(Ok(()))
            };
            if changed.is_err() {
                return;
            }
        }
    }
}

/// Services and their counts of local endpoints, by the address to listen on.
type Targets = BTreeMap<SocketAddr, (NamespacedName, usize)>;

/// Errors of listeners, by Service.
type Failures = BTreeMap<NamespacedName, String>;

/// Two Services cannot have one port: the first by name gets it.
fn targets(wanted: &Wanted) -> (Targets, Failures) {
    let mut targets = Targets::new();
    let mut conflicts = Failures::new();
    let mut owners = BTreeMap::new();
    for (service, check) in &wanted.checks {
        let owner = *owners.entry(check.port).or_insert(service);
        if owner != service {
            let problem = format!("Service {owner} has the same health check node port");
            conflicts.insert(service.clone(), problem);
            continue;
        }
        for ip in &wanted.addresses {
            if let Some(count) = check.local_endpoints(IpFamily::of(ip)) {
                let address = SocketAddr::new(*ip, check.port.get());
                targets.insert(address, (service.clone(), count));
            }
        }
    }
    (targets, conflicts)
}

/// An open port.
#[derive(Debug)]
struct Open {
    service: NamespacedName,
    local_endpoints: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

struct Servers {
    links: Links,
    budget: Arc<Budget>,
    open: BTreeMap<SocketAddr, Open>,
    /// The failures that were announced and still exist.
    failures: Failures,
}

impl Servers {
    /// Opens and closes ports. Returns `false` when a port could not be bound.
    async fn update(&mut self, targets: Targets, conflicts: Failures) -> bool {
        self.close_others(&targets).await;
        let mut failures = Failures::new();
        for (address, (service, count)) in targets {
            if let Some(open) = self.open.get(&address) {
                open.local_endpoints.store(count, Ordering::Relaxed);
                continue;
            }
            match self.listen(address) {
                Ok(listener) => self.open(address, service, count, listener),
                Err(problem) => {
                    let problem = format!("listen on {address}: {problem}");
                    failures.entry(service).or_insert(problem);
                }
            }
        }
        let all_bound = failures.is_empty();
        failures.extend(conflicts);
        self.announce(failures);
        let served: BTreeSet<_> = self.open.values().map(|it| &it.service).collect();
        let gauge = &self.links.metrics.ours.health_checks;
        gauge.set(to_gauge(served.len()));
        all_bound
    }

    async fn close_others(&mut self, targets: &Targets) {
        let is_other = |address: &SocketAddr, open: &mut Open| {
            let target = targets.get(address);
            target.is_none_or(|(service, _)| *service != open.service)
        };
        let closed: Vec<_> = self.open.extract_if(.., is_other).collect();
        for (_, open) in closed {
            open.task.abort();
            // The port is free for others only after the task has ended.
            let _ = open.task.await;
        }
    }

    /// Opens a listener. The error is one line that says why the address cannot be used.
    fn listen(&self, address: SocketAddr) -> Result<TcpListener, String> {
        let most = self.budget.listeners();
        if self.open.len() >= most {
            return Err(format!(
                "{most} health check node ports are open, the most for this limit of open files"
            ));
        }
        listen(address).map_err(|error| error.to_string())
    }

    fn open(
        &mut self,
        address: SocketAddr,
        service: NamespacedName,
        count: usize,
        listener: TcpListener,
    ) {
        let local_endpoints = Arc::new(AtomicUsize::new(count));
        let page = Page {
            service: service.clone(),
            local_endpoints: local_endpoints.clone(),
            health: self.links.health.clone(),
        };
        let routes = Router::new().fallback(answer).with_state(Arc::new(page));
        let open = Open {
            service,
            local_endpoints,
            task: tokio::spawn(sluice_http::serve(listener, routes, self.budget.clone())),
        };
        self.open.insert(address, open);
    }

    /// Logs and announces new failures, and logs solved ones.
    fn announce(&mut self, failures: Failures) {
        for (service, problem) in &failures {
            if self.failures.get(service) == Some(problem) {
                continue;
            }
            warn!(%service, problem, "health check node port not served: will retry");
            // The receiver may have ended; the log has the failure too.
            let _ = self.links.announce.send(Announcement {
                about: Reference::to::<Service>(service.clone()),
                is_warning: true,
                reason: "FailedToStartServiceHealthcheck",
                action: "Listen",
                note: format!("health check node port: {problem}"),
            });
        }
        for service in self.failures.keys() {
            if !failures.contains_key(service) {
                info!(%service, "health check node port: solved");
            }
        }
        self.failures = failures;
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.open.values().for_each(|it| it.task.abort());
    }
}

/// IPv6 sockets take IPv6 connections only, so that both families can listen on one port of all
/// their addresses.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = sluice_http::socket(address)?;
    if address.is_ipv6() {
        setsockopt(&socket, sockopt::Ipv6V6Only, &true)?;
    }
    sluice_http::listen(socket, address)
}

/// The answer about one Service.
#[derive(Debug)]
struct Page {
    service: NamespacedName,
    local_endpoints: Arc<AtomicUsize>,
    health: Arc<Health>,
}

/// The same answer on every path, byte by byte kube-proxy's
/// (`pkg/proxy/healthcheck/service_health.go`): load balancers may compare text.
async fn answer(State(page): State<Arc<Page>>) -> Response {
    let count = page.local_endpoints.load(Ordering::Relaxed);
    let healthy = page.health.is_healthy(Instant::now());
    let status = if count > 0 && healthy {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let NamespacedName { namespace, name } = &page.service;
    let body = format!(
        "{{\n\t\"service\": {{\n\t\t\"namespace\": \"{namespace}\",\n\t\t\"name\": \"{name}\"\n\t}},\n\
         \t\"localEndpoints\": {count},\n\t\"serviceProxyHealthy\": {healthy}\n}}"
    );
    let weight = count.to_string();
    let head = [
        (header::CONTENT_TYPE, "application/json"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (
            HeaderName::from_static("x-load-balancing-endpoint-weight"),
            &weight,
        ),
    ];
    (status, head, body).into_response()
}

#[cfg(test)]
mod tests;
