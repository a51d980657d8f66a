//! Which service ports are written together.
//!
//! A sync holds up every change that comes meanwhile. So a large difference is written in parts: the
//! namespace with the smallest change first, and in it the Service with the smallest, and in every
//! second part also the change that waits longest, so that a stream of small ones does not hold it up
//! for ever. Many small Services or ports of one tenant are not before those of another.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use sluice_model::NamespacedName;
use sluice_plan::{Frontend, Plan, PortKey, PortPlan};

/// A service port that differs from what was written last.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    /// Its plan of the last successful sync; `None` for a new port.
    pub(crate) old: Option<Arc<PortPlan>>,
    /// Its place in the order in which service ports began to wait.
    pub(crate) since: u64,
}

/// What only one service port can have. Two ports between which one moves are written together.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Claimed {
    Frontend(Frontend),
    ClusterIp(IpAddr),
}

/// The service ports of the next part.
pub(crate) struct Choice<'a> {
    pub(crate) waiting: &'a BTreeMap<PortKey, Waiting>,
    pub(crate) plan: &'a Plan,
    /// What a plan costs; see [`ServiceBackend::cost`](crate::ServiceBackend::cost).
    pub(crate) cost: fn(&PortPlan) -> usize,
    /// What a part may cost. A single change may cost more.
    pub(crate) limit: usize,
    /// Whether the change that waits longest is part of it.
    pub(crate) with_oldest: bool,
    /// Whether all that is held already is part of it.
    pub(crate) with_held: bool,
}

impl Choice<'_> {
    pub(crate) fn choose(&self) -> BTreeSet<PortKey> {
        let ports = || self.waiting.iter();
        // Nearly always there is little to write, and nothing to compare.
        let most: usize = ports().map(|(key, it)| self.whole_cost(key, it)).sum();
        let mut costs: Vec<(usize, u64, &PortKey)> = if most <= self.limit {
            Vec::new()
        } else {
            ports()
                .map(|(key, it)| (self.cost_of(key, it), it.since, key))
                .collect()
        };
        let total: usize = costs.iter().map(|it| it.0).sum();
        if total <= self.limit {
            return self.waiting.keys().cloned().collect();
        }
        let mut namespaces: HashMap<&str, usize> = HashMap::new();
        let mut services: HashMap<&NamespacedName, usize> = HashMap::new();
        for (cost, _, PortKey { name, .. }) in &costs {
            *namespaces.entry(&name.service.namespace).or_default() += cost;
            *services.entry(&name.service).or_default() += cost;
        }
        costs.sort_unstable_by_key(|(cost, since, PortKey { name, .. })| {
            let (namespace, service) = (&*name.service.namespace, &name.service);
            (namespaces[namespace], services[service], *cost, *since)
        });
        let mut sum = 0;
        let within = |it: &&(usize, u64, &PortKey)| {
            sum += it.0;
            sum <= self.limit
        };
        let small = costs.iter().take_while(within).map(|it| it.2);
        let mut part: BTreeSet<&PortKey> = small.collect();
        if self.with_oldest || part.is_empty() {
            let oldest = costs.iter().min_by_key(|it| it.1).map(|it| it.2);
            part.extend(oldest);
        }
        if self.with_held {
            let held = self.waiting.iter().filter(|(_, it)| it.old.is_some());
            part.extend(held.map(|(key, _)| key));
        }
        self.close(part)
    }

    /// What a change costs at most: all of the old plan and of the new one.
    fn whole_cost(&self, key: &PortKey, waiting: &Waiting) -> usize {
        let plans = waiting.old.iter().chain(self.plan.ports.get(key));
        plans.map(|it| (self.cost)(it)).sum()
    }

    fn cost_of(&self, key: &PortKey, waiting: &Waiting) -> usize {
        let whole = self.whole_cost(key, waiting);
        match (waiting.old.as_deref(), self.plan.ports.get(key)) {
            (Some(old), Some(new)) if old.frontends == new.frontends => {
                // What changes takes some of the rest with it, such as other rules of its chain.
                let all = (old.members() + new.members()).max(1);
                1 + whole.saturating_mul(changed(old, new) + all / 8) / all
            }
            _ => whole,
        }
    }

    /// With all ports that give something to one of these ports, or get something from one.
    fn close(&self, part: BTreeSet<&PortKey>) -> BTreeSet<PortKey> {
        let mut ports: HashMap<Claimed, Vec<&PortKey>> = HashMap::new();
        for (key, waiting) in self.waiting {
            for claimed in self.claimed(key, waiting) {
                ports.entry(claimed).or_default().push(key);
            }
        }
        let mut closed: BTreeSet<PortKey> = BTreeSet::new();
        let mut next: Vec<&PortKey> = part.into_iter().collect();
        while let Some(key) = next.pop() {
            if closed.insert(key.clone()) {
                let claimed = self.claimed(key, &self.waiting[key]);
                next.extend(claimed.filter_map(|it| ports.remove(&it)).flatten());
            }
        }
        closed
    }

    fn claimed<'b>(
        &'b self,
        key: &PortKey,
        waiting: &'b Waiting,
    ) -> impl Iterator<Item = Claimed> + 'b {
        let plans = waiting.old.iter().chain(self.plan.ports.get(key));
        plans.flat_map(|port| {
            let frontends = port.frontends.iter();
            let frontends = frontends.map(|it| Claimed::Frontend(it.frontend));
            frontends.chain(port.owned_cluster_ip.map(Claimed::ClusterIp))
        })
    }
}

/// How many endpoints only one of two plans has.
fn changed(old: &PortPlan, new: &PortPlan) -> usize {
    let addresses = |it: &PortPlan| -> BTreeSet<SocketAddr> {
        it.reachable().into_iter().map(|it| it.addr).collect()
    };
    addresses(old).symmetric_difference(&addresses(new)).count()
}
