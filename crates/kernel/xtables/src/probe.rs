//! Finds out which rules the kernel accepts. They are added to a chain to which no rule jumps: the kernel
//! checks matches and targets there as in any chain.

use std::collections::{BTreeMap, BTreeSet};

use crate::programs::RestoreError;
use crate::rule::{ChainName, Rule, Table};
use crate::script::Script;

/// The chain in which rules are tried. The run that adds it removes it.
pub const CHAIN: &str = "SLUICE-TRIAL";

/// The samples that the kernel refuses, by index, each with the reason. `restore` runs the
/// program: once for all samples, and once for each if something is refused.
///
/// # Errors
///
/// The program failed, or refuses a chain without rules: nothing is known of the samples then.
pub fn refused(
    samples: &[(Table, Rule)],
    mut restore: impl FnMut(&Script<'_>) -> Result<(), RestoreError>,
) -> Result<BTreeMap<usize, String>, RestoreError> {
    let mut refusals = BTreeMap::new();
    if samples.is_empty() {
        return Ok(refusals);
    }
    let tables: BTreeSet<Table> = samples.iter().map(|(table, _)| *table).collect();
    match restore(&script(&tables, samples)) {
        Ok(()) => return Ok(refusals),
        Err(RestoreError::Refused { .. }) => restore(&script(&tables, &[]))?,
        Err(error) => return Err(error),
    }
    for (place, sample) in samples.iter().enumerate() {
        let tables = BTreeSet::from([sample.0]);
        match restore(&script(&tables, std::slice::from_ref(sample))) {
            Ok(()) => {}
            Err(RestoreError::Refused { reason, .. }) => {
                refusals.insert(place, reason);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(refusals)
}

/// Adds the chain with the samples to each of these tables, and removes it in a step of its own: a program
/// may send nothing to the kernel for rules that are added and removed in one step.
fn script<'a>(tables: &'a BTreeSet<Table>, samples: &'a [(Table, Rule)]) -> Script<'a> {
    let chain = ChainName::new(CHAIN);
    Script::new(move |lines| {
        for table in tables {
            lines.table(*table);
            lines.declare(&chain);
            for (_, rule) in samples.iter().filter(|(of, _)| of == table) {
                lines.append(&chain, rule);
            }
            lines.cut();
            lines.table(*table);
            lines.declare(&chain);
            lines.remove(&chain);
        }
    })
}

#[cfg(test)]
mod tests {
    use sluice_model::IpFamily;

    use super::*;
    use crate::parse::parse_rule;
    use crate::programs::RunError;

    fn samples() -> Vec<(Table, Rule)> {
        let filter = ["-m recent --set --name A", "-j REJECT"].map(|it| (Table::Filter, it));
        let nat = [(Table::Nat, "-j MASQUERADE")];
        let all = filter.into_iter().chain(nat);
        all.map(|(table, rule)| (table, parse_rule(rule))).collect()
    }

    /// What a kernel says that refuses each script with one of these words, and how many it gets.
    fn probed(refused_words: &[&str]) -> (Result<BTreeMap<usize, String>, RestoreError>, usize) {
        let mut runs = 0;
        let refusals = refused(&samples(), |script| {
            runs += 1;
            let text = script.text();
            match refused_words.iter().find(|it| text.contains(**it)) {
                Some(word) => Err(RestoreError::Refused {
                    family: IpFamily::V4,
                    line: 1,
                    text: String::new(),
                    reason: format!("no {word}"),
                }),
                None => Ok(()),
            }
        });
        (refusals, runs)
    }

    #[test]
    fn each_sample_is_tried_alone_once_something_is_refused() {
        let expect = |words: &[&str], expected: &[(usize, &str)], runs| {
            let (refusals, count) = probed(words);
            let expected = expected.iter().map(|(at, it)| (*at, (*it).to_owned()));
            assert_eq!(refusals.unwrap(), expected.collect(), "{words:?}");
            assert_eq!(count, runs, "{words:?}");
        };
        expect(&[], &[], 1);
        expect(&["REJECT"], &[(1, "no REJECT")], 5);
        let both = [(0, "no recent"), (2, "no MASQUERADE")];
        expect(&["recent", "MASQUERADE"], &both, 5);
    }

    #[test]
    fn rules_are_not_to_blame_where_their_chain_is_refused() {
        let (refusals, runs) = probed(&[CHAIN]);
        assert!(matches!(refusals, Err(RestoreError::Refused { .. })));
        assert_eq!(runs, 2);
    }

    #[test]
    fn a_program_that_fails_tells_nothing() {
        let result = refused(&samples(), |_| {
            Err(RestoreError::Failed(RunError::Failed {
                program: "iptables-restore".into(),
                problem: "no memory".to_owned(),
            }))
        });
        assert!(matches!(result, Err(RestoreError::Failed(_))));
    }

    #[test]
    fn the_run_that_adds_the_chain_removes_it() {
        let mut ruleset = crate::parse::Ruleset::new();
        let samples = samples();
        refused(&samples, |script| {
            let text = script.text();
            for step in text.split_inclusive("COMMIT\n") {
                crate::parse::play(&mut ruleset, step);
            }
            Ok(())
        })
        .unwrap();
        assert!(ruleset.is_empty());
    }
}
