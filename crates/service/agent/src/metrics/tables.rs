//! How full the tables of the data plane are, read at each scrape.

use std::sync::OnceLock;

use prometheus::IntGaugeVec;
use sluice_node::metrics::Registrar;
use sluice_plane::TableFills;

pub(crate) struct Tables {
    entries: IntGaugeVec,
    limit: IntGaugeVec,
    /// Empty before the data plane is open.
    fills: OnceLock<TableFills>,
}

impl Tables {
    pub(super) fn new(to: Registrar<'_>) -> Self {
        Self {
            entries: to.gauges("sluice_map_entries", &["map"]),
            limit: to.gauges("sluice_map_entries_limit", &["map"]),
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
        }
    }
}
