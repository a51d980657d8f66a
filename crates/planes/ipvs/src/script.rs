//! Chains and jumps as input of `iptables-restore --noflush`.

use std::collections::BTreeMap;

use sluice_model::IpFamily;
use sluice_xtables::rule::{ChainName, Rule, Table};
use sluice_xtables::script::Lines;

use crate::chain::JUMPS;
use crate::object::{Key, Object};

/// Writes the chains and jumps of one family, table by table.
pub(crate) fn write<'a>(
    lines: &mut Lines<'_>,
    family: IpFamily,
    objects: impl Iterator<Item = (&'a Key, &'a Object)>,
) {
    let mut chains: BTreeMap<Table, Vec<(&ChainName, &[Rule])>> = BTreeMap::new();
    let mut jumps: BTreeMap<(Table, &str, &str), &Rule> = BTreeMap::new();
    for (key, object) in objects {
        match (key, object) {
            (Key::Chain(of, table, chain), Object::Chain(rules)) if *of == family => {
                chains.entry(*table).or_default().push((chain, rules));
            }
            (Key::Jump(of, table, from, to), Object::Jump(rule)) if *of == family => {
                jumps.insert((*table, from.as_str(), to.as_str()), rule);
            }
            _ => {}
        }
    }
    for table in Table::ALL {
        let chains = chains.get(&table).map_or(&[][..], Vec::as_slice);
        // Each is put in first place, so the one that packets meet first comes last.
        let order = JUMPS.iter().rev().filter(|it| it.0 == table);
        let jumps: Vec<_> = order
            .filter_map(|(_, from, to, _)| jumps.get(&(table, *from, *to)).map(|it| (*from, *it)))
            .collect();
        if chains.is_empty() && jumps.is_empty() {
            continue;
        }
        lines.table(table);
        chains.iter().for_each(|(chain, _)| lines.declare(chain));
        for (chain, rules) in chains {
            rules.iter().for_each(|rule| lines.append(chain, rule));
        }
        for (from, rule) in jumps {
            lines.insert(&ChainName::new(from), rule);
        }
    }
}
