//! Removes connections whose time has come, on a thread of its own.
//!
//! A listing takes a quarter of a second for 262,144 entries. [`Pace`] says when it is worth that. While the table fills up,
//! most sweeps are only of what was never open ([`sweep_brief`]).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use sluice_bpf::BpfError;
use sluice_bpf_abi::{Addr, Affinity, AffinityKey, Allowance, Counter, Flow, Tuple, flow_flags};
use sluice_plane::Drops;
use tracing::{debug, warn};

use super::drops::Dropping;
use super::pace::{LONGEST, LOOK, Pace, State};
use super::share::{Clients, most};
use super::{Timeouts, is_first, keys, rewritten};
use crate::fills::{Fills, fill};
use crate::maps::{AFFINITY, CounterTable, FLOWS, Maps};

/// Entries of a connection, at most.
pub(crate) const ENTRIES: u64 = 4;
/// How long a client that had too large a part of the table gets no larger one: without a limit it fills the table again
/// before the next listing.
const LIMITED_SECONDS: u32 = 30;

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
            allowances: maps.allowances,
            affinity: maps.affinity,
            counters: maps.counters,
            swept: None,
            swept_whole: None,
            pace: Pace::default(),
            entries: 0,
            opened: 0,
            dropping: Dropping::default(),
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
    table: sluice_bpf::Table<Tuple, Flow>,
    allowances: sluice_bpf::Table<Addr, Allowance>,
    /// Counted with it.
    affinity: sluice_bpf::Table<AffinityKey, Affinity>,
    counters: CounterTable,
    /// When it was swept.
    swept: Option<Instant>,
    /// When all its connections were.
    swept_whole: Option<Instant>,
    pace: Pace,
    /// How many entries it had afterwards.
    entries: u64,
    /// Connections that had been opened by then.
    opened: u64,
    dropping: Dropping,
    fills: Arc<Fills>,
    /// The log says that the table fills up.
    is_filling: bool,
}

impl Watched {
    /// Sweeps when it is time; returns how many entries that removed.
    fn look(&mut self, timeouts: &Timeouts) -> Result<usize, BpfError> {
        let opened = self.counted(Counter::Connections)?;
        let drops = Drops {
            full: self.counted(Counter::FlowsFull)?,
            share: self.counted(Counter::ClientLimit)?,
        };
        self.dropping.look(drops, Instant::now());
        self.fills.set_drops(drops, self.dropping.text());
        let added = ENTRIES * u64::saturating_sub(opened, self.opened);
        // Before the first listing the count is that of earlier agents.
        let is_pressed =
            self.swept.is_some() && self.entries + added > u64::from(self.table.capacity()) / 2;
        let state = State {
            added,
            capacity: self.table.capacity().into(),
            is_pressed,
            is_urgent: self.dropping.is_urgent(),
        };
        if let Some(swept) = self.swept
            && !self.pace.is_due(swept.elapsed(), state)
        {
            return Ok(0);
        }
        let timeouts = if is_pressed {
            timeouts.pressed()
        } else {
            *timeouts
        };
        let is_whole = !is_pressed || self.swept_whole.is_none_or(|it| it.elapsed() >= LONGEST);
        let begin = cpu_time();
        let mut swept = if is_whole {
            self.swept_whole = Some(Instant::now());
            sweep(&mut self.table, &timeouts)?
        } else {
            sweep_brief(&mut self.table, &timeouts)?
        };
        let most = most(state.capacity);
        let surplus = if is_pressed {
            swept.clients.surplus(most)
        } else {
            HashMap::new()
        };
        swept.forget(cut(&mut self.table, &surplus)?);
        let limited = self.limit(&swept.clients, surplus, most)?;
        self.dropping.listed(limited);
        let cost = cpu_time().saturating_sub(begin);
        let [removed, left] =
            [swept.removed, swept.left].map(|it| u64::try_from(it).unwrap_or(u64::MAX));
        self.pace.listed(cost, removed, left, state);
        self.swept = Some(Instant::now());
        self.entries = left;
        self.opened = opened;
        self.tell();
        let clients = u32::try_from(self.affinity.entries()?.len()).unwrap_or(u32::MAX);
        self.fills.set(AFFINITY, clients, self.affinity.capacity());
        Ok(swept.removed)
    }

