//! Jumps that the kernel would refuse: to missing chains, and loops.

use std::collections::BTreeSet;
use std::fmt;

use sluice_xtables::parse::Ruleset;
use sluice_xtables::rule::{ChainName, Table};

/// A jump to a missing chain, or a loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// The target chain of a rule is missing.
    Missing {
        table: Table,
        /// The chain with the rule.
        from: ChainName,
        /// The missing chain.
        to: ChainName,
    },
    /// A packet can enter a chain that it has not left.
    Loop {
        table: Table,
        /// A chain of the loop.
        chain: ChainName,
    },
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { table, from, to } => {
                write!(f, "{table} {from} leads to {to}, which is missing")
            }
            Self::Loop { table, chain } => write!(f, "{table} {chain} leads to itself"),
        }
    }
}

/// Every flaw of a ruleset; one chain of each loop.
pub fn flaws(rules: &Ruleset) -> Vec<Flaw> {
    let mut found = Vec::new();
    let mut done: BTreeSet<(Table, &ChainName)> = BTreeSet::new();
    for (table, chain) in rules.keys() {
        follow(rules, *table, chain, &mut done, &mut found);
    }
    found
}

/// Follows every path from `start`, without recursion, because the ruleset decides the depth.
fn follow<'a>(
    rules: &'a Ruleset,
    table: Table,
    start: &'a ChainName,
    done: &mut BTreeSet<(Table, &'a ChainName)>,
    found: &mut Vec<Flaw>,
) {
    let targets = |chain: &'a ChainName| {
        let rules = rules.get(&(table, *chain));
        rules.into_iter().flatten().filter_map(|it| it.jump())
    };
    if !done.insert((table, start)) {
        return;
    }
    let mut open = BTreeSet::from([start]);
    let mut way = vec![(start, targets(start))];
    while let Some((from, left)) = way.last_mut() {
        let from = *from;
        let Some(to) = left.next() else {
            open.remove(from);
            way.pop();
            continue;
        };
        if open.contains(to) {
            let chain = *to;
            found.push(Flaw::Loop { table, chain });
        } else if !rules.contains_key(&(table, *to)) {
            let (from, to) = (*from, *to);
            found.push(Flaw::Missing { table, from, to });
        } else if done.insert((table, to)) {
            open.insert(to);
            way.push((to, targets(to)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_xtables::parse::parse;

    #[test]
    fn missing_chains_and_loops_are_found() {
        let rules = parse(
            "*nat\n:A - [0:0]\n:B - [0:0]\n:C - [0:0]\n:D - [0:0]\n-A A -j B\n-A A -j D\n\
             -A B -j C\n-A C -j GONE\n-A C -j A\n-A D -j C\nCOMMIT\n*filter\n:GONE - [0:0]\nCOMMIT\n",
        );
        let shown: Vec<String> = flaws(&rules).iter().map(Flaw::to_string).collect();
        assert_eq!(
            shown,
            [
                "nat C leads to GONE, which is missing",
                "nat A leads to itself"
            ]
        );
        let itself = parse("*nat\n:A - [0:0]\n-A A -j A\n");
        assert_eq!(flaws(&itself).len(), 1);
    }

    #[test]
    fn a_chain_may_be_reached_on_several_paths() {
        let rules = parse("*nat\n:A -\n:B -\n:C -\n-A A -j B\n-A A -j C\n-A B -j C\n-A A -j C\n");
        assert_eq!(flaws(&rules), []);
    }
}
