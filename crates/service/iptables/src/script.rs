//! A delta as input of `iptables-restore --noflush`: one script per family.
//!
//! In each table: chains to add, replace or delete are declared, which empties them; single rules are
//! deleted; chains are filled; new rules are inserted at the head of their common chain, so that its tail
//! stays last; jumps are inserted; empty chains are removed. Each table is one transaction.
//!
//! nat is written before filter, which refuses and drops packets that nat does not translate: a new
//! endpoint is translated before its Service's refusal is deleted. A Service that loses its last endpoint
//! is neither translated nor refused for a moment.
//!
//! More than [`largest_step`](sluice_xtables::programs::Variant::largest_step) is written in several transactions, so that every
//! chain is complete before or together with the rules that jump to it: endpoints, the chains that choose
//! among them, the chains that jump to those, common chains and jumps; at last stale chains are removed,
//! in the opposite order.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use sluice_model::IpFamily;
use sluice_reconcile::Delta;
use sluice_xtables::rule::{ChainName, Rule, Table};
use sluice_xtables::script::{Lines, Script};

use crate::name;
use crate::object::{ChainId, Key, Object, rules};

/// The order in which tables are written.
const ORDER: [Table; 3] = [Table::Mangle, Table::Nat, Table::Filter];

/// Rules and chains of the kernel that a script depends on beside the delta.
#[derive(Debug, Default)]
pub(crate) struct Present {
    /// Tails and jumps, of which the old rules have to be deleted one by one.
    pub(crate) lists: BTreeMap<Key, Vec<Rule>>,
    /// Chains of ours to which rules of others jump: they are emptied, and cannot be removed.
    pub(crate) needed: BTreeSet<ChainId>,
}

/// An object that is written, or one that is deleted.
type Step<'a> = (&'a Key, Option<&'a Object>);

/// The script of each family that a delta changes, IPv4 first. `largest`: how many chains one step may declare before
/// several steps are cheaper.
pub(crate) fn scripts<'a>(
    delta: &'a Delta<Key, Object>,
    present: &'a Present,
    largest: usize,
) -> Vec<(IpFamily, Script<'a>)> {
    let writes = delta.add.iter().chain(&delta.replace);
    let writes = writes.map(|(key, object)| (key, Some(object)));
    let deletes = delta.delete.iter().map(|key| (key, None));
    let mut families: BTreeMap<IpFamily, BTreeMap<Table, Vec<Step<'a>>>> = BTreeMap::new();
    for step in writes.chain(deletes) {
        let place = step.0.place();
        let tables = families.entry(place.family).or_default();
        tables.entry(place.table).or_default().push(step);
    }
    let scripts = families.into_iter().map(|(family, tables)| {
        let script = Script::new(move |lines| {
            for table in ORDER {
                if let Some(steps) = tables.get(&table) {
                    lines.table(table);
                    Writer::new(lines, steps, present).write_table(steps, largest);
                }
            }
        });
        (family, script)
    });
    scripts.collect()
}

impl Present {
    /// The kernel holds these objects, and these chains are needed by others.
    pub(crate) fn observed(objects: &BTreeMap<Key, Object>, needed: BTreeSet<ChainId>) -> Self {
        let lists = objects.iter().filter_map(list);
        Self {
            lists: lists.collect(),
            needed,
        }
    }

    /// A delta was written.
    pub(crate) fn written(&mut self, delta: &Delta<Key, Object>) {
        for key in &delta.delete {
            self.lists.remove(key);
        }
        let writes = delta.add.iter().chain(&delta.replace);
        self.lists
            .extend(writes.filter_map(|(key, object)| list((key, object))));
    }
}

/// The rules of a tail or of jumps.
fn list((key, object): (&Key, &Object)) -> Option<(Key, Vec<Rule>)> {
    match (key, object) {
        (Key::Tail(_) | Key::Jumps(_), Object::Rules(rules)) => {
            Some((key.clone(), rules.iter().collect()))
        }
        _ => None,
    }
}

struct Writer<'a, 's, 'l> {
    lines: &'s mut Lines<'l>,
    present: &'a Present,
    /// Common chains to add or delete: declaring them empties them.
    emptied: BTreeSet<&'a ChainId>,
}

