//! What a service port has when the kernel refused some of its objects and took the rest.

use std::collections::{BTreeMap, BTreeSet};

use crate::PortKey;
use crate::backend::{Backend, Objects};
use crate::reconcile::stage::Step;

/// A service port that the kernel holds in part.
#[derive(Debug)]
pub(super) struct Partial<B: Backend> {
    pub(super) owner: PortKey,
    pub(super) reason: String,
    /// What the kernel holds of it.
    pub(super) objects: Objects<B>,
}

/// Everything that became of a delta of which some objects were refused.
pub(super) struct Partials<B: Backend> {
    pub(super) ports: Vec<Partial<B>>,
    /// Shared objects that have the owners that they had before.
    pub(super) uncounted: Vec<B::Key>,
    /// Refused objects that no step has or wants.
    pub(super) left: BTreeSet<B::Key>,
}

/// Tells what the kernel holds of each guilty step. A refused object that was there before belongs
/// to whoever wants it, and if nobody does, to who has it still.
pub(super) fn of<B: Backend>(
    backend: &B,
    steps: &[Step<B>],
    guilty: Vec<Option<String>>,
    refused: &BTreeSet<B::Key>,
    observed: &BTreeMap<B::Key, B::Object>,
) -> Partials<B> {
    let all = steps.iter().flat_map(|it| it.after(backend));
    let keys = all.map(|(key, _)| key);
    let wanted: BTreeSet<B::Key> = keys.filter(|key| refused.contains(key)).collect();
    let mut left: BTreeSet<B::Key> = refused.difference(&wanted).cloned().collect();
    let mut ports = Vec::new();
    for (step, reason) in steps.iter().zip(guilty) {
        let (Some(owner), Some(reason)) = (step.owner(), reason) else {
            continue;
        };
        let (mut there, mut objects) = (Vec::new(), Objects::<B>::new());
        for (key, object) in step.after(backend) {
            match refused.contains(&key) {
                true => there.push(key),
                false => objects.push((key, object)),
            }
        }
        for (key, _) in step.before(backend) {
            if refused.contains(&key) && !wanted.contains(&key) {
                left.remove(&key);
                there.push(key);
            }
        }
        let there = there.into_iter();
        objects.extend(there.filter_map(|key| {
            let object = observed.get(&key)?.clone();
            Some((key, object))
        }));
        ports.push(Partial {
            owner: owner.clone(),
            reason,
            objects,
        });
    }
    // One that was to be replaced is there and gets its owners.
    let is_replaced = |key: &B::Key| wanted.contains(key) && observed.contains_key(key);
    let shared = refused.iter().filter(|key| B::is_shared(key));
    let uncounted = shared.filter(|key| !is_replaced(key)).cloned().collect();
    Partials {
        ports,
        uncounted,
        left,
    }
}
