//! Removes connections whose time has come, on a thread of its own.
//!
//! A listing takes a tenth of a second for a full table, so it happens every ten seconds, and sooner when the count
//! of new connections says that the table may be half full.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use sluice_bpf::{BpfError, CounterTable, Maps, Table};
use sluice_bpf_abi::{Affinity, AffinityKey, Counter, Flow, Tuple};
use tracing::{debug, warn};

use super::Timeouts;
use crate::fills::{AFFINITY, FLOWS, Fills, fill};

/// Time between two listings of all entries, mostly.
const PERIOD: Duration = Duration::from_secs(10);
/// Time between two looks at the count of connections.
const LOOK: Duration = Duration::from_secs(1);
/// Entries of a connection, at most.
const ENTRIES: u64 = 4;

/// The thread; it ends when the value is dropped.
#[derive(Debug)]
pub(crate) struct Sweeper {
    _stop: Sender<()>,
}

impl Sweeper {
    pub(crate) fn start(
        maps: Maps,
        timeouts: Timeouts,
        fills: Arc<Fills>,
    ) -> Result<Self, std::io::Error> {
        let (stop, stopped) = mpsc::channel();
        let mut watched = Watched {
            table: maps.flows,
            affinity: maps.affinity,
            counters: maps.counters,
            swept: None,
            entries: 0,
            opened: 0,
            fills,
            is_filling: false,
        };
        let run = move || {
            loop {
                match watched.look(&timeouts) {
                    Ok(0) => {}
                    Ok(swept) => debug!(swept, "connections removed"),
                    Err(error) => warn!(%error, "connections that ended stay for now"),
                }
                if stopped.recv_timeout(LOOK) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        };
        thread::Builder::new()
            .name("connections".to_owned())
            .spawn(run)?;
        Ok(Self { _stop: stop })
    }
}

/// The table, and what the last listing found.
struct Watched {
    table: Table<Tuple, Flow>,
    /// Counted with it.
    affinity: Table<AffinityKey, Affinity>,
    counters: CounterTable,
    /// When it was listed.
    swept: Option<Instant>,
    /// How many entries it had afterwards.
    entries: u64,
    /// Connections that had been opened by then.
    opened: u64,
    fills: Arc<Fills>,
    /// The log says that the table fills up.
    is_filling: bool,
}

impl Watched {
    /// Sweeps when it is time; returns how many entries that removed.
    fn look(&mut self, timeouts: &Timeouts) -> Result<usize, BpfError> {
        let opened = self.counters.read(Counter::Connections)?.iter().sum();
        let added = ENTRIES * u64::saturating_sub(opened, self.opened);
        // Before the first listing the count is that of earlier agents.
        let is_pressed =
            self.swept.is_some() && self.entries + added > u64::from(self.table.capacity()) / 2;
        if !is_pressed && self.swept.is_some_and(|it| it.elapsed() < PERIOD) {
            return Ok(0);
        }
        let timeouts = match is_pressed {
            true => timeouts.pressed(),
            false => *timeouts,
        };
        let swept = sweep(&mut self.table, &timeouts)?;
        self.swept = Some(Instant::now());
        self.entries = u64::try_from(swept.left).unwrap_or(u64::MAX);
        self.opened = opened;
        self.tell();
        let clients = u32::try_from(self.affinity.entries()?.len()).unwrap_or(u32::MAX);
        self.fills.set(AFFINITY, clients, self.affinity.capacity());
        Ok(swept.removed)
    }

    /// Says once that the table fills up.
    fn tell(&mut self) {
        let capacity = self.table.capacity();
        let entries = u32::try_from(self.entries).unwrap_or(u32::MAX);
        self.fills.set(FLOWS, entries, capacity);
        let is_filling = fill(FLOWS, entries, capacity).needs_room();
        if is_filling && !self.is_filling {
            warn!(
                entries,
                capacity,
                "the table of connections fills up, and a full one forgets those that are idle: raise --ebpf-flows"
            );
        }
        self.is_filling = is_filling;
    }
}

/// What a sweep found: numbers of entries.
pub(crate) struct Swept {
    pub(crate) removed: usize,
    pub(crate) left: usize,
}

/// Removes the connections whose time has come.
pub(crate) fn sweep(
    table: &mut Table<Tuple, Flow>,
    timeouts: &Timeouts,
) -> Result<Swept, BpfError> {
    let entries: HashMap<Tuple, Flow> = table.entries()?.into_iter().collect();
    let mut removed = 0;
    for key in timeouts.expired(&entries, now()) {
        // Its client may use the port again meanwhile.
        if table.get(&key)?.as_ref() == entries.get(&key) {
            table.remove(&key)?;
            removed += 1;
        }
    }
    Ok(Swept {
        removed,
        left: entries.len() - removed,
    })
}

/// Seconds of the clock that the programs read.
pub(super) fn now() -> u32 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |it| it.tv_sec());
    u32::try_from(now).unwrap_or(u32::MAX)
}
