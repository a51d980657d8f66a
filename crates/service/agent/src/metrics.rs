//! The metrics of Services: kube-proxy's under kube-proxy's names, and our own.
//!
//! Each exists from the start with the value zero, except those of at most 20 service ports without endpoints. No
//! other label has values that a user of the cluster can choose, unless the operator asks for connections by Service.

pub(crate) mod connections;
mod denials;
mod help;
mod kube_proxy;
mod network;
mod ours;
mod packets;
mod tables;
#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sluice_model::{IpFamily, Protocol};
use sluice_node::metrics::{Metrics, seconds_since_epoch};
use sluice_plane::{DenialCounters, Description, PacketCounters, TableFills};

use denials::Denials;
use help::HELP;
use kube_proxy::KubeProxy;
use network::Network;
pub(crate) use ours::Ours;
use tables::Tables;

use crate::connections::{Connections, FOR_METRICS};
use connections::{ConnectionMetrics, MOST_ENDPOINTS};

/// Every metric of Services, shared by all threads.
pub struct ServiceMetrics {
    of_process: Arc<Metrics>,
    pub(crate) kube_proxy: KubeProxy,
    pub(crate) ours: Ours,
    network: Network,
    /// Only in modes that count by reason.
    denials: Option<Denials>,
    /// Only in modes whose tables have a size.
    tables: Option<Tables>,
    plane: Description,
    connections: OnceLock<Arc<Connections>>,
}

impl ServiceMetrics {
    /// All metrics, at zero. The data plane decides which of kube-proxy's metrics exist.
    pub fn new(of_process: &Arc<Metrics>, plane: Description) -> Arc<Self> {
        let to = of_process.registrar(HELP);
        let has = plane.metrics;
        let metrics = Arc::new(Self {
            kube_proxy: KubeProxy::new(to, has),
            ours: Ours::new(to),
            network: Network::new(to),
            denials: has.counts_denials.then(|| Denials::new(to)),
            tables: has.has_tables.then(|| Tables::new(to)),
            plane,
            connections: OnceLock::new(),
            of_process: of_process.clone(),
        });
        // A weak reference: the metrics of the process must not keep these metrics alive.
        let own = Arc::downgrade(&metrics);
        of_process.on_scrape(move || own.upgrade().iter().for_each(|it| it.refresh()));
        metrics
    }

    /// Reads the kernel's counters.
    fn refresh(&self) {
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
    }

    /// Shows connections. Only the first call has an effect.
    pub fn show_connections(&self, connections: Arc<Connections>) {
        self.connections.get_or_init(|| {
            let shown = connections.clone();
            let metrics = ConnectionMetrics::new(shown.clone(), MOST_ENDPOINTS);
            self.of_process.registrar(HELP).register(metrics);
            self.of_process.before_scrape(move || {
                let shown = shown.clone();
                Box::pin(async move { shown.refresh(FOR_METRICS).await })
            });
            connections
        });
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

    pub(crate) fn plane(&self) -> Description {
        self.plane
    }

    /// `None` when connections are not counted.
    pub(crate) fn connections(&self) -> Option<&Arc<Connections>> {
        self.connections.get()
    }

    /// Sets the time of the last request for a sync.
    pub(crate) fn sync_requested(&self) {
        for family in IpFamily::ALL {
            let last = self.kube_proxy.last_queued.of(family);
            last.set(seconds_since_epoch());
        }
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

/// The process's metrics and those of a proxy with this data plane, for tests.
#[cfg(test)]
pub(crate) fn for_test<P: sluice_plane::DataPlane>() -> (Arc<Metrics>, Arc<ServiceMetrics>) {
    let metrics = Arc::new(Metrics::new(&sluice_node::metrics::Identity {
        mode: P::NAME,
        version: "0.1.0".to_owned(),
        features: vec![("ServiceTrafficDistribution", "", true)],
    }));
    let of_services = ServiceMetrics::new(&metrics, P::DESCRIPTION);
    (metrics, of_services)
}
