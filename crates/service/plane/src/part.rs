//! Which service ports are written together.
//!
//! A sync holds up every change that comes meanwhile. So a large difference is written in parts, and a small change
//! never waits for more than one of them: every second part has only what is small. The others have the change that waits
//! longest, so that a stream of small ones does not hold it up for ever. The rest of a part is the namespace with the
//! smallest change first, and in it the Service with the smallest: many small Services or ports of one tenant are not before
//! those of another.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use sluice_model::NamespacedName;
use sluice_plan::{Frontend, PortKey, PortPlan};

use crate::Superseded;

/// The part of a part that is small.
const SMALL: usize = 4;

/// A service port that differs from what was written last.
#[derive(Debug)]
struct Waiting {
    /// Its plan of the last successful sync; `None` for a new port.
    old: Option<Arc<PortPlan>>,
    /// Its place in the order in which service ports began to wait.
    since: u64,
    /// What it costs to write it.
    cost: usize,
    claimed: HashSet<Claimed>,
}

/// What only one service port can have. Two ports between which one moves are written together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Claimed {
    Frontend(Frontend),
    ClusterIp(IpAddr),
}

/// Service ports of which only the beginning is written.
#[derive(Debug, Default)]
pub(crate) struct Begun {
    ports: Superseded,
    claimed: HashSet<Claimed>,
}

impl Begun {
    pub(crate) fn ports(&self) -> &Superseded {
        &self.ports
    }

    /// With others. A service port that is begun has the plan of its beginning as its old one.
    pub(crate) fn extend(&mut self, others: Self) {
        for (key, old) in others.ports {
            self.ports.entry(key).or_insert(old);
        }
        self.claimed.extend(others.claimed);
    }

    pub(crate) fn into_ports(self) -> Superseded {
        self.ports
    }
}

/// The service ports that wait to be written.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: BTreeMap<PortKey, Waiting>,
    /// What the changes of a namespace cost together; none has no entry.
    namespaces: HashMap<Arc<str>, usize>,
    /// Who has, or is to have, what only one can have.
    claimed: HashMap<Claimed, Vec<PortKey>>,
    /// How many service ports ever began to wait.
    count: u64,
}

impl Queue {
    pub(crate) fn keys(&self) -> impl Iterator<Item = &PortKey> + Clone {
        self.waiting.keys()
    }

    pub(crate) fn has(&self, service: &NamespacedName) -> bool {
        let mut ports = PortKey::of_service(&self.waiting, service);
        ports.next().is_some()
    }

    /// A service port has another plan than was written, or another than it waits with. `old` is the former plan, `cost` what a
    /// plan costs; see [`ServiceBackend::cost`](crate::ServiceBackend::cost).
    pub(crate) fn put(
        &mut self,
        key: &PortKey,
        old: Option<&Arc<PortPlan>>,
        new: Option<&Arc<PortPlan>>,
        cost: fn(&PortPlan) -> usize,
    ) {
        let (old, since) = match self.remove(key) {
            Some(known) => (known.old, known.since),
            None => {
                self.count += 1;
                (old.cloned(), self.count)
            }
        };
        let plans = || old.iter().chain(new).map(AsRef::as_ref);
        let waiting = Waiting {
            since,
            cost: cost_of(old.as_deref(), new.map(AsRef::as_ref), cost),
            claimed: plans().flat_map(claimed).collect(),
            old,
        };
        for it in &waiting.claimed {
            self.claimed.entry(*it).or_default().push(key.clone());
        }
        let namespace = key.name.service.namespace.clone();
        *self.namespaces.entry(namespace).or_default() += waiting.cost;
        self.waiting.insert(key.clone(), waiting);
    }

    fn remove(&mut self, key: &PortKey) -> Option<Waiting> {
        let waiting = self.waiting.remove(key)?;
        for it in &waiting.claimed {
            if let Some(ports) = self.claimed.get_mut(it) {
                ports.retain(|it| it != key);
                if ports.is_empty() {
                    self.claimed.remove(it);
                }
            }
        }
        let namespace = &key.name.service.namespace;
        if let Some(cost) = self.namespaces.get_mut(namespace) {
            *cost -= waiting.cost;
            if *cost == 0 {
                self.namespaces.remove(namespace);
            }
        }
        Some(waiting)
    }

    /// Takes out what was written.
    pub(crate) fn take(&mut self, part: &BTreeSet<PortKey>) -> Begun {
        let mut taken = Begun::default();
        for key in part {
            if let Some(waiting) = self.remove(key) {
                taken.claimed.extend(waiting.claimed);
                taken.ports.insert(key.clone(), waiting.old);
            }
        }
        taken
    }

    /// What a part costs.
    pub(crate) fn cost(&self, part: &BTreeSet<PortKey>) -> usize {
        let costs = part.iter().filter_map(|it| self.waiting.get(it));
        costs.map(|it| it.cost).sum()
    }

    /// Everything, if it costs no more than `limit`, else the smallest changes, which cost little beside it; none when all are
    /// large. What has to do with service ports that are begun waits for their end.
    pub(crate) fn small(&self, limit: usize, begun: &Begun) -> BTreeSet<PortKey> {
        let held = begun.claimed.iter().filter_map(|it| self.claimed.get(it));
        let held = held.flatten().chain(begun.ports.keys());
        let held = held.filter(|it| self.waiting.contains_key(it));
        let left_out = self.close(held.collect());
        let all: usize = self.namespaces.values().sum();
        if all <= limit {
            let all = self.waiting.keys();
            return all.filter(|it| !left_out.contains(it)).cloned().collect();
        }
        self.fill(BTreeSet::new(), limit / SMALL, left_out)
    }

