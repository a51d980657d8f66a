//! The metrics of the process: kube-proxy's under kube-proxy's names, and our own.
//!
//! `docs/metrics.md` lists all of them. Each exists from the start with the value zero, except
//! those with a label that others choose: the host of an API server, and at most 20 service ports
//! without endpoints. No other label has values that somebody else than the operator can choose,
//! unless the operator asks for connections by Service.

pub(crate) mod connections;
mod denials;
mod framework;
mod help;
mod kube_proxy;
mod network;
mod ours;
mod packets;
mod process;
mod registrar;
mod tables;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use prometheus::proto::MetricFamily;
use prometheus::{IntCounter, Registry, TextEncoder};
use sluice_model::{ApiRequest, IpFamily, Protocol};
use sluice_plane::{DenialCounters, Description, PacketCounters, TableFills};

use denials::Denials;
use framework::{Framework, Slis};
use kube_proxy::KubeProxy;
use network::Network;
pub(crate) use ours::Ours;
pub(crate) use registrar::PerFamily;
use registrar::Registrar;
use tables::Tables;

use crate::connections::Connections;
use crate::health::Probe;
use connections::{ConnectionMetrics, MOST_ENDPOINTS};

/// Values of the metrics that never change.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The data plane: which of kube-proxy's metrics exist depends on it.
    pub plane: Description,
    /// Version of the program.
    pub version: String,
    /// Every known feature gate: name, stage (empty for GA), and whether it is on.
    pub features: Vec<(&'static str, &'static str, bool)>,
}

/// Every metric of the process, shared by all threads.
pub struct Metrics {
    registry: Registry,
    /// Number of metrics that are registered.
    registered: IntCounter,
    pub(crate) slis: Slis,
    pub(crate) kube_proxy: KubeProxy,
    pub(crate) ours: Ours,
    framework: Framework,
    network: Network,
    /// In the modes that count by reason.
    denials: Option<Denials>,
    /// In the modes whose tables have a size.
    tables: Option<Tables>,
    plane: Description,
    connections: OnceLock<(Arc<Connections>, Mutex<ConnectionMetrics>)>,
    /// Of the DNS server inside the agent.
    dns: OnceLock<Registry>,
}

impl Metrics {
    /// All metrics, at zero.
    pub fn new(identity: &Identity) -> Self {
        let registry = Registry::new();
        let registered = framework::registered(&registry);
        let registrar = Registrar {
            registry: &registry,
            registered: &registered,
        };
        let has = identity.plane.metrics;
        Self {
            kube_proxy: KubeProxy::new(registrar, has),
            ours: Ours::new(registrar, identity),
            framework: Framework::new(registrar, identity),
            slis: Slis::new(&registered),
            network: Network::new(registrar),
            denials: has.counts_denials.then(|| Denials::new(registrar)),
            tables: has.has_tables.then(|| Tables::new(registrar)),
            plane: identity.plane,
            registry,
            registered,
            connections: OnceLock::new(),
            dns: OnceLock::new(),
        }
    }

    /// Shows connections. Only the first call has an effect.
    pub fn show_connections(&self, connections: Arc<Connections>) {
        let (registry, registered) = (&self.registry, &self.registered);
        let metrics = || Mutex::new(ConnectionMetrics::new(registry, registered, MOST_ENDPOINTS));
        self.connections.get_or_init(|| (connections, metrics()));
    }

    /// Shows the packets that rules count, in data planes whose rules count some.
    pub fn show_packets(&self, counters: Box<dyn PacketCounters>) {
        if let Some(packets) = &self.kube_proxy.packets {
            packets.read_from(counters);
        }
    }

    /// Shows the packets that rules drop and reject, in data planes that count them.
    pub fn show_denials(&self, counters: Box<dyn DenialCounters>) {
        if let Some(denials) = &self.denials {
            denials.read_from(counters);
        }
    }

    /// Shows how full the tables of the data plane are. Only the first call has an effect.
    pub fn show_tables(&self, fills: TableFills) {
        if let Some(tables) = &self.tables {
            tables.read_from(fills);
        }
    }

    /// Shows the metrics of the DNS server inside the agent. Only the first call has an effect.
    pub fn show_dns(&self, registry: Registry) {
        // The first one stays.
        let _ = self.dns.set(registry);
    }

    pub(crate) fn plane(&self) -> Description {
        self.plane
    }

