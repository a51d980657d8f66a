//! Counts our rules, from listings and writes.

use std::collections::BTreeMap;

use sluice_model::IpFamily;
use sluice_reconcile::Delta;

use crate::RuleCount;

/// The key of an object that may have rules.
pub trait RuleKey: Ord + Clone {
    /// The rules, or another object that has no rules.
    type Object;

    /// The family and the table of the rules; `None` when the object has no rules.
    fn table(&self) -> Option<(IpFamily, &'static str)>;

    /// The number of rules of an object.
    fn rules(&self, object: &Self::Object) -> usize;

    /// The usual number of rules of such an object. Only other numbers are remembered, so that a large
    /// ruleset costs little memory.
    fn usual(&self) -> usize;
}

/// Rules of ours in every table.
#[derive(Debug)]
pub struct RuleCounts<K> {
    tables: BTreeMap<(IpFamily, &'static str), (usize, usize)>,
    /// Objects that do not have the usual number of rules.
    unusual: BTreeMap<K, usize>,
}

impl<K> Default for RuleCounts<K> {
    fn default() -> Self {
        Self {
            tables: BTreeMap::new(),
            unusual: BTreeMap::new(),
        }
    }
}

impl<K: RuleKey> RuleCounts<K> {
    /// The kernel holds these objects.
    pub fn observed<'a>(&mut self, objects: impl IntoIterator<Item = (&'a K, &'a K::Object)>)
    where
        K: 'a,
        K::Object: 'a,
    {
        self.unusual.clear();
        self.tables.values_mut().for_each(|(total, _)| *total = 0);
        for (key, object) in objects {
            self.add(key, object, 0);
        }
    }

    /// A delta was written.
    pub fn written(&mut self, delta: &Delta<K, K::Object>) {
        self.tables.values_mut().for_each(|(_, last)| *last = 0);
        let replaced = delta.replace.iter().map(|(key, _)| key);
        for key in delta.delete.iter().chain(replaced) {
            if let Some(table) = key.table() {
                let count = self.unusual.remove(key).unwrap_or(key.usual());
                self.tables.entry(table).or_default().0 -= count;
            }
        }
        for (key, object) in delta.add.iter().chain(&delta.replace) {
            self.add(key, object, 1);
        }
    }

    /// By family and table.
    pub fn all(&self) -> Vec<RuleCount> {
        let counts = self.tables.iter().map(|(table, count)| RuleCount {
            family: table.0,
            table: table.1,
            total: count.0,
            last: count.1,
        });
        counts.collect()
    }

    /// Adds an object, which the last write wrote `times` times.
    fn add(&mut self, key: &K, object: &K::Object, times: usize) {
        if let Some(table) = key.table() {
            let count = key.rules(object);
            if count != key.usual() {
                self.unusual.insert(key.clone(), count);
            }
            let (total, last) = self.tables.entry(table).or_default();
            *total += count;
            *last += count * times;
        }
    }
}

#[cfg(test)]
mod tests;
