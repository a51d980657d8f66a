//! A delta as input of `iptables-restore --noflush`: one script per family.
//!
//! In each table: chains that are new, changed or gone are declared, which empties them; rules go
//! that nobody wants any more; chains are filled; rules come, at the head of their common chain, so
//! that its tail stays last; jumps come; empty chains go. Each table is one transaction. filter is
//! before nat, as in kube-proxy: who is to be refused is refused before anybody is translated.
//!
//! More than [`Variant::largest_step`] takes well is written in several transactions, so that every
//! chain is complete before or together with what leads to it: endpoints, what chooses among them,
//! what leads to those, common chains and jumps; at last what nothing leads to any more goes, from
//! the other end.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use sluice_model::IpFamily;
use sluice_reconcile::Delta;
use sluice_xtables::programs::Variant;
use sluice_xtables::rule::{ChainName, Rule, Table};
use sluice_xtables::script::{Lines, Script};

use crate::name;
use crate::object::{Key, Object, Place, rules};

/// Tails and jumps that the kernel holds: replacing them takes knowing the old ones.
pub(crate) type Lists = BTreeMap<Key, Vec<Rule>>;

/// What to do with an object. The number is its place in the delta: see [`key`].
#[derive(Clone, Copy)]
enum Step<'a> {
    Write(usize, &'a Key, &'a Object),
    Delete(usize, &'a Key),
}

impl<'a> Step<'a> {
    fn key(&self) -> &'a Key {
        match self {
            Self::Write(_, key, _) | Self::Delete(_, key) => key,
        }
    }

    fn chain(&self) -> &'a ChainName {
        &self.key().place().chain
    }

    fn level(&self) -> u8 {
        name::level(self.chain())
    }
}

/// The scripts of a delta, of those families that have something to do, IPv4 first.
///
/// `stuck` are chains that go, but that somebody else's rule leads to: they are emptied.
pub(crate) fn scripts<'a>(
    delta: &'a Delta<Key, Object>,
    lists: &'a Lists,
    stuck: &'a BTreeSet<Key>,
    variant: Variant,
) -> Vec<(IpFamily, Script<'a>)> {
    let writes = delta.add.iter().chain(&delta.replace);
    let writes = writes.map(|(key, object)| (key, Some(object)));
    let deletes = delta.delete.iter().map(|key| (key, None));
    let mut families: BTreeMap<IpFamily, BTreeMap<Table, Vec<Step<'a>>>> = BTreeMap::new();
    for (number, (key, object)) in writes.chain(deletes).enumerate() {
        let place = key.place();
        let tables = families.entry(place.family).or_default();
        tables.entry(place.table).or_default().push(match object {
            Some(object) => Step::Write(number, key, object),
            None => Step::Delete(number, key),
        });
    }
    let scripts = families.into_iter().map(|(family, tables)| {
        let script = Script::new(move |lines| {
            for (table, steps) in &tables {
                lines.table(*table);
                let mut writer = Writer::new(lines, steps, lists, stuck);
                let chains = steps.iter().filter(|it| matches!(it.key(), Key::Chain(_)));
                match chains.count() > variant.largest_step() {
                    true => writer.write_in_steps(steps, variant),
                    false => writer.write(steps),
                }
            }
        });
        (family, script)
    });
    scripts.collect()
}

/// The object of a delta that has this number in scripts.
pub(crate) fn key(delta: &Delta<Key, Object>, number: usize) -> Option<&Key> {
    let written = delta.add.iter().chain(&delta.replace).map(|(key, _)| key);
    written.chain(&delta.delete).nth(number)
}

/// What the kernel holds once a delta is written.
pub(crate) fn remember(delta: &Delta<Key, Object>, lists: &mut Lists) {
    for (key, object) in delta.add.iter().chain(&delta.replace) {
        if let (Key::Tail(_) | Key::Jumps(_), Object::Rules(rules)) = (key, object) {
            lists.insert(key.clone(), rules.iter().collect());
        }
    }
    for key in &delta.delete {
        lists.remove(key);
    }
}

struct Writer<'a, 's, 'l> {
    lines: &'s mut Lines<'l>,
    lists: &'a Lists,
    stuck: &'a BTreeSet<Key>,
    /// Common chains that come or go: empty once they are declared.
    emptied: BTreeSet<&'a Place>,
}

