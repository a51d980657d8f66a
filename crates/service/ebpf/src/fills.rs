//! How full the maps are, for metrics and status.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use sluice_plane::{TableFill, TableFills};

pub(crate) const FLOWS: &str = "FLOWS";
pub(crate) const AFFINITY: &str = "AFFINITY";

/// The maps.
const TABLES: [&str; 8] = [
    "FRONTENDS",
    "ENDPOINTS",
    "MEMBERS",
    "MAGLEV",
    "SOURCES",
    "ADDRESSES",
    FLOWS,
    AFFINITY,
];

/// What happens when FLOWS is full. AFFINITY is full sooner or later, because nothing else removes entries from it.
const FLOWS_FULL: &str =
    "a full one forgets connections that were idle for longest, so raise --ebpf-flows";

/// The fill of a map.
pub(crate) fn fill(table: &'static str, entries: u32, capacity: u32) -> TableFill {
    TableFill {
        table,
        entries: entries.into(),
        capacity: capacity.into(),
        when_full: (table == FLOWS).then_some(FLOWS_FULL),
        refused: None,
    }
}

/// Numbers that the agent and the sweeper write, and anybody reads.
#[derive(Debug, Default)]
pub(crate) struct Fills {
    tables: [(AtomicU32, AtomicU32); TABLES.len()],
    refused: Mutex<Refused>,
}

/// The maps that the kernel gave no larger ones for, and why.
type Refused = (Vec<&'static str>, String);

impl Fills {
    /// A map has this many entries, and room for so many.
    pub(crate) fn set(&self, table: &'static str, entries: u32, capacity: u32) {
        let known = TABLES.iter().position(|it| *it == table);
        if let Some((all, most)) = known.map(|it| &self.tables[it]) {
            all.store(entries, Ordering::Relaxed);
            most.store(capacity, Ordering::Relaxed);
        }
    }

    /// The kernel gives no larger ones for these maps, for this reason. Whether that is new.
    pub(crate) fn refuse(&self, tables: Vec<&'static str>, reason: String) -> bool {
        let refused = (tables, reason);
        let mut known = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = *known != refused;
        *known = refused;
        is_new
    }

    /// A reader of them.
    pub(crate) fn reader(self: &Arc<Self>) -> TableFills {
        let fills = Arc::clone(self);
        Arc::new(move || {
            let refused = fills.refused.lock().unwrap_or_else(PoisonError::into_inner);
            let (refused, reason) = &*refused;
            let tables = TABLES.iter().zip(&fills.tables);
            let fills = tables.map(|(table, (entries, capacity))| {
                let load = |it: &AtomicU32| it.load(Ordering::Relaxed);
                TableFill {
                    refused: refused.contains(table).then(|| reason.clone()),
                    ..fill(table, load(entries), load(capacity))
                }
            });
            fills.collect()
        })
    }
}
