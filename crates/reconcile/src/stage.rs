//! Puts the objects of many owners together into one delta.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::backend::{Backend, Objects};

/// The objects of one owner, held or desired.
#[derive(Debug)]
pub(crate) struct Held<B: Backend> {
    /// As of when it was written; see [`Backend::SCENE_SHAPES_OWNERS`].
    pub(crate) scene: Arc<B::Scene>,
    pub(crate) plan: Arc<B::Plan>,
    pub(crate) placement: B::Placement,
}

impl<B: Backend> Clone for Held<B> {
    fn clone(&self) -> Self {
        Self {
            scene: self.scene.clone(),
            plan: self.plan.clone(),
            placement: self.placement.clone(),
        }
    }
}

/// The held and the desired objects of one owner; `None` without objects. Objects are rendered when
/// they are needed and not kept: a first sync has a step for every owner.
#[derive(Debug)]
pub(crate) struct Step<B: Backend> {
    pub(crate) owner: B::Owner,
    pub(crate) old: Option<Held<B>>,
    pub(crate) new: Option<Held<B>>,
}

/// How many owners render each shared object; none has no entry.
pub(crate) type SharedCounts<K> = BTreeMap<K, i64>;

/// The held and the desired objects that belong to no owner; `None` when they do not change.
pub(crate) type Standing<B> = Option<(Objects<B>, Objects<B>)>;

/// The steps to compare, and the counts of shared objects that change when they are written.
pub(crate) struct Staged<B: Backend> {
    /// The objects that the kernel holds for these steps.
    pub(crate) observed: BTreeMap<B::Key, B::Object>,
    pub(crate) desired: Objects<B>,
    pub(crate) shared: SharedCounts<B::Key>,
}

/// Collects the objects of all steps. A shared object takes part only when it gets its first owner
/// or loses its last.
pub(crate) fn stage<B: Backend>(
    backend: &B,
    standing: Standing<B>,
    steps: &[Step<B>],
    counts: &SharedCounts<B::Key>,
) -> Staged<B> {
    // Sorted once: an owner may have hundreds of thousands of objects.
    let mut observed: Objects<B> = Vec::new();
    let mut desired: Objects<B> = Vec::new();
    let mut counted = SharedCounts::new();
    let mut shared: BTreeMap<B::Key, (i64, B::Object)> = BTreeMap::new();
    let mut collect = |old: Objects<B>, new: Objects<B>| {
        let mut count = |key: B::Key, object: B::Object, change: i64| {
            shared.entry(key).or_insert((0, object)).0 += change;
        };
        for (key, object) in old {
            if B::is_shared(&key) {
                count(key, object, -1)
            } else {
                observed.push((key, object));
            }
        }
        for (key, object) in new {
            if B::is_shared(&key) {
                count(key, object, 1)
            } else {
                desired.push((key, object));
            }
        }
    };
    if let Some((old, new)) = standing {
        collect(old, new);
    }
    let render = |held: &Option<Held<B>>| {
        let held = held.as_ref();
        held.map(|it| backend.render(&it.scene, &it.plan, &it.placement))
            .unwrap_or_default()
    };
    for step in steps {
        collect(render(&step.old), render(&step.new));
    }
    for (key, (change, object)) in shared {
        let before = counts.get(&key).copied().unwrap_or(0);
        let after = before + change;
        match (before > 0, after > 0) {
            (false, true) => desired.push((key.clone(), object)),
            (true, false) => observed.push((key.clone(), object)),
            _ => {}
        }
        counted.insert(key, after);
    }
    Staged {
        observed: observed.into_iter().collect(),
        desired,
        shared: counted,
    }
}
