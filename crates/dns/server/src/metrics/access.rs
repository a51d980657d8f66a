//! Metrics of `acl`.

use hickory_proto::rr::Name;
use prometheus::{IntCounterVec, Opts, Registry};
use sluice_corefile::AclAction;

use super::registered;

/// Queries by the action of `acl`.
#[derive(Debug)]
pub(crate) struct Acl {
    allowed: IntCounterVec,
    blocked: IntCounterVec,
    filtered: IntCounterVec,
    dropped: IntCounterVec,
}

impl Acl {
    pub(super) fn new(registry: &Registry) -> Self {
        let counters = |name: &str, help: &str, labels: &[&str]| {
            registered(registry, IntCounterVec::new(Opts::new(name, help), labels))
        };
        let of_zone = ["server", "zone", "view"];
        Self {
            allowed: counters(
                "coredns_acl_allowed_requests_total",
                "Queries that acl let pass.",
                &["server", "view"],
            ),
            blocked: counters(
                "coredns_acl_blocked_requests_total",
                "Queries that acl refused.",
                &of_zone,
            ),
            filtered: counters(
                "coredns_acl_filtered_requests_total",
                "Queries that acl answered without records.",
                &of_zone,
            ),
            dropped: counters(
                "coredns_acl_dropped_requests_total",
                "Queries that acl left without a response.",
                &of_zone,
            ),
        }
    }

    /// Counts a query. `zone` is that of the rule which decided.
    pub(crate) fn count(&self, server: &str, action: AclAction, zone: &Name) {
        let counters = match action {
            AclAction::Allow => {
                return self.allowed.with_label_values(&[server, ""]).inc();
            }
            AclAction::Block => &self.blocked,
            AclAction::Filter => &self.filtered,
            AclAction::Drop => &self.dropped,
        };
        counters
            .with_label_values(&[server, &zone.to_ascii(), ""])
            .inc();
    }
}
