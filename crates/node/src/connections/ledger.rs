//! Totals that only grow, from counters that come and go.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;

use sluice_plan::{Frontend, PortKey, PortPlan};
use sluice_plane::{ConnectionCount, Counter, Load, Reading};

/// What each counter showed last, and the totals made of it.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    seen: HashMap<Counter, Seen>,
    totals: BTreeMap<PortKey, Total>,
    readings: u64,
}

#[derive(Debug)]
struct Seen {
    frontend: Frontend,
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
    pub(super) endpoints: BTreeMap<SocketAddr, EndpointTotal>,
}

/// Connections of one endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct EndpointTotal {
    /// All of them.
    pub(super) connections: u64,
    /// How it was doing in the last reading; `None` where nobody knows.
    pub(super) load: Option<Load>,
    /// It is planned no longer and stays for the connections it has.
    pub(super) draining: bool,
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
        let totals = self.totals.values_mut();
        let endpoints = totals.flat_map(|it| it.endpoints.values_mut());
        endpoints.for_each(|it| it.load = None);
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
        self.seen.retain(|_, it| {
            it.reading == now || (!is_complete && owners.contains_key(&it.frontend))
        });
        let counted = self.seen.values().filter_map(|it| {
            let owner = owners.get(&it.frontend)?;
            Some((*owner, it.endpoint))
        });
        let counted: HashSet<(&PortKey, SocketAddr)> = counted.collect();
        let planned: HashMap<&PortKey, &PortPlan> =
            plans.iter().map(|it| (&it.key, &**it)).collect();
        self.totals.retain(|key, total| {
            let Some(plan) = planned.get(key) else {
                return false;
            };
            let endpoints = &mut total.endpoints;
            endpoints.retain(|endpoint, _| counted.contains(&(key, *endpoint)));
            mark_draining(endpoints, plan);
            true
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
            endpoint.connections = endpoint.connections.saturating_add(grown);
            endpoint.load = match (endpoint.load, count.load) {
                (Some(load), Some(more)) => Some(load.with(more)),
                (load, more) => load.or(more),
            };
        }
    }

    /// Remembers a value; how much it grew. A counter of another endpoint, and one that shrank,
    /// began anew at zero.
    fn see(&mut self, count: &ConnectionCount) -> u64 {
        let new = Seen {
            frontend: count.frontend,
            endpoint: count.endpoint,
            connections: count.connections,
            reading: self.readings,
        };
        let old = self.seen.insert(count.counter, new);
        let old = old.filter(|it| it.endpoint == count.endpoint);
        let grown = old.and_then(|it| count.connections.checked_sub(it.connections));
        grown.unwrap_or(count.connections)
    }

    fn keep(&mut self, count: &ConnectionCount) {
        if let Some(seen) = self.seen.get_mut(&count.counter) {
            seen.reading = self.readings;
        }
    }
}

/// Endpoints whose load is known and that nobody wants any more are on their way out.
fn mark_draining(endpoints: &mut BTreeMap<SocketAddr, EndpointTotal>, plan: &PortPlan) {
    let wanted: HashSet<SocketAddr> = plan.reachable().iter().map(|it| it.addr).collect();
    for (endpoint, total) in endpoints {
        let is_idle = total.load.is_some_and(|it| it.weight == 0);
        total.draining = is_idle && !wanted.contains(endpoint);
    }
}
