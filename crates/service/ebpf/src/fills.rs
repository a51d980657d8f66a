//! How full the maps are, for metrics and status.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sluice_plane::{Drops, TableFill, TableFills};

use crate::maps::{AFFINITY, FLOWS};

/// The maps whose size decides how much the node can hold.
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
const FLOWS_FULL: &str = "a full one takes no new connections, so raise --ebpf-flows";

/// The fill of a map.
pub(crate) fn fill(table: &'static str, entries: u32, capacity: u32) -> TableFill {
    TableFill {
        table,
        entries: entries.into(),
        capacity: capacity.into(),
        when_full: (table == FLOWS).then_some(FLOWS_FULL),
        drops: (table == FLOWS).then(Drops::default),
        ..TableFill::default()
    }
}

/// Numbers that the agent and the sweeper write, and anybody reads.
#[derive(Debug)]
pub(crate) struct Fills(Mutex<Vec<TableFill>>);

impl Default for Fills {
    fn default() -> Self {
        Self(Mutex::new(TABLES.map(|it| fill(it, 0, 0)).into()))
    }
}

impl Fills {
    fn all(&self) -> MutexGuard<'_, Vec<TableFill>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A map has this many entries, and room for so many.
    pub(crate) fn set(&self, table: &'static str, entries: u32, capacity: u32) {
        if let Some(known) = self.all().iter_mut().find(|it| it.table == table) {
            (known.entries, known.capacity) = (entries.into(), capacity.into());
        }
    }

    /// Packets of new connections found no room in FLOWS; `dropping` says whose are dropped now.
    pub(crate) fn set_drops(&self, drops: Drops, dropping: Option<String>) {
        if let Some(flows) = self.all().iter_mut().find(|it| it.table == FLOWS) {
            (flows.drops, flows.dropping) = (Some(drops), dropping);
        }
    }

    /// The kernel gives no larger ones for these maps, for this reason. Whether that is new.
    pub(crate) fn refuse(&self, tables: &[&'static str], reason: &str) -> bool {
        let mut is_new = false;
        for known in self.all().iter_mut() {
            let refused = tables.contains(&known.table).then(|| reason.to_owned());
            is_new |= known.refused != refused;
            known.refused = refused;
        }
        is_new
    }

    /// A reader of them.
    pub(crate) fn reader(self: &Arc<Self>) -> TableFills {
        let fills = Arc::clone(self);
        Arc::new(move || fills.all().clone())
    }
}
