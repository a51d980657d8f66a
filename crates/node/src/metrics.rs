//! The metrics of the process: those that every Kubernetes component has, those of its servers, and what
//! consumers register.
//!
//! `docs/metrics.md` lists all metrics. Each exists from the start with the value zero, except those with a
//! label that others choose.

mod framework;
mod help;
mod process;
mod registrar;
#[cfg(test)]
mod tests;

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use prometheus::proto::MetricFamily;
use prometheus::{IntCounter, IntGauge, Registry, TextEncoder};
use sluice_http::{Limit, Report};
use sluice_model::ApiRequest;

use framework::{Framework, Slis};
pub use help::help;
pub use process::Process;
pub use registrar::{Registrar, follow, per_family};

use crate::health::Probe;

/// Values of the metrics that never change.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The data plane.
    pub mode: &'static str,
    /// Version of the program.
    pub version: String,
    /// Every known feature gate: name, stage (empty for GA), and whether it is on.
    pub features: Vec<(&'static str, &'static str, bool)>,
}

/// HTTP statuses of the health server.
const STATUSES: [&str; 2] = ["200", "503"];

/// The limits of connections to the servers.
const LIMITS: [&str; 3] = ["remote", "source", "local"];

/// Reads what the kernel counts, just before the metrics are shown.
type Refresh = Arc<dyn Fn() + Send + Sync>;

/// The same for readings that may take long: the answer waits for them, the server does not.
type Prepare = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// Metrics and functions that consumers add.
#[derive(Default)]
struct Added {
    refresh: Vec<Refresh>,
    prepare: Vec<Prepare>,
    beside: Vec<Registry>,
}

/// Every metric of the process, shared by all threads.
pub struct Metrics {
    registry: Registry,
    /// Number of metrics that are registered.
    registered: IntCounter,
    pub(crate) slis: Slis,
    framework: Framework,
    /// Answers with the status 200, and with 503, under kube-proxy's names.
    healthz: [IntCounter; 2],
    livez: [IntCounter; 2],
    pub(crate) server_connections: IntGauge,
    connections_closed: [(&'static str, IntCounter); 3],
    added: Mutex<Added>,
}

impl Metrics {
    /// All metrics of the runtime, at zero.
    pub fn new(identity: &Identity) -> Self {
        let registry = Registry::new();
        let registered = framework::registered(&registry);
        let to = Registrar {
            registry: &registry,
            registered: &registered,
            help: help::HELP,
        };
        let build = to.gauges("sluice_build_info", &["version", "commit", "mode"]);
        let build = build.with_label_values(&[&*identity.version, "", identity.mode]);
        build.set(1);
        let closed = to.counters("sluice_server_connections_closed_total", &["limit"]);
        let closed = LIMITS.map(|it| (it, closed.with_label_values(&[it])));
        Self {
            framework: Framework::new(to, identity),
            slis: Slis::new(&registered),
            healthz: to.counter_of_each("kubeproxy_proxy_healthz_total", "code", STATUSES),
            livez: to.counter_of_each("kubeproxy_proxy_livez_total", "code", STATUSES),
            server_connections: to.gauge("sluice_server_connections"),
            connections_closed: closed,
            registry,
            registered,
            added: Mutex::default(),
        }
    }

    /// A registrar for the metrics of a consumer. `help` has a line of name and help for every metric.
    pub fn registrar(&self, help: &'static str) -> Registrar<'_> {
        Registrar {
            registry: &self.registry,
            registered: &self.registered,
            help,
        }
    }

    /// Calls `refresh` before the metrics are shown.
    pub fn on_scrape(&self, refresh: impl Fn() + Send + Sync + 'static) {
        self.added().refresh.push(Arc::new(refresh));
    }

    /// Lets an answer with metrics wait for this future.
    pub fn before_scrape(
        &self,
        prepare: impl Fn() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync + 'static,
    ) {
        self.added().prepare.push(Arc::new(prepare));
    }

    /// Shows the metrics of another registry after all others.
    pub fn show_beside(&self, registry: Registry) {
        self.added().beside.push(registry);
    }

    /// Waits for the futures of [`before_scrape`](Self::before_scrape).
    pub(crate) async fn prepare(&self) {
        let all = self.added().prepare.clone();
        for prepare in all {
            prepare().await;
        }
    }

    /// Every metric in Prometheus' text format 0.0.4.
    ///
    /// # Errors
    ///
    /// A metric has no value: it was registered wrongly.
    pub fn text(&self) -> Result<String, prometheus::Error> {
        encode(&self.gather())
    }

    /// Every metric.
    pub fn gather(&self) -> Vec<MetricFamily> {
        let all = self.added().refresh.clone();
        all.iter().for_each(|refresh| refresh());
        let mut families = self.registry.gather();
        families.extend(self.added().beside.iter().flat_map(Registry::gather));
        families
    }

    /// The service level indicators of `/metrics/slis`.
    pub fn gather_slis(&self) -> Vec<MetricFamily> {
        self.slis.registry.gather()
    }

    /// The service level indicators in Prometheus' text format.
    ///
    /// # Errors
    ///
    /// As of [`text`](Self::text).
    pub fn slis_text(&self) -> Result<String, prometheus::Error> {
        encode(&self.gather_slis())
    }

    /// Counts an answer of the health server by its status. kube-proxy has no counter of `/readyz`.
    pub fn probed(&self, probe: Probe, status: u16) {
        let [ok, unavailable] = match probe {
            Probe::Healthz => &self.healthz,
            Probe::Livez => &self.livez,
            Probe::Readyz => return,
        };
        match status {
            200 => ok.inc(),
            _ => unavailable.inc(),
        }
    }

    /// Counts a request to the API server that was answered or failed.
    pub fn api_request(&self, request: &ApiRequest<'_>) {
        self.framework.api_request(request);
    }

    fn added(&self) -> MutexGuard<'_, Added> {
        // Each change is one push.
        self.added.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A count as the value of a gauge.
#[must_use]
pub fn to_gauge(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

impl Report for Metrics {
    fn open(&self, connections: usize) {
        self.server_connections.set(to_gauge(connections));
    }

    fn limit_reached(&self, limit: Limit) {
        let limit = limit.as_str();
        let counter = self.connections_closed.iter().find(|(it, _)| *it == limit);
        counter.iter().for_each(|(_, it)| it.inc());
    }
}

/// The present time in seconds since the epoch, as metrics show times.
#[must_use]
pub fn seconds_since_epoch() -> f64 {
    Timestamp::now().as_millisecond() as f64 / 1000.0
}

fn encode(families: &[MetricFamily]) -> Result<String, prometheus::Error> {
    TextEncoder::new().encode_to_string(families)
}

/// Metrics of a runtime without consumers, for tests.
#[cfg(test)]
pub(crate) fn for_test() -> Metrics {
    Metrics::new(&Identity {
        mode: "nftables",
        version: "0.1.0".to_owned(),
        features: vec![("ServiceTrafficDistribution", "", true)],
    })
}
