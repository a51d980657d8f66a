//! The totals as metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntCounterVec, IntGaugeVec, Opts};
use tracing::warn;

use super::Connections;
use super::ledger::Ledger;

/// Most series of endpoints: more would cost everybody who scrapes and stores them too much.
const MOST_ENDPOINTS: usize = 50_000;

const SERVICE_LABELS: [&str; 5] = ["namespace", "service", "port", "protocol", "ip_family"];
const ENDPOINT_LABELS: [&str; 5] = ["namespace", "service", "port", "protocol", "endpoint"];

/// Shows the totals as they are; reading is the affair of [`Connections::refresh`].
pub(crate) struct ConnectionCollector {
    connections: Arc<Connections>,
    /// Never filled: they know what the metrics are called.
    empty: ([IntCounterVec; 2], IntGaugeVec),
    most_endpoints: usize,
    warned: AtomicBool,
}

impl ConnectionCollector {
    pub(crate) fn new(connections: Arc<Connections>) -> Self {
        Self::showing_at_most(connections, MOST_ENDPOINTS)
    }

    pub(super) fn showing_at_most(connections: Arc<Connections>, most_endpoints: usize) -> Self {
        Self {
            connections,
            empty: ([services(), endpoints()], active()),
            most_endpoints,
            warned: AtomicBool::new(false),
        }
    }

    fn has_too_many(&self, ledger: &Ledger) -> bool {
        let totals = ledger.totals().values();
        let endpoints: usize = totals.map(|it| it.endpoints.len()).sum();
        if endpoints <= self.most_endpoints {
            return false;
        }
        if !self.warned.swap(true, Ordering::Relaxed) {
            warn!(
                endpoints,
                most = self.most_endpoints,
                "too many endpoints for a metric of each: connections are shown by Service only"
            );
        }
        true
    }
}

impl Collector for ConnectionCollector {
    fn desc(&self) -> Vec<&Desc> {
        let (counters, gauge) = &self.empty;
        let counters = counters.iter().flat_map(Collector::desc);
        counters.chain(gauge.desc()).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let (by_service, by_endpoint, active) = (services(), endpoints(), active());
        let ledger = self.connections.ledger();
        let with_endpoints = !self.has_too_many(&ledger);
        for (key, total) in ledger.totals() {
            let name = &key.name;
            let (namespace, service) = (&*name.service.namespace, &*name.service.name);
            let (protocol, family) = (name.protocol.to_string(), key.family.to_string());
            let show = |vector: &IntCounterVec, last: &str, connections| {
                let labels = [namespace, service, &*name.port, &*protocol, last];
                vector.with_label_values(&labels).inc_by(connections);
            };
            show(&by_service, &family, total.connections);
            for (endpoint, total) in total.endpoints.iter().filter(|_| with_endpoints) {
                let endpoint = endpoint.to_string();
                show(&by_endpoint, &endpoint, total.connections);
                if let Some(load) = total.load {
                    let labels = [namespace, service, &*name.port, &*protocol, &*endpoint];
                    let now = i64::try_from(load.active).unwrap_or(i64::MAX);
                    active.with_label_values(&labels).set(now);
                }
            }
        }
        drop(ledger);
        let counters = [by_service, by_endpoint];
        let counters = counters.iter().flat_map(Collector::collect);
        counters.chain(active.collect()).collect()
    }
}

fn services() -> IntCounterVec {
    let help = "Connections to a service port since the agent started.";
    vector("sluice_service_connections_total", help, &SERVICE_LABELS)
}

fn endpoints() -> IntCounterVec {
    let help = "Connections that an endpoint of a service port got since the agent started.";
    vector("sluice_endpoint_connections_total", help, &ENDPOINT_LABELS)
}

fn active() -> IntGaugeVec {
    let help = "Established connections of an endpoint of a service port, in the ipvs mode.";
    let name = "sluice_endpoint_active_connections";
    IntGaugeVec::new(Opts::new(name, help), &ENDPOINT_LABELS)
        .expect("names and labels are constants and well formed")
}

fn vector(name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
    IntCounterVec::new(Opts::new(name, help), labels)
        .expect("names and labels are constants and well formed")
}
