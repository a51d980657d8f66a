//! Which rules the kernel refuses, when it does not say: the legacy interface takes whole tables and
//! names none.
//!
//! Rules are tried in a chain that nothing leads to, where every match and every target is checked
//! as anywhere. Half of a refused group is tried, and half of that, until single rules are left.

use std::collections::BTreeSet;

use crate::programs::RestoreError;
use crate::rule::{ChainName, Rule, Table, Target};
use crate::script::{Lines, Script};

/// The chain in which rules are tried. It is gone when a trial is over.
pub const CHAIN: &str = "SLUICE-TRIAL";

/// How often a program may be run to find culprits: enough for a few among as many as there can be.
const TRIALS: usize = 64;

/// A rule that may be refused.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Whose it is: a number that the caller understands.
    pub owner: usize,
    /// Where it belongs.
    pub table: Table,
    /// The rule.
    pub rule: Rule,
}

/// Somebody whose rule is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Culprit {
    /// As in [`Candidate`].
    pub owner: usize,
    /// The rule and what was said about it.
    pub reason: String,
}

/// What trials say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Each owner once, with its first refused rule.
    pub culprits: Vec<Culprit>,
    /// There are no others: neither were there too many, nor did the program fail for another
    /// reason.
    pub is_complete: bool,
}

/// Whose rules are refused, whatever they lead to. `restore` runs the program.
pub fn find(
    candidates: &[Candidate],
    restore: impl FnMut(&Script<'_>) -> Result<(), RestoreError>,
) -> Findings {
    let mut search = Search {
        restore,
        left: TRIALS,
        is_sound: false,
        found: Vec::new(),
        guilty: BTreeSet::new(),
    };
    search.look(&candidates.iter().collect::<Vec<_>>(), Suspicion::None);
    Findings {
        culprits: search.found,
        is_complete: search.left > 0,
    }
}

/// What is known of a group before it is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Suspicion {
    None,
    /// It is refused with others that are not.
    Certain,
}

/// What a trial says.
enum Answer {
    Fine,
    /// This candidate, by its place in the group.
    One(usize, String),
    /// Any of them.
    Some(String),
    /// Nothing about the rules, or there were enough trials.
    Nothing,
}

struct Search<R> {
    restore: R,
    left: usize,
    /// A trial without rules is taken, so rules are what a refusal is about.
    is_sound: bool,
    found: Vec<Culprit>,
    guilty: BTreeSet<usize>,
}

impl<R: FnMut(&Script<'_>) -> Result<(), RestoreError>> Search<R> {
    fn look(&mut self, group: &[&Candidate], mut suspicion: Suspicion) {
        let mut group = group.to_vec();
        loop {
            // One reason for each owner is enough.
            group.retain(|it| !self.guilty.contains(&it.owner));
            // The last one is tried in any case: all may be fine where they are not too many.
            if suspicion == Suspicion::None || group.len() == 1 {
                match self.trial(&group) {
                    Answer::Fine | Answer::Nothing => return,
                    Answer::One(at, reason) => {
                        self.accuse(group[at], &reason);
                        suspicion = Suspicion::None;
                        continue;
                    }
                    Answer::Some(reason) if group.len() == 1 => {
                        self.accuse(group[0], &reason);
                        return;
                    }
                    Answer::Some(_) => {}
                }
            }
            let (first, second) = group.split_at(group.len() / 2);
            let (left, found) = (self.left, self.found.len());
            self.look(first, Suspicion::None);
            let is_first_fine = self.left < left && self.left > 0 && self.found.len() == found;
            suspicion = match is_first_fine {
                true => Suspicion::Certain,
                false => Suspicion::None,
            };
            group = second.to_vec();
        }
    }

    fn trial(&mut self, group: &[&Candidate]) -> Answer {
        if group.is_empty() || self.left == 0 {
            return Answer::Nothing;
        }
        self.left -= 1;
        let tables = group.iter().map(|it| it.table).collect();
        match (self.restore)(&script(&tables, group)) {
            Ok(()) => Answer::Fine,
            Err(RestoreError::Refused {
                owner: Some(at),
                reason,
                ..
            }) if at < group.len() => Answer::One(at, reason),
            Err(RestoreError::Refused { reason, .. }) => {
                self.is_sound = self.is_sound || (self.restore)(&script(&tables, &[])).is_ok();
                if self.is_sound {
                    return Answer::Some(reason);
                }
                self.left = 0;
                Answer::Nothing
            }
            Err(RestoreError::Locked { .. } | RestoreError::Failed(_)) => {
                self.left = 0;
                Answer::Nothing
            }
        }
    }

    fn accuse(&mut self, candidate: &Candidate, reason: &str) {
        let reason = format!("`{}`: {reason}", candidate.rule);
        self.guilty.insert(candidate.owner);
        self.found.push(Culprit {
            owner: candidate.owner,
            reason,
        });
    }
}

/// Writes the rules of each of these tables into a chain, and takes it away again. Lines are of who
/// stands there in the group.
fn script<'a>(tables: &'a BTreeSet<Table>, group: &'a [&Candidate]) -> Script<'a> {
    let chain = ChainName::new(CHAIN);
    let of_table = move |lines: &mut Lines<'_>, table: Table| {
        let group = group.iter().enumerate();
        lines.about(None);
        lines.table(table);
        lines.declare(&chain);
        for (at, candidate) in group.filter(|(_, it)| it.table == table) {
            lines.about(Some(at));
            lines.append(&chain, &without_jump(&candidate.rule));
        }
        lines.cut();
        lines.about(None);
        lines.table(table);
        lines.declare(&chain);
        lines.remove(&chain);
    };
    Script::new(move |lines| tables.iter().for_each(|it| of_table(lines, *it)))
}

/// The chain that it leads to need not be there.
fn without_jump(rule: &Rule) -> Rule {
    match rule {
        Rule::Known {
            matches,
            target: Some(Target::Jump(_)),
        } => Rule::Known {
            matches: matches.clone(),
            target: Some(Target::Return),
        },
        rule => rule.clone(),
    }
}

#[cfg(test)]
mod tests;
