//! How many rules of ours there are, kept up to date from what is written.

use std::collections::BTreeMap;

use sluice_model::IpFamily;
use sluice_plane::RuleCount;
use sluice_reconcile::Delta;
use sluice_xtables::rule::Table;

use crate::object::{Key, Object};

/// What nearly every list of rules has, those of endpoints: not remembered, so that a large ruleset
/// costs little memory.
const USUAL: usize = 2;

/// Rules of ours in every table.
#[derive(Debug, Default)]
pub(crate) struct RuleCounts {
    tables: BTreeMap<(IpFamily, Table), Count>,
    /// Of chains, tails and jumps that do not have the usual number.
    unusual: BTreeMap<Key, usize>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    total: usize,
    last: usize,
}

impl RuleCounts {
    /// These are there.
    pub(crate) fn observed<'a>(
        &mut self,
        objects: impl IntoIterator<Item = (&'a Key, &'a Object)>,
    ) {
        self.unusual.clear();
        for count in self.tables.values_mut() {
            count.total = 0;
        }
        for (key, object) in objects {
            let count = self.remember(key, object);
            self.table(key).total += count;
        }
    }

    /// This was written.
    pub(crate) fn written(&mut self, delta: &Delta<Key, Object>) {
        for count in self.tables.values_mut() {
            count.last = 0;
        }
        for key in &delta.delete {
            let count = self.forget(key);
            self.table(key).total -= count;
        }
        for (key, _) in &delta.replace {
            let count = self.forget(key);
            self.table(key).total -= count;
        }
        for (key, object) in delta.add.iter().chain(&delta.replace) {
            let count = self.remember(key, object);
            let table = self.table(key);
            table.total += count;
            table.last += count;
        }
    }

    /// By family and table.
    pub(crate) fn all(&self) -> Vec<RuleCount> {
        let counts = self
            .tables
            .iter()
            .map(|((family, table), count)| RuleCount {
                family: *family,
                table: table.as_str(),
                total: count.total,
                last: count.last,
            });
        counts.collect()
    }

    fn table(&mut self, key: &Key) -> &mut Count {
        let place = key.place();
        self.tables.entry((place.family, place.table)).or_default()
    }

    fn remember(&mut self, key: &Key, object: &Object) -> usize {
        match (key, object) {
            (Key::Common(_), _) => 0,
            (_, Object::Present) => 1,
            (_, Object::Rules(rules)) => {
                if rules.len() != USUAL {
                    self.unusual.insert(key.clone(), rules.len());
                }
                rules.len()
            }
        }
    }

    fn forget(&mut self, key: &Key) -> usize {
        match key {
            Key::Common(_) => 0,
            Key::Rule(..) => 1,
            Key::Chain(_) | Key::Tail(_) | Key::Jumps(_) => {
                self.unusual.remove(key).unwrap_or(USUAL)
            }
        }
    }
}
