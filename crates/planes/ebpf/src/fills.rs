//! How full the maps are, for metrics and status.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use sluice_plane::{TableFill, TableFills};

/// What happens when FLOWS is full.
const FLOWS_FULL: &str =
    "a full one forgets connections that were idle for longest, so raise --ebpf-flows";

/// The fill of a map.
pub(crate) fn fill(table: &'static str, entries: u32, capacity: u32) -> TableFill {
    TableFill {
        table,
        entries: entries.into(),
        capacity: capacity.into(),
        when_full: (table == FLOWS).then_some(FLOWS_FULL),
    }
}

/// Numbers that the agent and the sweeper write, and anybody reads.
#[derive(Debug, Default)]
pub(crate) struct Fills {
    tables: [(AtomicU32, AtomicU32); TABLES.len()],
}

/// The maps.
const TABLES: [&str; 7] = [
    "FRONTENDS",
    "ENDPOINTS",
    "MEMBERS",
    "MAGLEV",
    "SOURCES",
    "ADDRESSES",
    FLOWS,
];
pub(crate) const FLOWS: &str = "FLOWS";

impl Fills {
    /// A map has this many entries, and room for so many.
    pub(crate) fn set(&self, table: &'static str, entries: u32, capacity: u32) {
        let known = TABLES.iter().position(|it| *it == table);
        if let Some((all, most)) = known.map(|it| &self.tables[it]) {
            all.store(entries, Ordering::Relaxed);
            most.store(capacity, Ordering::Relaxed);
        }
    }

    /// A reader of them.
    pub(crate) fn reader(self: &Arc<Self>) -> TableFills {
        let fills = Arc::clone(self);
        Arc::new(move || {
            let tables = TABLES.iter().zip(&fills.tables);
            let fills = tables.map(|(table, (entries, capacity))| {
                let (entries, capacity) = (
                    entries.load(Ordering::Relaxed),
                    capacity.load(Ordering::Relaxed),
                );
                fill(table, entries, capacity)
            });
            fills.collect()
        })
    }
}