impl<'a, 's, 'l> Writer<'a, 's, 'l> {
    fn new(
        lines: &'s mut Lines<'l>,
        steps: &[Step<'a>],
        lists: &'a Lists,
        stuck: &'a BTreeSet<Key>,
    ) -> Self {
        let emptied = steps.iter().filter_map(|it| match it.key() {
            Key::Common(place) => Some(place),
            _ => None,
        });
        Self {
            lines,
            lists,
            stuck,
            emptied: emptied.collect(),
        }
    }

    fn write_in_steps(&mut self, steps: &[Step<'a>], variant: Variant) {
        let is_chain = |step: &Step<'_>| matches!(step.key(), Key::Chain(_));
        let (chains, others): (Vec<_>, Vec<_>) = steps.iter().partition(|it| is_chain(it));
        let comes = |step: &Step<'_>| matches!(step, Step::Write(..));
        let (mut come, mut go): (Vec<_>, Vec<_>) = chains.into_iter().partition(comes);
        come.sort_by_key(|it| (it.level(), it.chain()));
        go.sort_by_key(|it| (Reverse(it.level()), it.chain()));
        for step in come {
            self.lines.may_cut(variant);
            self.write(&[step]);
        }
        self.lines.may_cut(variant);
        self.write(&others);
        for step in go {
            self.lines.may_cut(variant);
            self.write(&[step]);
        }
    }

    fn write(&mut self, steps: &[Step<'a>]) {
        self.declare(steps);
        self.take_away(steps);
        self.fill(steps);
        self.insert(steps);
        self.lists(steps);
        self.remove(steps);
    }

    /// By name: `iptables-nft` 1.8.9 keeps chains sorted, and takes several times as long for
    /// thousands that come in no order.
    fn declare(&mut self, steps: &[Step<'a>]) {
        let is_chain = |step: &&Step<'_>| matches!(step.key(), Key::Chain(_) | Key::Common(_));
        let mut declared: Vec<_> = steps.iter().filter(is_chain).collect();
        declared.sort_by_key(|it| it.chain());
        for step in declared {
            self.own(step);
            self.lines.declare(step.chain());
        }
    }

    /// Rules that are gone, and of tails and jumps what is not there any more or not in its place.
    fn take_away(&mut self, steps: &[Step<'a>]) {
        for step in steps {
            self.own(step);
            match step {
                Step::Delete(_, Key::Rule(place, rule)) if !self.emptied.contains(place) => {
                    self.lines.delete(&place.chain, rule);
                }
                Step::Write(_, key @ (Key::Tail(place) | Key::Jumps(place)), object) => {
                    let same = self.same(key, &rules(key, object));
                    let old = self.old(key);
                    for rule in &old[..old.len() - same] {
                        self.lines.delete(&place.chain, rule);
                    }
                }
                Step::Delete(_, key @ (Key::Tail(place) | Key::Jumps(place))) => {
                    for rule in self.old(key) {
                        self.lines.delete(&place.chain, rule);
                    }
                }
                _ => {}
            }
        }
    }

    /// Whole chains, and common chains that are new: in the order of rendering.
    fn fill(&mut self, steps: &[Step<'a>]) {
        for step in steps {
            self.own(step);
            match step {
                Step::Write(_, Key::Chain(place), Object::Rules(rules)) => {
                    self.lines.append_all(&place.chain, rules);
                }
                Step::Write(_, Key::Rule(place, rule), _) if self.emptied.contains(place) => {
                    self.lines.append(&place.chain, rule);
                }
                _ => {}
            }
        }
    }

    /// Backwards, so that they stand in the order of rendering.
    fn insert(&mut self, steps: &[Step<'a>]) {
        for step in steps.iter().rev() {
            if let Step::Write(_, Key::Rule(place, rule), _) = step
                && !self.emptied.contains(place)
            {
                self.own(step);
                self.lines.insert(&place.chain, rule);
            }
        }
    }

    fn lists(&mut self, steps: &[Step<'a>]) {
        for step in steps {
            let Step::Write(_, key @ (Key::Tail(place) | Key::Jumps(place)), object) = step else {
                continue;
            };
            self.own(step);
            let rules = rules(key, object);
            let new = &rules[..rules.len() - self.same(key, &rules)];
            match key {
                Key::Tail(_) => new
                    .iter()
                    .for_each(|it| self.lines.append(&place.chain, it)),
                _ => {
                    let backwards = new.iter().rev();
                    backwards.for_each(|it| self.lines.insert(&place.chain, it));
                }
            }
        }
    }

    fn remove(&mut self, steps: &[Step<'a>]) {
        for step in steps {
            if let Step::Delete(_, key @ (Key::Chain(place) | Key::Common(place))) = step
                && !self.stuck.contains(key)
            {
                self.own(step);
                self.lines.remove(&place.chain);
            }
        }
    }

    fn own(&mut self, step: &Step<'_>) {
        let (Step::Write(number, _, _) | Step::Delete(number, _)) = step;
        self.lines.about(Some(*number));
    }

    /// What there is of a tail or of jumps.
    fn old(&self, key: &Key) -> &'a [Rule] {
        let lists = self.lists;
        match self.emptied.contains(key.place()) {
            true => &[],
            false => lists.get(key).map_or(&[], Vec::as_slice),
        }
    }

    /// How many rules stay where they are, at the end. Jumps come at the head of their chain; a
    /// tail is replaced.
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

#[cfg(test)]
mod tests;
