//! Chains and jumps as input of `iptables-restore --noflush`.

use std::collections::BTreeMap;

use sluice_model::IpFamily;
use sluice_xtables::rule::{ChainName, Rule, Table};
use sluice_xtables::script::Lines;

use crate::chain::JUMPS;
use crate::object::{Key, Object};

/// Writes the chains and jumps of one family, table by table. A jump replaces `present`, the rules of
/// its key that the kernel has.
pub(crate) fn write<'a>(
    lines: &mut Lines<'_>,
    family: IpFamily,
    objects: impl Iterator<Item = (&'a Key, &'a Object)>,
    present: &BTreeMap<Key, Vec<Rule>>,
) {
    let mut chains: BTreeMap<Table, Vec<(&ChainName, &[Rule])>> = BTreeMap::new();
    let mut jumps: BTreeMap<&Key, &Rule> = BTreeMap::new();
    for (key, object) in objects.filter(|(key, _)| key.family() == Some(family)) {
        match (key, object) {
            (Key::Chain(_, table, chain), Object::Chain(rules)) => {
                chains.entry(*table).or_default().push((chain, rules));
            }
            (_, Object::Jump(rule)) => {
                jumps.insert(key, rule);
            }
            _ => {}
        }
    }
    for table in Table::ALL {
        let chains = chains.remove(&table).unwrap_or_default();
        // Each is inserted at the head of its chain, so the one that packets meet first comes last.
        let order = JUMPS.iter().rev().filter(|it| it.0 == table);
        let jumps: Vec<_> = order
            .filter_map(|(_, from, to)| {
                let (from, to) = (ChainName::new(from), ChainName::new(to));
                let key = Key::Jump(family, table, from, to);
                Some((from, *jumps.get(&key)?, present.get(&key)))
            })
            .collect();
        if chains.is_empty() && jumps.is_empty() {
            continue;
        }
        lines.table(table);
        chains.iter().for_each(|(chain, _)| lines.declare(chain));
        for (chain, rules) in chains {
            rules.iter().for_each(|rule| lines.append(chain, rule));
        }
        for (from, rule, present) in jumps {
            let present = present.into_iter().flatten();
            present.for_each(|it| lines.delete(&from, it));
            lines.insert(&from, rule);
        }
    }
}
