//! The connections of Services and endpoints.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntCounterVec, IntGaugeVec, Opts};
use sluice_node::metrics::to_gauge;
use sluice_plan::PortKey;
use tracing::warn;

use super::help::help;
use crate::connections::Connections;

/// Most endpoints that have series of their own: more would cost Prometheus too much.
pub(super) const MOST_ENDPOINTS: usize = 50_000;

pub(super) const SERVICE_LABELS: [&str; 5] =
    ["namespace", "service", "port", "protocol", "ip_family"];
const ENDPOINT_LABELS: [&str; 5] = ["namespace", "service", "port", "protocol", "endpoint"];

/// Shows the totals of the last reading. The series exist for one answer only: they take memory, and Services come
/// and go.
#[derive(Clone)]
pub(crate) struct ConnectionMetrics(Arc<Shown>);

struct Shown {
    connections: Arc<Connections>,
    services: IntCounterVec,
    endpoints: IntCounterVec,
    active: IntGaugeVec,
    /// Held from the first series to the last answer with them.
    filled: Mutex<()>,
    most_endpoints: usize,
    warned: AtomicBool,
}

impl ConnectionMetrics {
    pub(crate) fn new(
        connections: Arc<Connections>,
        most_endpoints: usize,
    ) -> Result<Self, prometheus::Error> {
        let opts = |name| Opts::new(name, help(name));
        Ok(Self(Arc::new(Shown {
            connections,
            services: IntCounterVec::new(
                opts("sluice_service_connections_total"),
                &SERVICE_LABELS,
            )?,
            endpoints: IntCounterVec::new(
                opts("sluice_endpoint_connections_total"),
                &ENDPOINT_LABELS,
            )?,
            active: IntGaugeVec::new(opts("sluice_endpoint_active_connections"), &ENDPOINT_LABELS)?,
            filled: Mutex::default(),
            most_endpoints,
            warned: AtomicBool::new(false),
        })))
    }
}

impl Collector for ConnectionMetrics {
    fn desc(&self) -> Vec<&Desc> {
        let all = self.0.vectors().into_iter();
        all.flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        // A thread that panicked with the lock held has ended the process.
        let _filled = self.0.filled.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.fill();
        let all = self.0.vectors().into_iter();
        let families = all.flat_map(Collector::collect).collect();
        self.0.services.reset();
        self.0.endpoints.reset();
        self.0.active.reset();
        families
    }
}

impl Shown {
    fn vectors(&self) -> [&dyn Collector; 3] {
        [&self.services, &self.endpoints, &self.active]
    }

    fn fill(&self) {
        let ledger = self.connections.ledger();
        let totals = ledger.totals();
        let with_endpoints = self.admits(totals.values().map(|it| it.endpoints.len()).sum());
        for (key, total) in totals {
            let family = key.family.to_string();
            let counter = self.services.with_label_values(&labels(key, &family));
            counter.inc_by(total.connections);
            for (endpoint, total) in total.endpoints.iter().filter(|_| with_endpoints) {
                let endpoint = endpoint.to_string();
                let labels = labels(key, &endpoint);
                let counter = self.endpoints.with_label_values(&labels);
                counter.inc_by(total.connections);
                if let Some(load) = total.load {
                    let active = usize::try_from(load.active).unwrap_or(usize::MAX);
                    let gauge = self.active.with_label_values(&labels);
                    gauge.set(to_gauge(active));
                }
            }
        }
    }

    /// Whether this many endpoints may have series of their own; warns once when they may not.
    fn admits(&self, endpoints: usize) -> bool {
        let is_admitted = endpoints <= self.most_endpoints;
        if !is_admitted && !self.warned.swap(true, Ordering::Relaxed) {
            warn!(
                endpoints,
                most = self.most_endpoints,
                "too many endpoints for a metric of each: connections are shown by Service only"
            );
        }
        is_admitted
    }
}

/// The values of the labels; the last is the family or the endpoint.
pub(super) fn labels<'a>(key: &'a PortKey, last: &'a str) -> [&'a str; 5] {
    let name = &key.name;
    let (namespace, service) = (&*name.service.namespace, &*name.service.name);
    [
        namespace,
        service,
        &*name.port,
        name.protocol.as_str(),
        last,
    ]
}
