//! Metrics of `acl`.

use hickory_proto::rr::Name;
use prometheus::{IntCounterVec, Opts, Registry};
use sluice_corefile::AclAction;

use super::registered;

/// Queries by the action of `acl`, in the order of [`AclAction`].
#[derive(Debug)]
pub(crate) struct Acl([IntCounterVec; 4]);

/// The labels of queries that pass; those of others have a zone, too.
const ALLOWED: [&str; 2] = ["server", "view"];
const OF_ZONE: [&str; 3] = ["server", "zone", "view"];

impl Acl {
    pub(super) fn new(registry: &Registry) -> Self {
        let counters = |action: &str, what: &str, labels: &[&str]| {
            let name = format!("coredns_acl_{action}_requests_total");
            let help = format!("Queries that acl {what}.");
            registered(registry, IntCounterVec::new(Opts::new(name, help), labels))
        };
        Self([
            counters("allowed", "let pass", &ALLOWED),
            counters("blocked", "refused", &OF_ZONE),
            counters("filtered", "answered without records", &OF_ZONE),
            counters("dropped", "left without a response", &OF_ZONE),
        ])
    }

    /// Counts a query. `zone` is that of the rule which decided.
    pub(crate) fn count(&self, server: &str, action: AclAction, zone: &Name) {
        let counters = &self.0[action as usize];
        if action == AclAction::Allow {
            counters.with_label_values(&[server, ""]).inc();
        } else {
            let zone = zone.to_ascii();
            counters.with_label_values(&[server, &zone, ""]).inc();
        }
    }
}