    fn counted(&self, counter: Counter) -> Result<u64, BpfError> {
        Ok(self.counters.read(counter)?.iter().sum())
    }

    /// Writes what limited clients may open until the next listing: the rest of what any client may have. Those that have a
    /// surplus are limited from now on. Returns all that are.
    fn limit(
        &mut self,
        clients: &Clients,
        surplus: HashMap<Addr, u64>,
        most: u64,
    ) -> Result<BTreeSet<Addr>, BpfError> {
        let now = now();
        let end = now.saturating_add(LIMITED_SECONDS);
        let before = self.allowances.entries()?.into_iter();
        let before = before.map(|(client, it)| (client, it.until));
        let all = before.chain(surplus.into_keys().map(|it| (it, end)));
        let mut limited = BTreeSet::new();
        // The last end of a client counts.
        for (client, until) in all.collect::<BTreeMap<_, _>>() {
            if until > now {
                let left = clients.left(&client, most);
                self.allowances
                    .insert(&client, &Allowance { until, left })?;
                limited.insert(client);
            } else {
                self.allowances.remove(&client)?;
            }
        }
        Ok(limited)
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
                "the table of connections fills up, and a full one takes no new ones: raise --ebpf-flows"
            );
        }
        self.is_filling = is_filling;
    }
}

/// CPU time of this thread so far.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// The result of a sweep.
pub(crate) struct Swept {
    /// How many entries were removed.
    pub(crate) removed: usize,
    /// How many entries are left.
    pub(crate) left: usize,
    /// Whose connections are left.
    clients: Clients,
}

impl Swept {
    /// So many entries more were removed.
    fn forget(&mut self, removed: usize) {
        self.removed += removed;
        self.left -= removed.min(self.left);
    }
}

/// The table of connections, which packets change at the same time.
pub(crate) trait Table {
    /// Gives every entry to a function. Those that come or go during the listing may be missing.
    fn each(&self, entry: impl FnMut(Tuple, Flow)) -> Result<(), BpfError>;
    /// The entry of a key.
    fn get(&self, key: &Tuple) -> Result<Option<Flow>, BpfError>;
    /// Removes an entry, and returns what it was then.
    fn take(&mut self, key: &Tuple) -> Result<Option<Flow>, BpfError>;
    /// Puts an entry back, unless its key has another one.
    fn put_back(&mut self, key: &Tuple, flow: &Flow) -> Result<bool, BpfError>;
}

impl Table for sluice_bpf::Table<Tuple, Flow> {
    fn each(&self, entry: impl FnMut(Tuple, Flow)) -> Result<(), BpfError> {
        self.each(entry)
    }

    fn get(&self, key: &Tuple) -> Result<Option<Flow>, BpfError> {
        self.get(key)
    }

    fn take(&mut self, key: &Tuple) -> Result<Option<Flow>, BpfError> {
        self.take(key)
    }

    fn put_back(&mut self, key: &Tuple, flow: &Flow) -> Result<bool, BpfError> {
        self.insert_new(key, flow)
    }
}

/// Removes the connections whose time has come.
pub(crate) fn sweep(table: &mut impl Table, timeouts: &Timeouts) -> Result<Swept, BpfError> {
    let mut entries = HashMap::new();
    table.each(|key, flow| {
        entries.insert(key, flow);
    })?;
    complete(&mut entries, table)?;
    let mut removed = 0;
    for connection in timeouts.expired(&entries, now()) {
        let count = remove(&connection, &entries, table)?;
        removed += count;
        for key in connection.iter().take(count) {
            entries.remove(key);
        }
    }
    let mut clients = Clients::default();
    entries.iter().for_each(|(key, it)| clients.count(key, it));
    Ok(Swept {
        removed,
        left: entries.len(),
        clients,
    })
}

/// Removes the connections whose time has come, of those that were never open or that their clients have ended. It costs a
/// twentieth of a [`sweep`], because it looks up only entries of these: a flood is made of them.
fn sweep_brief(table: &mut impl Table, timeouts: &Timeouts) -> Result<Swept, BpfError> {
    let now = now();
    let mut swept = Swept {
        removed: 0,
        left: 0,
        clients: Clients::default(),
    };
    let mut due = Vec::new();
    table.each(|key, flow| {
        swept.left += 1;
        if timeouts.may_have_expired(&key, &flow, now) {
            due.push((key, flow));
        } else {
            swept.clients.count(&key, &flow);
        }
    })?;
    for (key, first) in due {
        let connection = connection(&key, &first, table)?;
        let expired = timeouts.expired(&connection, now).concat();
        // One that leads to another connection stays until the next whole sweep.
        let removed = if is_alone(&connection) {
            remove(&expired, &connection, table)?
        } else {
            0
        };
        if removed == 0 {
            swept.clients.count(&key, &first);
        }
        swept.forget(removed);
    }
    Ok(swept)
}

