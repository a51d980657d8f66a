//! Metrics that CoreDNS does not have.

use prometheus::{IntCounter, IntCounterVec, IntGauge, Opts, Registry};

use super::registered;

/// Our own metrics.
#[derive(Debug)]
pub(crate) struct Ours {
    shed: IntCounterVec,
    pub(crate) wire_cache_hits: IntCounter,
    pub(crate) connections: IntGauge,
    pub(crate) in_flight: IntGauge,
}

impl Ours {
    pub(super) fn new(registry: &Registry) -> Self {
        let shed = Opts::new(
            "sluice_dns_shed_total",
            "Queries answered with SERVFAIL, and TCP connections closed, because a limit was reached.",
        );
        let shed = registered(registry, IntCounterVec::new(shed, &["limit"]));
        let hits = IntCounter::new(
            "sluice_dns_wire_cache_hits_total",
            "Queries for names of the cluster answered with a response that was encoded before.",
        );
        let gauge = |name: &str, help: &str| registered(registry, IntGauge::new(name, help));
        Self {
            shed,
            wire_cache_hits: registered(registry, hits),
            connections: gauge("sluice_dns_connections", "Open TCP connections."),
            in_flight: gauge(
                "sluice_dns_in_flight_queries",
                "Queries that wait for an upstream.",
            ),
        }
    }

    /// Counts what was refused because this limit was reached.
    pub(crate) fn shed(&self, limit: &str) -> IntCounter {
        self.shed.with_label_values(&[limit])
    }
}
