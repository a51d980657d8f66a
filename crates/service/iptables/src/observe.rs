//! Reads our objects from the rules of the kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sluice_model::IpFamily;
use sluice_xtables::parse::Ruleset;
use sluice_xtables::programs::Listing;
use sluice_xtables::rule::{ChainName, Rule, Table};

use crate::accounts::counted;
use crate::layout::{self, is_of_tail};
use crate::name::{self, Kind, is_of_services, kind};
use crate::object::{ChainId, Key, Object};

/// Adds the objects of one family's rules. A common chain that differs from what we write is left out, so
/// that it is written again. Rules of others are no objects.
///
/// An empty chain that no Service needs, and to which a rule of another program jumps, is no object either.
pub(crate) fn objects(
    family: IpFamily,
    listing: Listing,
    needed: &BTreeSet<ChainId>,
    objects: &mut BTreeMap<Key, Object>,
) {
    // An unreadable table counts as correct: its one chain is empty.
    if listing.hidden.contains(&Table::Mangle) {
        objects.extend(layout::mangle(family));
    }
    for ((table, chain), rules) in listing.rules {
        let place = ChainId {
            family,
            table,
            chain,
        };
        let is_left = || rules.is_empty() && needed.contains(&place) && is_of_services(&chain);
        match kind(table, chain.as_str()) {
            Some(Kind::Whole | Kind::Common) if is_left() => {}
            Some(Kind::Whole) => {
                objects.insert(Key::Chain(place), Object::Rules(rules.into()));
            }
            Some(Kind::Common) => common(place, &rules, objects),
            Some(Kind::Builtin) => builtin(place, &rules, objects),
            Some(Kind::Firewall) if family == IpFamily::V4 => firewall(place, &rules, objects),
            Some(Kind::Firewall) | None => {}
        }
    }
}

/// Our chains to which rules of others jump.
pub(crate) fn needed(family: IpFamily, ruleset: &Ruleset) -> BTreeSet<ChainId> {
    let mut needed = BTreeSet::new();
    for ((table, chain), rules) in ruleset {
        let is_theirs = |rule: &&Rule| match kind(*table, chain.as_str()) {
            Some(Kind::Whole | Kind::Common) => false,
            Some(Kind::Builtin) => !is_own_jump(*table, rule),
            Some(Kind::Firewall) | None => true,
        };
        let chains = rules.iter().filter(is_theirs).flat_map(Rule::chains);
        let ours = chains.filter(|it| is_ours(*table, it));
        needed.extend(ours.map(|chain| ChainId {
            family,
            table: *table,
            chain,
        }));
    }
    needed
}

fn is_ours(table: Table, chain: &ChainName) -> bool {
    let kind = kind(table, chain.as_str());
    matches!(kind, Some(Kind::Whole | Kind::Common))
}

/// Whether a rule in a built-in chain is ours. Other programs jump to the mark from there; we never do.
fn is_own_jump(table: Table, rule: &Rule) -> bool {
    let leads_to_ours = |to: &ChainName| is_ours(table, to) && to.as_str() != name::MARK_MASQ;
    rule.jump().is_some_and(leads_to_ours)
}

/// A common chain that can be repaired rule by rule: it has our rules alone, each once, the tail at the
/// end, and a rule that counts packets before the one that it counts for. Any other is left out, so that
/// it is emptied and filled again, in one transaction.
fn common(place: ChainId, rules: &[Rule], objects: &mut BTreeMap<Key, Object>) {
    let is_of_tail = |rule: &Rule| is_of_tail(place.table, &place.chain, rule);
    let tail = rules.iter().position(is_of_tail).unwrap_or(rules.len());
    let (own, tail) = rules.split_at(tail);
    let mut seen = BTreeSet::new();
    let is_known = |rule: &Rule| matches!(rule, Rule::Known { .. });
    let is_in_place = |rule| {
        let is_misplaced = counted(rule).is_some_and(|it| !seen.contains(&it));
        is_known(rule) && !is_misplaced && seen.insert(rule)
    };
    let is_ours = tail.iter().all(is_of_tail) && rules.iter().rev().all(is_in_place);
    if !is_ours {
        return;
    }
    if !tail.is_empty() {
        objects.insert(Key::Tail(place), Object::Rules(tail.to_vec().into()));
    }
    for rule in own {
        objects.insert(Key::Rule(place, Arc::new(rule.clone())), Object::Present);
    }
    objects.insert(Key::Common(place), Object::Present);
}

/// The rules of a built-in chain that jump to our chains.
fn builtin(place: ChainId, rules: &[Rule], objects: &mut BTreeMap<Key, Object>) {
    let own = rules.iter().filter(|it| is_own_jump(place.table, it));
    let own: Vec<Rule> = own.cloned().collect();
    let jump = layout::to_firewall();
    let filters = (place.family, place.table) == (IpFamily::V4, Table::Filter);
    if filters && place.chain.as_str() != name::FORWARD && rules.contains(&jump) {
        objects.insert(Key::Rule(place, Arc::new(jump)), Object::Present);
    }
    if !own.is_empty() {
        objects.insert(Key::Jumps(place), Object::Rules(own.into()));
    }
}

/// The kubelet's chain, in which we have one rule.
fn firewall(place: ChainId, rules: &[Rule], objects: &mut BTreeMap<Key, Object>) {
    let own = layout::drop_to_loopback();
    if rules.contains(&own) {
        objects.insert(Key::Rule(place, Arc::new(own)), Object::Present);
    }
    objects.insert(Key::Common(place), Object::Present);
}
