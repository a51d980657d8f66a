//! Forwarding and connection tracking, read at each scrape.

use prometheus::{IntCounter, IntGauge};
use sluice_model::IpFamily;
use sluice_netlink::conntrack::Table;
use sluice_node::PerFamily;
use sluice_node::forwarding::forwards;
use sluice_node::metrics::{Registrar, follow};

pub(crate) struct Network {
    forwarding: PerFamily<IntGauge>,
    entries: IntGauge,
    limit: IntGauge,
    /// `drop`, `early_drop`, `insert_failed`.
    failures: [IntCounter; 3],
}

impl Network {
    pub(super) fn new(to: Registrar<'_>) -> Self {
        Self {
            forwarding: to.family_gauges("sluice_forwarding"),
            entries: to.gauge("sluice_conntrack_entries"),
            limit: to.gauge("sluice_conntrack_entries_limit"),
            failures: to.counter_of_each(
                "sluice_conntrack_failures_total",
                "reason",
                ["drop", "early_drop", "insert_failed"],
            ),
        }
    }

    pub(super) fn refresh(&self) {
        for family in IpFamily::ALL {
            let forwards = forwards(family).unwrap_or_default();
            self.forwarding.of(family).set(forwards.into());
        }
        let now = Table::now().unwrap_or_default();
        for (gauge, value) in [(&self.entries, now.entries), (&self.limit, now.limit)] {
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        }
        let it = now.failures;
        let failures = [it.drop, it.early_drop, it.insert_failed];
        for (counter, value) in self.failures.iter().zip(failures) {
            follow(counter, value);
        }
    }
}
