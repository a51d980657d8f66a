//! A large difference in parts: what no packet comes to yet, then the switch, then what no packet comes to any more.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::vec::IntoIter;

use sluice_model::IpFamily;
use sluice_reconcile::{Delta, Parts};

use crate::name::SetName;
use crate::object::{Key, Object};

/// A difference in parts. Until the switch, which is one transaction, every packet is treated as before; from then on as it is
/// to be.
#[derive(Debug)]
pub struct Aside {
    /// New sets with their elements, and new chains, each after what it leads to.
    before: IntoIter<(Key, Object)>,
    /// Elements of sets that are there before and after, and chains with other rules.
    switch: Option<Delta<Key, Object>>,
    /// Chains, each before what it led to, and sets.
    after: IntoIter<Key>,
}

impl Aside {
    /// The parts of a difference that leaves the tables and their base chains as they are.
    #[must_use]
    pub fn of(delta: Delta<Key, Object>) -> Self {
        let new = sets(delta.add.iter().map(|(key, _)| key));
        let gone = sets(&delta.delete);
        let added = delta.add.into_iter();
        let (add, mut before): (Vec<_>, Vec<_>) = added.partition(|(key, _)| stays(key, &new));
        let deleted = delta.delete.into_iter();
        let (delete, mut after): (Vec<_>, Vec<_>) = deleted.partition(|key| stays(key, &gone));
        before.sort_by_key(|(key, _)| rank(key));
        // A set goes with its elements.
        after.retain(|key| !matches!(key, Key::Element(..)));
        after.sort_by_key(|key| Reverse(rank(key)));
        Self {
            before: before.into_iter(),
            switch: Some(Delta {
                add,
                replace: delta.replace,
                delete,
            }),
            after: after.into_iter(),
        }
    }
}

/// The sets among these objects.
fn sets<'a>(keys: impl IntoIterator<Item = &'a Key>) -> BTreeSet<(IpFamily, SetName)> {
    let sets = keys.into_iter().filter_map(|it| match it {
        Key::Set(family, set) => Some((*family, set.clone())),
        _ => None,
    });
    sets.collect()
}

/// Whether it is an element of another set than these.
fn stays(key: &Key, sets: &BTreeSet<(IpFamily, SetName)>) -> bool {
    matches!(key, Key::Element(family, set, _) if !sets.contains(&(*family, set.clone())))
}

/// The place of an object among those that it refers to.
fn rank(key: &Key) -> usize {
    match key {
        Key::Table(_) | Key::Set(..) => 0,
        Key::Element(..) => 1,
        Key::Chain(_, name) => 2 + name.depth(),
    }
}

impl Parts<Key, Object> for Aside {
    fn next(&mut self, limit: usize) -> Option<Delta<Key, Object>> {
        let mut part = Delta::default();
        let mut left = limit;
        while left > 0
            && let Some((key, object)) = self.before.next()
        {
            left = left.saturating_sub(object.weight());
            part.add.push((key, object));
        }
        if !part.is_empty() {
            return Some(part);
        }
        if let Some(switch) = self.switch.take() {
            return Some(switch);
        }
        part.delete.extend(self.after.by_ref().take(limit));
        (!part.is_empty()).then_some(part)
    }
}
