//! Puts the steps of many service ports together into one transaction.

use std::collections::BTreeMap;

use crate::backend::{Backend, Objects};
use crate::plan::PortKey;
use crate::reconcile::Held;

/// What one owner's objects were and shall be. Objects are rendered when they are needed and not
/// kept: a first sync has a step for every service port.
#[derive(Debug)]
pub(super) enum Step<B: Backend> {
    /// The objects that no Service owns.
    Standing { old: Objects<B>, new: Objects<B> },
    /// Those of a service port.
    Port {
        key: PortKey,
        /// What the kernel holds for it; `None` when nothing.
        old: Option<Held<B>>,
        /// What it shall hold; `None` when the port is gone.
        new: Option<Held<B>>,
    },
}

impl<B: Backend> Step<B> {
    pub(super) fn before(&self, backend: &B) -> Objects<B> {
        match self {
            Self::Standing { old, .. } => old.clone(),
            Self::Port { old, .. } => Self::render(old.as_ref(), backend),
        }
    }

    pub(super) fn after(&self, backend: &B) -> Objects<B> {
        match self {
            Self::Standing { new, .. } => new.clone(),
            Self::Port { new, .. } => Self::render(new.as_ref(), backend),
        }
    }

    fn render(held: Option<&Held<B>>, backend: &B) -> Objects<B> {
        let objects = held.map(|it| backend.render(&it.plan, &it.placement));
        objects.unwrap_or_default()
    }

    /// The first reason why an object of this step was refused.
    pub(super) fn guilty(
        &self,
        backend: &B,
        reasons: &BTreeMap<&B::Key, &String>,
    ) -> Option<String> {
        let objects = [self.before(backend), self.after(backend)];
        let mut keys = objects.iter().flatten().map(|(key, _)| key);
        keys.find_map(|key| reasons.get(key).map(|reason| format!("{key}: {reason}")))
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
pub(super) fn stage<B: Backend>(
    backend: &B,
    steps: &[Step<B>],
    counts: &SharedCounts<B::Key>,
) -> Staged<B> {
    let mut staged = Staged {
        observed: BTreeMap::new(),
        desired: Vec::new(),
        shared: SharedCounts::default(),
    };
    let mut shared: BTreeMap<B::Key, (i64, B::Object)> = BTreeMap::new();
    let mut count = |key: B::Key, object: B::Object, change: i64| {
        shared.entry(key).or_insert((0, object)).0 += change;
    };
    for step in steps {
        for (key, object) in step.before(backend) {
            if B::is_shared(&key) {
                count(key, object, -1);
            } else {
                staged.observed.insert(key, object);
            }
        }
        for (key, object) in step.after(backend) {
            if B::is_shared(&key) {
                count(key, object, 1);
            } else {
                staged.desired.push((key, object));
            }
        }
    }
    for (key, (change, object)) in shared {
        let before = counts.get(&key);
        match (before > 0, before + change > 0) {
            (false, true) => staged.desired.push((key.clone(), object)),
            (true, false) => {
                staged.observed.insert(key.clone(), object);
            }
            _ => {}
        }
        staged.shared.0.insert(key, change);
    }
    staged
}
