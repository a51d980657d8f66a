//! Puts the steps of many service ports together into one transaction.

use std::collections::{BTreeMap, BTreeSet};

use crate::PortKey;
use crate::backend::{Backend, Objects, RefusedObject};
use crate::reconcile::belief::Held;
use crate::reconcile::kept::Kept;
use crate::reconcile::partial::Partial;

/// What one owner's objects were and shall be. Objects are rendered when they are needed and not
/// kept: a first sync has a step for every service port.
#[derive(Debug)]
pub(super) enum Step<B: Backend> {
    /// The objects that no Service owns.
    Standing { old: Objects<B>, new: Objects<B> },
    /// Those of a service port.
    Port {
        key: PortKey,
        old: Had<B>,
        /// What the kernel shall hold; `None` when the port is gone.
        new: Option<Held<B>>,
    },
}

/// What the kernel holds for a service port.
#[derive(Debug)]
pub(super) enum Had<B: Backend> {
    Nothing,
    /// What a plan renders to.
    Planned(Held<B>),
    /// These objects: it was refused, or is found in the kernel.
    Found(Objects<B>),
}

impl<B: Backend> Step<B> {
    /// The service port; `None` for the objects that no Service owns.
    pub(super) fn owner(&self) -> Option<&PortKey> {
        match self {
            Self::Standing { .. } => None,
            Self::Port { key, .. } => Some(key),
        }
    }

    pub(super) fn before(&self, backend: &B) -> Objects<B> {
        match self {
            Self::Standing { old, .. } => old.clone(),
            Self::Port { old, .. } => match old {
                Had::Nothing => Objects::<B>::new(),
                Had::Planned(held) => held.render(backend),
                Had::Found(objects) => objects.clone(),
            },
        }
    }

    pub(super) fn after(&self, backend: &B) -> Objects<B> {
        match self {
            Self::Standing { new, .. } => new.clone(),
            Self::Port { new, .. } => {
                let objects = new.as_ref().map(|held| held.render(backend));
                objects.unwrap_or_default()
            }
        }
    }
}

/// The first reason for each step of which the kernel refused an object. Who wants a refused object
/// is guilty, and only if nobody does, who wants to be rid of it.
pub(super) fn guilty<B: Backend>(
    backend: &B,
    steps: &[Step<B>],
    refused: &[RefusedObject<B::Key>],
) -> Vec<Option<String>> {
    let reasons: BTreeMap<_, _> = refused.iter().map(|it| (&it.key, &it.reason)).collect();
    let refused_of = |objects: Objects<B>| -> Vec<B::Key> {
        let keys = objects.into_iter().map(|(key, _)| key);
        keys.filter(|key| reasons.contains_key(key)).collect()
    };
    let wanted: Vec<_> = steps
        .iter()
        .map(|it| refused_of(it.after(backend)))
        .collect();
    let by_anyone: BTreeSet<_> = wanted.iter().flatten().collect();
    let guilty = steps.iter().zip(&wanted).map(|(step, wanted)| {
        let unwanted = refused_of(step.before(backend));
        let mut unwanted = unwanted.iter().filter(|key| !by_anyone.contains(key));
        let key = wanted.first().or_else(|| unwanted.next())?;
        reasons.get(key).map(|reason| format!("{key}: {reason}"))
    });
    guilty.collect()
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
    /// Someone has an object that is there already.
    pub(super) fn count(&mut self, key: K) {
        *self.0.entry(key).or_default() += 1;
    }

    /// The change of an object's count is off.
    pub(super) fn forget(&mut self, key: &K) {
        self.0.remove(key);
    }

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

/// Steps on their way into the kernel.
#[derive(Debug)]
pub(super) struct Round<B: Backend> {
    pub(super) steps: Vec<Step<B>>,
    /// Steps that the kernel refused: it holds what they had before.
    pub(super) refused: Vec<Step<B>>,
    /// What the kernel holds of those among `steps` of which it refused some objects.
    pub(super) partial: Vec<Partial<B>>,
}

/// What is to be compared, and how the counts of shared objects change when it is written.
pub(super) struct Staged<B: Backend> {
    pub(super) observed: BTreeMap<B::Key, B::Object>,
    pub(super) desired: Objects<B>,
    pub(super) shared: SharedCounts<B::Key>,
}

/// Collects the objects of all steps. A shared object takes part only when it gets its first
/// owner or loses its last; one that a refused service port has, when a step wants it.
pub(super) fn stage<B: Backend>(
    backend: &B,
    round: &Round<B>,
    counts: &SharedCounts<B::Key>,
    kept: &Kept<B>,
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
    for step in &round.steps {
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
    let refused = round.refused.iter().flat_map(|step| step.before(backend));
    let refused: BTreeMap<B::Key, B::Object> = refused.collect();
    for (key, _) in &staged.desired {
        // First what is cheap: a step that was refused in part has all it keeps in here already.
        if !staged.observed.contains_key(key)
            && let Some(object) = refused.get(key).or_else(|| kept.object(key))
        {
            staged.observed.insert(key.clone(), object.clone());
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