    /// The change that waits longest, and the smallest ones: together they cost `limit`. A change that costs more is alone.
    pub(crate) fn large(&self, limit: usize) -> BTreeSet<PortKey> {
        let oldest = self.waiting.iter().min_by_key(|(_, it)| it.since);
        let part = self.close(oldest.into_iter().map(|it| it.0).collect());
        match limit.checked_sub(self.cost(&part)) {
            Some(left) => self.fill(part, left.max(limit / SMALL), BTreeSet::new()),
            None => part,
        }
    }

    /// The part with the smallest changes that cost `limit` together.
    fn fill(
        &self,
        mut part: BTreeSet<PortKey>,
        limit: usize,
        mut left_out: BTreeSet<PortKey>,
    ) -> BTreeSet<PortKey> {
        let mut cost = 0;
        for key in self.smallest(limit, &left_out) {
            if part.contains(&key) || left_out.contains(&key) {
                continue;
            }
            // What moves from a large Service goes with it.
            let together = if self.is_alone(&key) {
                BTreeSet::from([key])
            } else {
                self.close([&key].into())
            };
            let more = self.cost(&together);
            if cost + more <= limit && together.is_disjoint(&left_out) {
                cost += more;
                part.extend(together);
            } else {
                left_out.extend(together);
            }
        }
        part
    }

    /// The smallest changes that cost `limit` together.
    fn smallest(&self, limit: usize, except: &BTreeSet<PortKey>) -> BTreeSet<PortKey> {
        let mut part = BTreeSet::new();
        let mut left = limit;
        let mut namespaces: Vec<(usize, &Arc<str>)> = self
            .namespaces
            .iter()
            .map(|(name, cost)| (*cost, name))
            .collect();
        namespaces.sort_unstable();
        for (cost, name) in namespaces {
            let ports = self.of_namespace(name);
            let free = ports.filter(|(key, _)| !except.contains(*key));
            if cost <= left {
                part.extend(free.map(|(key, _)| key.clone()));
                left -= cost;
                continue;
            }
            let free: Vec<(&PortKey, &Waiting)> = free.collect();
            let mut services: HashMap<&NamespacedName, usize> = HashMap::new();
            for (key, it) in &free {
                *services.entry(&key.name.service).or_default() += it.cost;
            }
            let mut free: Vec<_> = free
                .into_iter()
                .map(|(key, it)| (services[&key.name.service], it.cost, it.since, key))
                .collect();
            free.sort_unstable();
            let fits = |(_, cost, _, _): &(usize, usize, u64, &PortKey)| {
                let fits = *cost <= left;
                left = left.saturating_sub(*cost);
                fits
            };
            part.extend(free.into_iter().take_while(fits).map(|it| it.3.clone()));
            break;
        }
        part
    }

    fn of_namespace(&self, name: &Arc<str>) -> impl Iterator<Item = (&PortKey, &Waiting)> {
        let is_here = |key: &PortKey| key.name.service.namespace == *name;
        let from = PortKey::first_of(&NamespacedName::new(name.clone(), ""));
        let ports = self.waiting.range(from..);
        ports.take_while(move |(key, _)| is_here(key))
    }

    /// Whether nothing moves between a port and another one.
    fn is_alone(&self, key: &PortKey) -> bool {
        let claimed = self.waiting.get(key).map(|it| it.claimed.iter());
        let ports = claimed.into_iter().flatten();
        let mut ports = ports.filter_map(|it| self.claimed.get(it));
        ports.all(|it| it.len() == 1)
    }

    /// With all ports that give something to one of these ports, or get something from one.
    fn close(&self, part: BTreeSet<&PortKey>) -> BTreeSet<PortKey> {
        let mut closed: BTreeSet<PortKey> = BTreeSet::new();
        let mut next: Vec<&PortKey> = part.into_iter().collect();
        while let Some(key) = next.pop() {
            if closed.insert(key.clone())
                && let Some(waiting) = self.waiting.get(key)
            {
                let others = waiting.claimed.iter();
                let others = others.filter_map(|it| self.claimed.get(it)).flatten();
                next.extend(others.filter(|it| *it != key));
            }
        }
        closed
    }
}

fn claimed(port: &PortPlan) -> impl Iterator<Item = Claimed> + '_ {
    let frontends = port.frontends.iter();
    let frontends = frontends.map(|it| Claimed::Frontend(it.frontend));
    frontends.chain(port.owned_cluster_ip.map(Claimed::ClusterIp))
}

fn cost_of(old: Option<&PortPlan>, new: Option<&PortPlan>, cost: fn(&PortPlan) -> usize) -> usize {
    // All of the old plan and of the new one, at most.
    let whole = old.into_iter().chain(new).map(cost).sum::<usize>();
    match (old, new) {
        (Some(old), Some(new)) if old.frontends == new.frontends => {
            // What changes takes some of the rest with it, such as other rules of its chain.
            let all = (old.members() + new.members()).max(1);
            1 + whole.saturating_mul(changed(old, new) + all / 8) / all
        }
        _ => whole.max(1),
    }
}

/// How many endpoints only one of two plans has.
fn changed(old: &PortPlan, new: &PortPlan) -> usize {
    let (old, new) = (old.reachable(), new.reachable());
    // Both have the order of their addresses.
    let mut others = new.iter().map(|it| it.addr).peekable();
    let both = old.iter().filter(|it| {
        while others.next_if(|other| *other < it.addr).is_some() {}
        others.next_if(|other| *other == it.addr).is_some()
    });
    let both = both.count();
    old.len() + new.len() - 2 * both
}