/// Removes so many connections of each client, unless they go on (UDP) or an endpoint has answered (TCP), as netfilter makes
/// room in a full table (`early_drop` of `nf_conntrack_core.c`). A client that sends on each of them would keep the table
/// full. Returns how many entries were removed.
fn cut(table: &mut impl Table, surplus: &HashMap<Addr, u64>) -> Result<usize, BpfError> {
    if surplus.is_empty() {
        return Ok(0);
    }
    let mut surplus = surplus.clone();
    let mut due = Vec::new();
    table.each(|key, flow| {
        if is_first(&flow)
            && flow.flags & flow_flags::ESTABLISHED == 0
            && let Some(left) = surplus.get_mut(&key.source).filter(|it| **it > 0)
        {
            *left -= 1;
            due.push((key, flow));
        }
    })?;
    let mut removed = 0;
    for (key, first) in due {
        let connection = connection(&key, &first, table)?;
        if is_alone(&connection) {
            let keys = keys(&key, &first, |it| connection.get(it).copied());
            let keys: Vec<Tuple> = keys.filter(|it| connection.contains_key(it)).collect();
            removed += remove(&keys, &connection, table)?;
        }
    }
    Ok(removed)
}

/// Whether these entries are of one connection.
fn is_alone(connection: &HashMap<Tuple, Flow>) -> bool {
    connection.values().filter(|it| is_first(it)).count() == 1
}

/// The entries of a connection, and that of one beside it.
fn connection(
    key: &Tuple,
    first: &Flow,
    table: &impl Table,
) -> Result<HashMap<Tuple, Flow>, BpfError> {
    let mut beside = rewritten(key, first);
    beside.protocol |= Tuple::BESIDE;
    let keys = keys(key, first, |it| table.get(it).ok().flatten());
    let mut connection = HashMap::new();
    for key in keys.chain([beside]) {
        if let Some(flow) = table.get(&key)? {
            connection.insert(key, flow);
        }
    }
    Ok(connection)
}

/// Adds entries of connections that began during the listing: each may be listed or not, and a connection that lacks
/// one would be taken for broken.
fn complete(entries: &mut HashMap<Tuple, Flow>, table: &impl Table) -> Result<(), BpfError> {
    let mut missing = Vec::new();
    for (key, request) in entries.iter() {
        if is_first(request) {
            let all = keys(key, request, |it| entries.get(it).copied());
            // Replies to what goes through the tunnel have no entry here.
            let has_replies = request.flags & flow_flags::DSR == 0;
            let all = all.take(if has_replies { usize::MAX } else { 2 });
            missing.extend(all.filter(|it| !entries.contains_key(it)));
        }
    }
    for key in missing {
        if let Some(flow) = table.get(&key)? {
            entries.insert(key, flow);
        }
    }
    Ok(())
}

/// Removes a connection, whose request is the first key, unless its client goes on or uses the port again meanwhile: then
/// it needs all its entries. Returns how many were removed.
fn remove(
    connection: &[Tuple],
    listed: &HashMap<Tuple, Flow>,
    table: &mut impl Table,
) -> Result<usize, BpfError> {
    for key in connection.iter().rev() {
        if table.get(key)?.as_ref() != listed.get(key) {
            return Ok(0);
        }
    }
    let mut removed = 0;
    for key in connection {
        match table.take(key)? {
            None => {}
            taken if taken.as_ref() == listed.get(key) => removed += 1,
            // Just now. Without its request a connection begins anew, with other entries in the place of these.
            Some(flow) => {
                table.put_back(key, &flow)?;
                break;
            }
        }
    }
    Ok(removed)
}

/// Seconds of the clock that the programs read.
pub(super) fn now() -> u32 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |it| it.tv_sec());
    u32::try_from(now).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
