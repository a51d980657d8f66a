//! Takes away every trace of ours, and nothing else.

use std::collections::BTreeSet;

use sluice_core::model::IpFamily;
use sluice_xtables::parse::Ruleset;
use sluice_xtables::rule::{ChainName, Rule, Table};
use sluice_xtables::script::Script;

use crate::layout;
use crate::name::{self, Kind, chain, kind};

/// Rules that lead to our chains first, then the chains. Empty when there is nothing of ours.
pub(crate) fn script(family: IpFamily, ruleset: &Ruleset) -> Script {
    let mut script = Script::new();
    for table in Table::ALL {
        let own = chains(ruleset, table);
        let firewall = match (family, table) {
            (IpFamily::V4, Table::Filter) => Firewall::of(ruleset),
            _ => Firewall::NotOurs,
        };
        if own.is_empty() && firewall == Firewall::NotOurs {
            continue;
        }
        script.table(table);
        for name in &own {
            script.declare(name);
        }
        for ((_, name), rules) in ruleset.iter().filter(|((it, _), _)| *it == table) {
            let is_ours = own.contains(name);
            let leads = |rule: &&Rule| rule.jump().is_some_and(|to| own.contains(to));
            for rule in rules.iter().filter(leads).filter(|_| !is_ours) {
                script.delete(name, rule);
            }
        }
        firewall.take_away(ruleset, &mut script);
        for name in &own {
            script.remove(name);
        }
    }
    script
}

/// The tables that have something of ours, as `ip nat`.
pub(crate) fn tables(family: IpFamily, ruleset: &Ruleset) -> Vec<String> {
    let word = match family {
        IpFamily::V4 => "ip",
        IpFamily::V6 => "ip6",
    };
    let own = Table::ALL.into_iter();
    let own = own.filter(|it| !chains(ruleset, *it).is_empty());
    own.map(|it| format!("{word} {it}")).collect()
}

fn chains(ruleset: &Ruleset, table: Table) -> BTreeSet<ChainName> {
    let of_table = ruleset.keys().filter(|(it, _)| *it == table);
    let own = of_table.filter(|(table, name)| {
        matches!(
            kind(*table, name.as_str()),
            Some(Kind::Whole | Kind::Common)
        )
    });
    own.map(|(_, name)| name.clone()).collect()
}

/// What becomes of the rule that a kubelet has as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Firewall {
    /// A kubelet is here, or the rule is not.
    NotOurs,
    /// Only the rule is ours.
    Rule,
    /// The chain has nothing else.
    Chain,
}

impl Firewall {
    fn of(ruleset: &Ruleset) -> Self {
        let kubelet = (Table::Mangle, chain(name::KUBELET_CANARY));
        let rules = ruleset.get(&(Table::Filter, chain(name::FIREWALL)));
        let guard = layout::martian_guard();
        match rules {
            Some(_) if ruleset.contains_key(&kubelet) => Self::NotOurs,
            Some(rules) if rules.iter().all(|it| *it == guard) => Self::Chain,
            Some(rules) if rules.contains(&guard) => Self::Rule,
            _ => Self::NotOurs,
        }
    }

    fn take_away(self, ruleset: &Ruleset, script: &mut Script) {
        let firewall = chain(name::FIREWALL);
        match self {
            Self::NotOurs => {}
            Self::Rule => script.delete(&firewall, &layout::martian_guard()),
            Self::Chain => {
                script.declare(&firewall);
                for ((table, name), rules) in ruleset {
                    let leads = |it: &&Rule| it.jump() == Some(&firewall);
                    for rule in rules.iter().filter(leads) {
                        if *table == Table::Filter {
                            script.delete(name, rule);
                        }
                    }
                }
                script.remove(&firewall);
            }
        }
    }
}
