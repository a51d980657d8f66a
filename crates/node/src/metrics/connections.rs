//! The connections of Services and endpoints.

use std::sync::atomic::{AtomicBool, Ordering};

use prometheus::{IntCounter, IntCounterVec, IntGaugeVec, Registry};
use sluice_plan::PortKey;
use tracing::warn;

use super::registrar::Registrar;
use super::to_gauge;
use crate::connections::Connections;

/// Most endpoints that have series of their own: more would cost Prometheus too much.
pub(super) const MOST_ENDPOINTS: usize = 50_000;

pub(super) const SERVICE_LABELS: [&str; 5] =
    ["namespace", "service", "port", "protocol", "ip_family"];
const ENDPOINT_LABELS: [&str; 5] = ["namespace", "service", "port", "protocol", "endpoint"];

pub(crate) struct ConnectionMetrics {
    services: IntCounterVec,
    endpoints: IntCounterVec,
    active: IntGaugeVec,
    most_endpoints: usize,
    warned: AtomicBool,
}

impl ConnectionMetrics {
    pub(crate) fn new(registry: &Registry, registered: &IntCounter, most_endpoints: usize) -> Self {
        let to = Registrar {
            registry,
            registered,
        };
        Self {
            services: to.counters("sluice_service_connections_total", &SERVICE_LABELS),
            endpoints: to.counters("sluice_endpoint_connections_total", &ENDPOINT_LABELS),
            active: to.gauges("sluice_endpoint_active_connections", &ENDPOINT_LABELS),
            most_endpoints,
            warned: AtomicBool::new(false),
        }
    }

    /// Sets the totals of the last reading. The metrics must be empty.
    pub(crate) fn fill(&self, connections: &Connections) {
        let ledger = connections.ledger();
        let totals = ledger.totals();
        let with_endpoints = self.admits(totals.values().map(|it| it.endpoints.len()).sum());
        for (key, total) in totals {
            let family = key.family.to_string();
            let counter = self.services.with_label_values(&labels(key, &family));
            counter.inc_by(total.connections);
            for (endpoint, total) in total.endpoints.iter().filter(|_| with_endpoints) {
                let endpoint = endpoint.to_string();
                let counter = self.endpoints.with_label_values(&labels(key, &endpoint));
                counter.inc_by(total.connections);
                if let Some(load) = total.load {
                    let active = usize::try_from(load.active).unwrap_or(usize::MAX);
                    let gauge = self.active.with_label_values(&labels(key, &endpoint));
                    gauge.set(to_gauge(active));
                }
            }
        }
    }

    /// Removes all series: they take memory that only a scrape needs, and Services come and go.
    pub(super) fn clear(&self) {
        self.services.reset();
        self.endpoints.reset();
        self.active.reset();
    }

    /// Whether so many endpoints have series of their own; warns once when they do not.
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
