//! What Prometheus asks: kube-proxy's metrics under kube-proxy's names, and our own.
//!
//! `docs/metrics.md` lists all of them. Each exists from the start with the value zero, except
//! those whose labels are only learnt from others (an API server's host, the refusals of a kind).
//! Nothing here has a label whose values anybody but the operator can choose, unless the operator
//! asks for connections by Service.

mod framework;
mod kube_proxy;
mod ours;
mod packets;
mod registrar;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use prometheus::proto::MetricFamily;
use prometheus::{Registry, TextEncoder};
use sluice_model::{IpFamily, Protocol};
use sluice_plane::{Description, PacketCounters};

pub use framework::{BuildInfo, Feature};
use framework::{Framework, Slis};
use kube_proxy::KubeProxy;
use ours::Ours;
pub(crate) use registrar::PerFamily;
use registrar::Registrar;

use crate::connections::{ConnectionCollector, Connections};
use crate::health::Probe;

/// What the process is, for the metrics that never change.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The data plane: which of kube-proxy's metrics exist depends on it.
    pub plane: Description,
    /// The program.
    pub build: BuildInfo,
    /// Every feature gate that is known, by name.
    pub features: BTreeMap<String, Feature>,
}

/// Every metric of the process. Shared by all threads; no call waits for another.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    slis: Slis,
    pub(crate) kube_proxy: KubeProxy,
    pub(crate) ours: Ours,
    framework: Framework,
    plane: Description,
    connections: OnceLock<Arc<Connections>>,
}

impl Metrics {
    /// All metrics, at zero.
    pub fn new(identity: &Identity) -> Self {
        let registry = Registry::new();
        let registrar = Registrar(&registry);
        Self {
            kube_proxy: KubeProxy::new(registrar, identity.plane.metrics),
            ours: Ours::new(registrar, identity),
            framework: Framework::new(registrar, identity),
            slis: Slis::new(),
            plane: identity.plane,
            registry,
            connections: OnceLock::new(),
        }
    }

    /// Shows connections, too. Only the first call has an effect.
    pub fn show_connections(&self, connections: Arc<Connections>) {
        if self.connections.set(connections.clone()).is_ok() {
            let collector = Box::new(ConnectionCollector::new(connections));
            let registered = self.registry.register(collector);
            registered.expect("no name is given twice");
        }
    }

    /// Shows the packets that rules count, in data planes whose rules count some.
    pub fn show_packets(&self, counters: Box<dyn PacketCounters>) {
        if let Some(packets) = &self.kube_proxy.packets {
            packets.read_from(counters);
        }
    }

    /// The data plane.
    pub(crate) fn plane(&self) -> Description {
        self.plane
    }

    /// What counts connections; `None` when nobody does.
    pub(crate) fn connections(&self) -> Option<&Arc<Connections>> {
        self.connections.get()
    }

    /// Every metric in Prometheus' text format 0.0.4.
    ///
    /// # Errors
    ///
    /// A metric has no value to show: one of them is wrong.
    pub fn text(&self) -> Result<String, prometheus::Error> {
        encode(&self.registry.gather())
    }

    /// The service level indicators of `/metrics/slis` in the same format.
    ///
    /// # Errors
    ///
    /// As [`text`](Self::text).
    pub fn slis_text(&self) -> Result<String, prometheus::Error> {
        encode(&self.slis.registry.gather())
    }

    /// The metrics server was asked how it is, and answered that it is well.
    pub(crate) fn pinged(&self) {
        self.slis.pinged();
    }

    /// The health server answered with this code.
    pub(crate) fn probed(&self, probe: Probe, code: u16) {
        let total = match probe {
            Probe::Healthz => &self.kube_proxy.healthz,
            Probe::Livez => &self.kube_proxy.livez,
        };
        let total = match code {
            200 => &total.ok,
            _ => &total.unavailable,
        };
        total.inc();
    }

    /// A request to the API server was answered, or failed before it was.
    pub fn api_request(&self, request: &ApiRequest<'_>) {
        self.framework.api_request(request);
    }

    /// The kernel answered a request on a netlink socket.
    pub fn netlink_request(&self, sent: usize, received: usize, elapsed: Duration) {
        self.ours.netlink_request(sent, received, elapsed);
    }

    /// Conntrack cleanup walked the flows of a family and deleted what was stale.
    pub(crate) fn conntrack_walked(&self, family: IpFamily, elapsed: Duration) {
        let duration = &self.kube_proxy.conntrack_duration;
        duration.of(family).observe(elapsed.as_secs_f64());
    }

    /// Conntrack cleanup deleted an entry.
    pub(crate) fn conntrack_deleted(&self, family: IpFamily, protocol: Protocol) {
        self.kube_proxy.conntrack_deleted.of(family).inc();
        self.ours.conntrack_deleted(protocol).inc();
    }

    /// Conntrack entries deleted so far.
    pub(crate) fn conntrack_deletions(&self) -> u64 {
        let deleted = &self.kube_proxy.conntrack_deleted;
        IpFamily::ALL.iter().map(|it| deleted.of(*it).get()).sum()
    }
}

/// One request to the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApiRequest<'a> {
    /// What it was for, in client-go's words: `GET`, `LIST` and `WATCH` are all `GET`.
    pub method: &'a str,
    /// The server, `host:port`.
    pub host: &'a str,
    /// The status; `None` when there was no answer.
    pub code: Option<u16>,
    /// From the request to the head of the answer.
    pub elapsed: Duration,
}

fn encode(families: &[MetricFamily]) -> Result<String, prometheus::Error> {
    TextEncoder::new().encode_to_string(families)
}

/// Metrics of a proxy with this data plane, for tests.
#[cfg(test)]
pub(crate) fn for_test<P: sluice_plane::DataPlane>() -> Metrics {
    let feature = Feature {
        stage: "BETA".to_owned(),
        enabled: true,
    };
    Metrics::new(&Identity {
        plane: P::DESCRIPTION,
        build: BuildInfo {
            version: "0.1.0".to_owned(),
            commit: "abc".to_owned(),
        },
        features: [("ServiceTrafficDistribution".to_owned(), feature)].into(),
    })
}
