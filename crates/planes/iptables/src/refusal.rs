//! Objects that were refused, by the program or by the kernel, as long as they are.
//!
//! Tables before the one that was refused are committed by then, so the sync fails. The next one asks
//! for these objects alone, and leaves out those that are still refused before it writes anything.

use std::collections::BTreeMap;

use sluice_model::IpFamily;
use sluice_plan::backend::RefusedObject;
use sluice_plan::delta::Delta;
use sluice_xtables::trial::{Candidate, Findings};

use crate::object::{Key, Object, rules};
use crate::script;

/// What was refused.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    known: BTreeMap<Key, Refusal>,
    /// What is wanted of it is known again with the next delta.
    is_full: bool,
    /// Somebody was left out without a trial, and nothing has been written since.
    is_stuck: bool,
}

#[derive(Debug)]
struct Refusal {
    object: Object,
    why: Why,
}

#[derive(Debug)]
enum Why {
    /// Its own rules are refused wherever they are.
    Alone,
    /// Only with everything else there is, for this reason.
    Together(String),
}

impl Refusals {
    /// These are refused wherever they are.
    pub(crate) fn alone(&mut self, delta: &Delta<Key, Object>, refused: &[RefusedObject<Key>]) {
        for it in refused {
            self.put(delta, &it.key, Why::Alone);
        }
    }

    /// This one was refused where it belongs, and not by itself.
    pub(crate) fn together(&mut self, delta: &Delta<Key, Object>, refused: &RefusedObject<Key>) {
        self.put(delta, &refused.key, Why::Together(refused.reason.clone()));
    }

    fn put(&mut self, delta: &Delta<Key, Object>, key: &Key, why: Why) {
        let mut written = written(delta);
        if let Some((_, object)) = written.find(|(it, _)| *it == key) {
            let object = object.clone();
            self.known.insert(key.clone(), Refusal { object, why });
        }
    }

    /// The kernel was read: the next delta has everything that is wanted and missing.
    pub(crate) fn observed(&mut self) {
        self.is_full = true;
    }

    /// Something is about to be written.
    pub(crate) fn writing(&mut self) {
        self.is_stuck = false;
    }

    /// Everything else was written: who is refused only among others may try again.
    pub(crate) fn applied(&mut self) {
        self.is_stuck = false;
        self.known.retain(|_, it| matches!(it.why, Why::Alone));
    }

    /// Objects of a delta that need no trial. If nothing could be written without them since they
    /// were left out, there are none: whatever stood in the way may be gone.
    pub(crate) fn certain(&mut self, delta: &Delta<Key, Object>) -> Vec<RefusedObject<Key>> {
        if std::mem::take(&mut self.is_full) && !self.known.is_empty() {
            let wanted: BTreeMap<&Key, &Object> = written(delta).collect();
            self.known
                .retain(|key, it| wanted.get(key) == Some(&&it.object));
        }
        let known = self.known_in(delta);
        let certain = known.filter_map(|(_, (key, _), it)| match &it.why {
            Why::Together(reason) => Some(RefusedObject {
                key: key.clone(),
                reason: reason.clone(),
            }),
            Why::Alone => None,
        });
        let certain: Vec<_> = certain.collect();
        if !certain.is_empty() && std::mem::replace(&mut self.is_stuck, true) {
            self.applied();
            return Vec::new();
        }
        certain
    }

    /// Rules of a delta that were refused before and may be taken now.
    pub(crate) fn suspects(&self, delta: &Delta<Key, Object>, family: IpFamily) -> Vec<Candidate> {
        let known = self.known_in(delta);
        let known = known.filter(|(_, (key, _), it)| {
            matches!(it.why, Why::Alone) && key.place().family == family
        });
        let objects = known.map(|(number, (key, object), _)| (number, key, object));
        objects.flat_map(candidates_of).collect()
    }

    /// The kernel takes them.
    pub(crate) fn acquit(&mut self, delta: &Delta<Key, Object>, suspects: &[Candidate]) {
        for it in suspects {
            if let Some(key) = script::key(delta, it.owner) {
                self.known.remove(key);
            }
        }
    }

    fn known_in<'a, 'd>(
        &'a self,
        delta: &'d Delta<Key, Object>,
    ) -> impl Iterator<Item = (usize, (&'d Key, &'d Object), &'a Refusal)> {
        let written = written(delta).enumerate();
        let written = written.filter(|_| !self.known.is_empty());
        written.filter_map(|(number, (key, object))| {
            let refusal = self.known.get(key)?;
            (refusal.object == *object).then_some((number, (key, object), refusal))
        })
    }
}

/// Every rule of one family that a delta writes.
pub(crate) fn candidates(delta: &Delta<Key, Object>, family: IpFamily) -> Vec<Candidate> {
    let written = written(delta).enumerate();
    let of_family = written.filter(|(_, (key, _))| key.place().family == family);
    let objects = of_family.map(|(number, (key, object))| (number, key, object));
    objects.flat_map(candidates_of).collect()
}

/// The objects that are to blame.
pub(crate) fn objects(delta: &Delta<Key, Object>, findings: Findings) -> Vec<RefusedObject<Key>> {
    let objects = findings.culprits.into_iter().filter_map(|it| {
        Some(RefusedObject {
            key: script::key(delta, it.owner)?.clone(),
            reason: it.reason,
        })
    });
    objects.collect()
}

/// What a delta writes, in the order of [`script::key`].
fn written(delta: &Delta<Key, Object>) -> impl Iterator<Item = (&Key, &Object)> {
    let written = delta.add.iter().chain(&delta.replace);
    written.map(|(key, object)| (key, object))
}

fn candidates_of((owner, key, object): (usize, &Key, &Object)) -> impl Iterator<Item = Candidate> {
    let table = key.place().table;
    let rules = rules(key, object).into_iter();
    rules.map(move |rule| Candidate { owner, table, rule })
}

#[cfg(test)]
mod tests {
    use sluice_xtables::rule::{ChainName, Match, Rule, Table, Target};

    use super::*;
    use crate::object::Place;

    fn delta(chains: &[&str]) -> Delta<Key, Object> {
        let object = |name: &&str| {
            let place = Place {
                family: IpFamily::V4,
                table: Table::Nat,
                chain: ChainName::new(name),
            };
            let rule = Rule::when([Match::comment(name)], Target::Return);
            (Key::Chain(place), Object::Rules(vec![rule].into()))
        };
        Delta {
            add: chains.iter().map(object).collect(),
            ..Delta::default()
        }
    }

    fn left_out(refusals: &mut Refusals, chains: &[&str]) -> usize {
        refusals.certain(&delta(chains)).len()
    }

    /// A sync leaves them out and writes the rest, if there is any.
    #[test]
    fn who_is_refused_among_others_is_left_out_once() {
        let mut refusals = Refusals::default();
        let all = delta(&["A", "B", "C"]);
        for (key, _) in &all.add[..2] {
            let (key, reason) = (key.clone(), "no".into());
            refusals.together(&all, &RefusedObject { key, reason });
        }
        assert_eq!(left_out(&mut refusals, &["A", "B"]), 2);
        assert_eq!(left_out(&mut refusals, &["C"]), 0);
        refusals.writing();
        // That failed, so the next one has to leave them out as well.
        assert_eq!(left_out(&mut refusals, &["A", "B", "C"]), 2);
        // There is nothing else to write any more.
        assert_eq!(left_out(&mut refusals, &["A", "B"]), 0);
    }
}
