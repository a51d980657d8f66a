//! How full the tables of the data plane are, read at each scrape.

use std::sync::OnceLock;

use prometheus::{IntCounterVec, IntGaugeVec};
use sluice_node::metrics::{Registrar, follow};
use sluice_plane::TableFills;

pub(crate) struct Tables {
    entries: IntGaugeVec,
    limit: IntGaugeVec,
    drops: IntCounterVec,
    /// Empty before the data plane is open.
    fills: OnceLock<TableFills>,
}

impl Tables {
    pub(super) fn new(to: Registrar<'_>) -> Self {
        Self {
            entries: to.gauges("sluice_map_entries", &["map"]),
            limit: to.gauges("sluice_map_entries_limit", &["map"]),
            drops: to.counters("sluice_map_drops_total", &["map", "reason"]),
            fills: OnceLock::new(),
        }
    }

    pub(super) fn read_from(&self, fills: TableFills) {
        // The data plane is opened once.
        let _ = self.fills.set(fills);
    }

    pub(super) fn refresh(&self) {
        for fill in self.fills.get().iter().flat_map(|read| read()) {
            for (gauges, value) in [(&self.entries, fill.entries), (&self.limit, fill.capacity)] {
                let gauge = gauges.with_label_values(&[fill.table]);
                gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
            }
            let Some(drops) = fill.drops else { continue };
            for (reason, packets) in [("full", drops.full), ("share", drops.share)] {
                follow(
                    &self.drops.with_label_values(&[fill.table, reason]),
                    packets,
                );
            }
        }
    }
}
