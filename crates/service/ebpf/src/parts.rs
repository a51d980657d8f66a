//! A difference of service ports, write by write, in an order in which packets find a whole Service after any of them, so
//! that it may be cut into parts anywhere.
//!
//! What an element leads to is written before it and deleted after it: endpoints, then where they are found by address and by
//! hash, then frontends, then ClusterIPs, whose other ports are refused; what goes does so in the opposite order. A slot that takes
//! another endpoint, and a pool that grows or shrinks, leave each packet with an endpoint of the pool, before or after. Lists of
//! sources are there before and after ([`Backend::parts`](sluice_reconcile::Backend::parts)).
//!
//! A write is computed when it is its turn: the whole difference is never in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use sluice_plan::{Pool, PoolEndpoint, PortPlan, Scope};
use sluice_reconcile::{Change, Delta};

use crate::object::{Key, Object};
use crate::placement::Placement;
use crate::render::{self, Facts, has_members};

type Held = Option<(Arc<PortPlan>, Placement)>;
type PortChange = Change<PortPlan, Placement>;

/// A write of one element.
enum Write {
    Add(Key, Object),
    Replace(Key, Object),
    Delete(Key),
}

impl Write {
    fn set(key: Key, object: Object, is_there: bool) -> Self {
        if is_there {
            Self::Replace(key, object)
        } else {
            Self::Add(key, object)
        }
    }
}

/// The difference that some service ports make.
pub(crate) struct Parts(Box<dyn Iterator<Item = Write> + Send>);

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Parts").finish_non_exhaustive()
    }
}

impl Parts {
    pub(crate) fn new(changes: &[PortChange], facts: Facts) -> Self {
        let changes: Arc<[PortChange]> = changes.iter().flat_map(with_one_id).collect();
        let ports = changes.clone();
        let frontends = move || Frontends::of(&ports, &facts);
        let (set, deleted) = (frontends.clone(), frontends);
        let hashes = move |old, new| written_hashes(&old, &new, &facts).into_iter();
        let unhashed = move |old, new| deleted_hashes(&old, &new, &facts);
        let writes = pools(&changes, written_endpoints)
            .chain(pools(&changes, written_members))
            .chain(pools(&changes, hashes))
            .chain(later(move || set().written()))
            .chain(later(move || deleted().deleted()))
            .chain(pools(&changes, unhashed))
            .chain(pools(&changes, deleted_members))
            .chain(pools(&changes, |old, new| deleted_endpoints(old, &new)));
        Self(Box::new(writes))
    }
}

impl sluice_reconcile::Parts<Key, Object> for Parts {
    fn next(&mut self, limit: usize) -> Option<Delta<Key, Object>> {
        let mut part = Delta::default();
        for write in self.0.by_ref().take(limit) {
            match write {
                Write::Add(key, object) => part.add.push((key, object)),
                Write::Replace(key, object) => part.replace.push((key, object)),
                Write::Delete(key) => part.delete.push(key),
            }
        }
        (!part.is_empty()).then_some(part)
    }
}

/// Writes that are computed together, when it is their turn.
fn later(writes: impl FnOnce() -> Vec<Write> + Send) -> impl Iterator<Item = Write> + Send {
    std::iter::once_with(writes).flatten()
}

/// A service port that gets another id goes, and another one comes.
fn with_one_id(change: &PortChange) -> Vec<PortChange> {
    match change {
        PortChange {
            old: Some(old),
            new: Some(new),
        } if old.1.service != new.1.service => {
            let gone = Some(old.clone());
            let come = Some(new.clone());
            [(gone, None), (None, come)]
                .map(|(old, new)| PortChange { old, new })
                .into()
        }
        _ => vec![change.clone()],
    }
}

/// The writes of all pools, of each when it is its turn.
fn pools<I, F>(
    changes: &Arc<[PortChange]>,
    writes: F,
) -> impl Iterator<Item = Write> + Send + use<I, F>
where
    I: Iterator<Item = Write> + Send,
    F: Fn(Slots, Slots) -> I + Clone + Send,
{
    let changes = changes.clone();
    (0..changes.len()).flat_map(move |index| {
        let (change, writes) = (changes[index].clone(), writes.clone());
        let scopes = [Scope::Cluster, Scope::Local].into_iter();
        scopes.flat_map(move |it| writes(Slots::of(&change.old, it), Slots::of(&change.new, it)))
    })
}

/// A pool by slot, at one time; empty without the port.
struct Slots {
    plan: Option<Arc<PortPlan>>,
    placement: Placement,
    scope: Scope,
}

impl Slots {
    fn of(held: &Held, scope: Scope) -> Self {
        let (plan, placement) = held.clone().unzip();
        Self {
            plan,
            placement: placement.unwrap_or_default(),
            scope,
        }
    }

    fn addresses(&self) -> &[SocketAddr] {
        self.placement.addresses(self.scope)
    }

    fn pool(&self) -> Option<&Pool> {
        self.plan.as_ref()?.pool(self.scope)
    }

    fn endpoints(&self) -> &[PoolEndpoint] {
        self.pool().map_or(&[], Pool::endpoints)
    }

    fn endpoint(&self, addr: &SocketAddr) -> Option<&PoolEndpoint> {
        let all = self.endpoints();
        let index = all.binary_search_by(|it| it.addr.cmp(addr)).ok()?;
        Some(&all[index])
    }

    fn key(&self, index: usize) -> Key {
        Key::Endpoint(self.placement.service, self.slot(index))
    }

    fn slot(&self, index: usize) -> u32 {
        self.placement.slot(self.scope, index)
    }

    /// Whether endpoints are found by their address.
    fn has_members(&self) -> bool {
        self.plan.as_ref().is_some_and(|it| has_members(it))
    }

