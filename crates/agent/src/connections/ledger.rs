//! Totals that only grow, from counters that come and go.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;

use sluice_core::backend::{ConnectionCount, Reading};
use sluice_core::plan::{Frontend, PortKey, PortPlan};

/// Which counter: what was dialled, and the data plane's own name for the rest.
type Counter = (Frontend, (&'static str, u32));

/// What each counter showed last, and the totals made of it.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    seen: HashMap<Counter, Seen>,
    totals: BTreeMap<PortKey, Total>,
    readings: u64,
}

#[derive(Debug)]
struct Seen {
    endpoint: SocketAddr,
    connections: u64,
    /// In which reading.
    reading: u64,
}

/// Connections of one service port in one family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Total {
    /// All of them, those of endpoints that are gone included.
    pub(super) connections: u64,
    /// Those of each endpoint that there is.
    pub(super) endpoints: BTreeMap<SocketAddr, u64>,
}

impl Ledger {
    /// The totals of every service port that is planned and was ever counted for.
    pub(super) fn totals(&self) -> &BTreeMap<PortKey, Total> {
        &self.totals
    }

    /// Counting begins at what the counters show now.
    pub(super) fn mark(&mut self, reading: &Reading) {
        for count in &reading.counts {
            self.see(count);
        }
    }

    /// Adds what was counted since the last reading for the service ports of `plans`; the totals of
    /// all others are dropped.
    pub(super) fn absorb(&mut self, plans: &[Arc<PortPlan>], reading: &Reading) {
        self.readings += 1;
        let owners: HashMap<Frontend, &PortKey> = plans
            .iter()
            .flat_map(|plan| plan.frontends.iter().map(|it| (it.frontend, &plan.key)))
            .collect();
        for count in &reading.counts {
            match owners.get(&count.frontend) {
                Some(owner) => self.add(owner, count),
                // Of a Service that is not planned yet or no longer: its next reading, if there is
                // one, counts from where it was.
                None => self.keep(count),
            }
        }
        let now = self.readings;
        let is_complete = reading.is_complete;
        self.seen.retain(|(frontend, _), it| {
            it.reading == now || (!is_complete && owners.contains_key(frontend))
        });
        let planned: HashSet<&PortKey> = plans.iter().map(|it| &it.key).collect();
        let counted = self.seen.iter().filter_map(|((frontend, _), it)| {
            let owner = owners.get(frontend)?;
            Some((*owner, it.endpoint))
        });
        let counted: HashSet<(&PortKey, SocketAddr)> = counted.collect();
        self.totals.retain(|key, total| {
            let endpoints = &mut total.endpoints;
            endpoints.retain(|endpoint, _| counted.contains(&(key, *endpoint)));
            planned.contains(key)
        });
    }

    fn add(&mut self, owner: &PortKey, count: &ConnectionCount) {
        let grown = self.see(count);
        if !self.totals.contains_key(owner) {
            self.totals.insert(owner.clone(), Total::default());
        }
        if let Some(total) = self.totals.get_mut(owner) {
            total.connections = total.connections.saturating_add(grown);
            let endpoint = total.endpoints.entry(count.endpoint).or_default();
            *endpoint = endpoint.saturating_add(grown);
        }
    }

    /// Remembers a value; how much it grew. A counter of another endpoint, and one that shrank,
    /// began anew at zero.
    fn see(&mut self, count: &ConnectionCount) -> u64 {
        let new = Seen {
            endpoint: count.endpoint,
            connections: count.connections,
            reading: self.readings,
        };
        let old = self.seen.insert((count.frontend, count.counter), new);
        let old = old.filter(|it| it.endpoint == count.endpoint);
        let grown = old.and_then(|it| count.connections.checked_sub(it.connections));
        grown.unwrap_or(count.connections)
    }

    fn keep(&mut self, count: &ConnectionCount) {
        if let Some(seen) = self.seen.get_mut(&(count.frontend, count.counter)) {
            seen.reading = self.readings;
        }
    }
}
