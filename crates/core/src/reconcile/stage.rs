//! Puts the steps of many service ports together into one transaction.

use std::collections::BTreeMap;

use crate::backend::{Backend, Objects};
use crate::plan::PortKey;
use crate::reconcile::Held;

/// What one owner's objects were and shall be.
#[derive(Debug)]
pub(super) struct Step<B: Backend> {
    /// The service port; `None` for the objects that no Service owns.
    pub(super) owner: Option<PortKey>,
    pub(super) old: Objects<B>,
    pub(super) new: Objects<B>,
    /// What to believe of the port afterwards; `None` when it is gone.
    pub(super) held: Option<Held<B>>,
}

impl<B: Backend> Step<B> {
    pub(super) fn standing(old: Objects<B>, new: Objects<B>) -> Self {
        Self {
            owner: None,
            old,
            new,
            held: None,
        }
    }

    pub(super) fn port(
        owner: PortKey,
        old: Objects<B>,
        new: Objects<B>,
        held: Option<Held<B>>,
    ) -> Self {
        Self {
            owner: Some(owner),
            old,
            new,
            held,
        }
    }

    /// The first reason why an object of this step was refused.
    pub(super) fn guilty(&self, reasons: &BTreeMap<&B::Key, &String>) -> Option<String> {
        let mut objects = self.old.iter().chain(&self.new);
        objects.find_map(|(key, _)| reasons.get(key).map(|reason| format!("{key}: {reason}")))
    }
}

/// How many owners render each shared object.
#[derive(Debug)]
pub(super) struct SharedCounts<K>(BTreeMap<K, i64>);

impl<K> Default for SharedCounts<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord> SharedCounts<K> {
    fn get(&self, key: &K) -> i64 {
        self.0.get(key).copied().unwrap_or(0)
    }

    /// Adds changes of counts; an object without owners is forgotten.
    pub(super) fn add(&mut self, changes: Self) {
        for (key, change) in changes.0 {
            let count = self.get(&key) + change;
            match count {
                0 => self.0.remove(&key),
                _ => self.0.insert(key, count),
            };
        }
    }
}

/// What is to be compared, and how the counts of shared objects change when it is written.
pub(super) struct Staged<B: Backend> {
    pub(super) observed: BTreeMap<B::Key, B::Object>,
    pub(super) desired: Objects<B>,
    pub(super) shared: SharedCounts<B::Key>,
}

/// Collects the objects of all steps. A shared object takes part only when it gets its first
/// owner or loses its last.
pub(super) fn stage<B: Backend>(steps: &[Step<B>], counts: &SharedCounts<B::Key>) -> Staged<B> {
    let mut staged = Staged {
        observed: BTreeMap::new(),
        desired: Vec::new(),
        shared: SharedCounts::default(),
    };
    let mut shared_objects: BTreeMap<&B::Key, &B::Object> = BTreeMap::new();
    let mut count = |key: &B::Key, change: i64| {
        *staged.shared.0.entry(key.clone()).or_default() += change;
    };
    for step in steps {
        for (key, object) in &step.old {
            if B::is_shared(key) {
                count(key, -1);
                shared_objects.insert(key, object);
            } else {
                staged.observed.insert(key.clone(), object.clone());
            }
        }
        for (key, object) in &step.new {
            if B::is_shared(key) {
                count(key, 1);
                shared_objects.insert(key, object);
            } else {
                staged.desired.push((key.clone(), object.clone()));
            }
        }
    }
    for (key, object) in shared_objects {
        let before = counts.get(key);
        let after = before + staged.shared.get(key);
        match (before > 0, after > 0) {
            (false, true) => staged.desired.push((key.clone(), object.clone())),
            (true, false) => {
                staged.observed.insert(key.clone(), object.clone());
            }
            _ => {}
        }
    }
    staged
}