    fn member(&self, addr: SocketAddr) -> Key {
        Key::Member(self.placement.service, self.scope, addr)
    }

    /// The entries of Maglev's table of the pool.
    fn hash_size(&self, facts: &Facts) -> u32 {
        let plan = self.plan.as_ref().filter(|_| self.pool().is_some());
        plan.map_or(0, |it| render::maglev_size(it, facts))
    }
}

/// The endpoints that both pools have and that are written otherwise in the second. One pass, because both have the order of
/// their addresses.
fn rewritten(old: &Slots, new: &Slots) -> BTreeSet<SocketAddr> {
    let mut before = old.endpoints().iter().peekable();
    let all = new.endpoints().iter().filter(|it| {
        while before.next_if(|old| old.addr < it.addr).is_some() {}
        let same = before.next_if(|old| old.addr == it.addr);
        same.is_some_and(|old| render::endpoint(old) != render::endpoint(it))
    });
    all.map(|it| it.addr).collect()
}

fn written_endpoints(old: Slots, new: Slots) -> impl Iterator<Item = Write> + Send {
    let rewritten = rewritten(&old, &new);
    (0..new.addresses().len()).filter_map(move |index| {
        let addr = &new.addresses()[index];
        let before = old.addresses().get(index);
        if before == Some(addr) && !rewritten.contains(addr) {
            return None;
        }
        let endpoint = render::endpoint(new.endpoint(addr)?);
        let object = Object::Endpoint(endpoint);
        Some(Write::set(new.key(index), object, before.is_some()))
    })
}

fn deleted_endpoints(old: Slots, new: &Slots) -> impl Iterator<Item = Write> + Send + use<> {
    let gone = new.addresses().len()..old.addresses().len();
    gone.map(move |index| Write::Delete(old.key(index)))
}

fn written_members(old: Slots, new: Slots) -> impl Iterator<Item = Write> + Send {
    let had_members = old.has_members();
    let count = if new.has_members() {
        new.addresses().len()
    } else {
        0
    };
    (0..count).filter_map(move |index| {
        let addr = new.addresses()[index];
        if had_members && old.addresses().get(index) == Some(&addr) {
            return None;
        }
        let is_there = had_members && old.endpoint(&addr).is_some();
        let object = Object::Member(new.slot(index));
        Some(Write::set(new.member(addr), object, is_there))
    })
}

fn deleted_members(old: Slots, new: Slots) -> impl Iterator<Item = Write> + Send {
    let has_members = new.has_members();
    let count = if old.has_members() {
        old.addresses().len()
    } else {
        0
    };
    (0..count).filter_map(move |index| {
        let addr = old.addresses()[index];
        let is_kept = has_members && new.endpoint(&addr).is_some();
        (!is_kept).then(|| Write::Delete(old.member(addr)))
    })
}

fn written_hashes(old: &Slots, new: &Slots, facts: &Facts) -> Vec<Write> {
    let of_what = |it: &Slots| (it.hash_size(facts), it.pool().cloned());
    if of_what(old) == of_what(new) && old.addresses() == new.addresses() {
        return Vec::new();
    }
    let chunks = |it: &Slots| match (it.hash_size(facts), it.pool()) {
        (0, _) | (_, None) => Vec::new(),
        (size, Some(pool)) => render::by_hash(&it.placement, it.scope, pool, size),
    };
    let mut before = chunks(old).into_iter();
    let new = chunks(new).into_iter().filter_map(|(key, object)| {
        let before = before.next().map(|(_, it)| it);
        let is_other = before.as_ref() != Some(&object);
        is_other.then(|| Write::set(key, object, before.is_some()))
    });
    new.collect()
}

fn deleted_hashes(
    old: &Slots,
    new: &Slots,
    facts: &Facts,
) -> impl Iterator<Item = Write> + Send + use<> {
    let chunks = |it: &Slots| render::hash_chunks(it.hash_size(facts));
    let (service, scope) = (old.placement.service, old.scope);
    let gone = chunks(new)..chunks(old);
    gone.map(move |chunk| Write::Delete(Key::Maglev(service, scope, chunk)))
}

/// Frontends and ClusterIPs, which may move from one service port to another.
struct Frontends {
    old: BTreeMap<Key, Object>,
    new: Vec<(Key, Object)>,
}

impl Frontends {
    fn of(changes: &[PortChange], facts: &Facts) -> Self {
        let all = |held: &Held| {
            let held = held.iter();
            let all = held.flat_map(|(port, placement)| render::frontends(port, placement, facts));
            all.collect::<Vec<_>>()
        };
        Self {
            old: changes.iter().flat_map(|it| all(&it.old)).collect(),
            new: changes.iter().flat_map(|it| all(&it.new)).collect(),
        }
    }

    /// ClusterIPs last.
    fn written(mut self) -> Vec<Write> {
        self.new.sort_by_key(|(key, _)| is_cluster_ip(key));
        let new = self.new.into_iter().filter_map(|(key, object)| {
            let before = self.old.get(&key);
            let is_other = before != Some(&object);
            is_other.then(|| Write::set(key, object, before.is_some()))
        });
        new.collect()
    }

    /// ClusterIPs first.
    fn deleted(mut self) -> Vec<Write> {
        for (key, _) in &self.new {
            self.old.remove(key);
        }
        let mut gone: Vec<Key> = self.old.into_keys().collect();
        gone.sort_by_key(|key| !is_cluster_ip(key));
        gone.into_iter().map(Write::Delete).collect()
    }
}

fn is_cluster_ip(key: &Key) -> bool {
    matches!(key, Key::Address(..))
}
