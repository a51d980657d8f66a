//! Totals that only grow, from kernel counters that come and go.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;

use sluice_plan::{Frontend, PortKey, PortPlan};
use sluice_plane::{ConnectionCount, Counter, Load, Reading};

/// The last value of each counter, and the totals.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    seen: HashMap<Counter, Seen>,
    totals: BTreeMap<PortKey, Total>,
    readings: u64,
}

#[derive(Debug)]
struct Seen {
    frontend: Frontend,
    endpoint: SocketAddr,
    connections: u64,
    /// Number of the reading that had the value.
    reading: u64,
}

/// Connections of one service port in one family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Total {
    /// Including those of endpoints that are gone.
    pub(crate) connections: u64,
    /// Totals of the endpoints that exist.
    pub(crate) endpoints: BTreeMap<SocketAddr, EndpointTotal>,
}

/// Connections of one endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EndpointTotal {
    pub(crate) connections: u64,
    /// Load at the last reading; `None` where the data plane does not know it.
    pub(crate) load: Option<Load>,
    /// The plan no longer has the endpoint; it stays until its last connection ends.
    pub(crate) draining: bool,
}

impl Ledger {
    /// The totals of every planned service port that a counter ever named.
    pub(crate) fn totals(&self) -> &BTreeMap<PortKey, Total> {
        &self.totals
    }

    /// Number of readings that were absorbed.
    pub(crate) fn readings(&self) -> u64 {
        self.readings
    }

    /// Sets the values from which counting begins.
    pub(crate) fn set_baseline(&mut self, reading: &Reading) {
        for count in &reading.counts {
            self.record(count);
        }
    }

    /// Adds the growth since the last reading to the service ports of `plans`, and drops the totals
    /// of all others.
    pub(crate) fn absorb(&mut self, plans: &[Arc<PortPlan>], reading: &Reading) {
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
                // The Service is not planned yet, or no longer. Counting continues from the old value
                // when it is planned.
                None => {
                    if let Some(seen) = self.seen.get_mut(&count.counter) {
                        seen.reading = self.readings;
                    }
                }
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
        let grown = self.record(count);
        let total = self.totals.entry(owner.clone()).or_default();
        total.connections = total.connections.saturating_add(grown);
        let endpoint = total.endpoints.entry(count.endpoint).or_default();
        endpoint.connections = endpoint.connections.saturating_add(grown);
        endpoint.load = match (endpoint.load, count.load) {
            (Some(load), Some(more)) => Some(load.with(more)),
            (load, more) => load.or(more),
        };
    }

    /// Stores a value and returns its growth. A counter of another endpoint, and one that shrank,
    /// started at zero again.
    fn record(&mut self, count: &ConnectionCount) -> u64 {
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
}

/// An endpoint drains when its weight is 0 and the plan no longer has it.
fn mark_draining(endpoints: &mut BTreeMap<SocketAddr, EndpointTotal>, plan: &PortPlan) {
    let wanted: HashSet<SocketAddr> = plan.reachable().iter().map(|it| it.addr).collect();
    for (endpoint, total) in endpoints {
        let is_idle = total.load.is_some_and(|it| it.weight == 0);
        total.draining = is_idle && !wanted.contains(endpoint);
    }
}