impl<'a, 's, 'l> Writer<'a, 's, 'l> {
    fn new(lines: &'s mut Lines<'l>, steps: &[Step<'a>], present: &'a Present) -> Self {
        let emptied = steps.iter().filter_map(|(key, _)| match key {
            Key::Common(place) => Some(place),
            _ => None,
        });
        Self {
            lines,
            present,
            emptied: emptied.collect(),
        }
    }

    fn write_table(&mut self, steps: &[Step<'a>], largest: usize) {
        let is_chain = |(key, _): &Step<'_>| matches!(key, Key::Chain(_));
        if steps.iter().filter(|it| is_chain(it)).count() <= largest {
            return self.write(steps);
        }
        let (chains, others): (Vec<_>, Vec<_>) = steps.iter().partition(|it| is_chain(it));
        let (mut new, mut gone): (Vec<_>, Vec<_>) =
            chains.into_iter().partition(|(_, object)| object.is_some());
        let level = |(key, _): &Step<'_>| (name::level(chain(key)), *chain(key));
        new.sort_by_key(level);
        gone.sort_by_key(|it| (Reverse(level(it).0), level(it).1));
        for step in new {
            self.lines.may_cut(largest);
            self.write(&[step]);
        }
        self.lines.may_cut(largest);
        self.write(&others);
        for step in gone {
            self.lines.may_cut(largest);
            self.write(&[step]);
        }
    }

    fn write(&mut self, steps: &[Step<'a>]) {
        self.declare(steps);
        self.delete(steps);
        self.fill(steps);
        self.insert(steps);
        self.write_lists(steps);
        self.remove(steps);
    }

    /// By name: `iptables-nft` 1.8.9 keeps chains sorted, and takes several times as long for
    /// thousands that come in no order.
    fn declare(&mut self, steps: &[Step<'a>]) {
        let keys = steps.iter().map(|(key, _)| key);
        let chains = keys.filter(|it| matches!(it, Key::Chain(_) | Key::Common(_)));
        let mut declared: Vec<_> = chains.map(|it| chain(it)).collect();
        declared.sort();
        declared.into_iter().for_each(|it| self.lines.declare(it));
    }

    /// Deletes single rules, and the rules of tails and jumps that are stale or in another place.
    fn delete(&mut self, steps: &[Step<'a>]) {
        for (key, object) in steps {
            match (key, object) {
                (Key::Rule(place, rule), None) if !self.emptied.contains(place) => {
                    self.lines.delete(&place.chain, rule);
                }
                (Key::Tail(place) | Key::Jumps(place), object) => {
                    let new = object.map_or_else(Vec::new, |it| rules(key, it));
                    let old = self.old(key);
                    for rule in &old[..old.len() - self.same(key, &new)] {
                        self.lines.delete(&place.chain, rule);
                    }
                }
                _ => {}
            }
        }
    }

    /// Fills whole chains and new common chains, in the order of rendering.
    fn fill(&mut self, steps: &[Step<'a>]) {
        for step in steps {
            match step {
                (Key::Chain(place), Some(Object::Rules(rules))) => {
                    self.lines.append_all(&place.chain, rules);
                }
                (Key::Rule(place, rule), Some(_)) if self.emptied.contains(place) => {
                    self.lines.append(&place.chain, rule);
                }
                _ => {}
            }
        }
    }

    /// Backwards, so that they stand in the order of rendering.
    fn insert(&mut self, steps: &[Step<'a>]) {
        for step in steps.iter().rev() {
            if let (Key::Rule(place, rule), Some(_)) = step
                && !self.emptied.contains(place)
            {
                self.lines.insert(&place.chain, rule);
            }
        }
    }

    fn write_lists(&mut self, steps: &[Step<'a>]) {
        for (key, object) in steps {
            let Some(object) = object else { continue };
            let rules = || rules(key, object);
            match key {
                Key::Tail(place) => {
                    let rules = rules();
                    rules
                        .iter()
                        .for_each(|it| self.lines.append(&place.chain, it));
                }
                Key::Jumps(place) => {
                    let rules = rules();
                    let new = rules.len() - self.same(key, &rules);
                    let backwards = rules[..new].iter().rev();
                    backwards.for_each(|it| self.lines.insert(&place.chain, it));
                }
                _ => {}
            }
        }
    }

    fn remove(&mut self, steps: &[Step<'a>]) {
        for step in steps {
            if let (Key::Chain(place) | Key::Common(place), None) = step
                && !self.present.needed.contains(place)
            {
                self.lines.remove(&place.chain);
            }
        }
    }

    /// The old rules of a tail or of jumps.
    fn old(&self, key: &Key) -> &'a [Rule] {
        let lists = &self.present.lists;
        if self.emptied.contains(key.place()) {
            &[]
        } else {
            lists.get(key).map_or(&[], Vec::as_slice)
        }
    }

    /// How many rules at the end of a list stay. Jumps are inserted at the head of their chain; a tail is
    /// replaced.
    fn same(&self, key: &Key, new: &[Rule]) -> usize {
        match key {
            Key::Jumps(_) => {
                let pairs = self.old(key).iter().rev().zip(new.iter().rev());
                pairs.take_while(|(a, b)| a == b).count()
            }
            _ => 0,
        }
    }
}

fn chain(key: &Key) -> &ChainName {
    &key.place().chain
}

#[cfg(test)]
mod tests;