    /// `None` when nobody counts connections.
    pub(crate) fn connections(&self) -> Option<&Arc<Connections>> {
        self.connections.get().map(|(connections, _)| connections)
    }

    /// Every metric in Prometheus' text format 0.0.4.
    ///
    /// # Errors
    ///
    /// A metric has no value: it was registered wrongly.
    pub fn text(&self) -> Result<String, prometheus::Error> {
        if let Some(packets) = &self.kube_proxy.packets {
            packets.refresh();
        }
        if let Some(denials) = &self.denials {
            denials.refresh();
        }
        if let Some(tables) = &self.tables {
            tables.refresh();
        }
        self.network.refresh();
        // Locked until they are gathered: their series exist only for one answer.
        let shown = self.connections.get().map(|(connections, metrics)| {
            let metrics = metrics.lock().unwrap_or_else(PoisonError::into_inner);
            metrics.fill(connections);
            metrics
        });
        let mut families = self.registry.gather();
        families.extend(self.dns.get().map(Registry::gather).unwrap_or_default());
        if let Some(metrics) = shown {
            metrics.clear();
        }
        encode(&families)
    }

    /// The service level indicators of `/metrics/slis` in the same format.
    ///
    /// # Errors
    ///
    /// As [`text`](Self::text).
    pub fn slis_text(&self) -> Result<String, prometheus::Error> {
        encode(&self.slis.registry.gather())
    }

    /// Counts an answer of the health server by its status. kube-proxy has no counter of `/readyz`.
    pub(crate) fn probed(&self, probe: Probe, status: u16) {
        let [ok, unavailable] = match probe {
            Probe::Healthz => &self.kube_proxy.healthz,
            Probe::Livez => &self.kube_proxy.livez,
            Probe::Readyz => return,
        };
        match status {
            200 => ok.inc(),
            _ => unavailable.inc(),
        }
    }

    /// Sets the time of the last request for a sync.
    pub(crate) fn sync_requested(&self) {
        for family in IpFamily::ALL {
            let last = self.kube_proxy.last_queued.of(family);
            last.set(seconds_since_epoch());
        }
    }

    /// Counts a request to the API server that was answered or failed.
    pub fn api_request(&self, request: &ApiRequest<'_>) {
        self.framework.api_request(request);
    }

    /// Counts a request on a netlink socket that the kernel answered: bytes sent and received.
    pub fn netlink_request(&self, sent: usize, received: usize, elapsed: Duration) {
        let ours = &self.ours;
        ours.netlink_sent.inc_by(sent as u64);
        ours.netlink_received.inc_by(received as u64);
        ours.netlink_duration.observe(elapsed.as_secs_f64());
    }

    /// Records the duration of a cleanup of one family's conntrack entries.
    pub(crate) fn conntrack_walked(&self, family: IpFamily, elapsed: Duration) {
        let duration = &self.kube_proxy.conntrack_duration;
        duration.of(family).observe(elapsed.as_secs_f64());
    }

    /// Counts a conntrack entry that cleanup deleted.
    pub(crate) fn conntrack_deleted(&self, family: IpFamily, protocol: Protocol) {
        self.kube_proxy.conntrack_deleted.of(family).inc();
        let counters = Protocol::ALL.iter().zip(&self.ours.conntrack_deleted);
        for (_, counter) in counters.filter(|(it, _)| **it == protocol) {
            counter.inc();
        }
    }

    /// Conntrack entries deleted so far.
    pub(crate) fn conntrack_deletions(&self) -> u64 {
        let deleted = &self.kube_proxy.conntrack_deleted;
        IpFamily::ALL.iter().map(|it| deleted.of(*it).get()).sum()
    }
}

pub(crate) fn to_gauge(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

pub(crate) fn seconds_since_epoch() -> f64 {
    Timestamp::now().as_millisecond() as f64 / 1000.0
}

fn encode(families: &[MetricFamily]) -> Result<String, prometheus::Error> {
    TextEncoder::new().encode_to_string(families)
}

/// Metrics of a proxy with this data plane, for tests.
#[cfg(test)]
pub(crate) fn for_test<P: sluice_plane::DataPlane>() -> Metrics {
    Metrics::new(&Identity {
        plane: P::DESCRIPTION,
        version: "0.1.0".to_owned(),
        features: vec![("ServiceTrafficDistribution", "", true)],
    })
}
