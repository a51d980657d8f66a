//! The objects that belong to an owner, such as the EndpointSlices of a Service, and which of them are made from
//! Endpoints.

use std::collections::{BTreeMap, BTreeSet};

use sluice_model::{NamespacedName, Reference};

use super::file::Version;
use crate::manifest::Origin;

/// The owner, then the object that belongs to it.
type Key = (Reference, Reference);

/// The owned objects of all files, by owner.
#[derive(Debug, Default)]
pub(super) struct Owned {
    /// Number of versions of each object: files that have it.
    written: BTreeMap<Key, usize>,
    /// The same for slices that are made from Endpoints.
    mirrored: BTreeMap<Key, usize>,
    /// Owners whose objects of either sort changed.
    changed: Vec<Reference>,
}

impl Owned {
    pub(super) fn add(&mut self, version: &Version) {
        if let Some(key) = self.change(version) {
            *self.counts(version).entry(key).or_default() += 1;
        }
    }

    pub(super) fn remove(&mut self, version: &Version) {
        let Some(key) = self.change(version) else {
            return;
        };
        let counts = self.counts(version);
        if let Some(count) = counts.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&key);
            }
        }
    }

    /// The objects that belong to an owner.
    pub(super) fn of(&self, owner: &Reference) -> impl Iterator<Item = Reference> {
        of(&self.written, owner).chain(of(&self.mirrored, owner))
    }

    /// Whether a version is made from Endpoints, and its Service has slices of its own.
    pub(super) fn supersede(&self, version: &Version) -> bool {
        let owner = version.object.owner();
        let owner = owner.filter(|_| version.origin != Origin::Itself);
        owner.is_some_and(|it| of(&self.written, &it.object).next().is_some())
    }

    /// The slices made from Endpoints that may be in force now or no longer, since the last call.
    pub(super) fn competing(&mut self) -> Vec<Reference> {
        let changed = std::mem::take(&mut self.changed);
        if self.mirrored.is_empty() {
            return Vec::new();
        }
        let changed: BTreeSet<_> = changed.into_iter().collect();
        let slices = changed.iter().flat_map(|it| of(&self.mirrored, it));
        slices.collect()
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.written.is_empty() && self.mirrored.is_empty() && self.changed.is_empty()
    }

    fn change(&mut self, version: &Version) -> Option<Key> {
        let owner = version.object.owner()?.object;
        self.changed.push(owner.clone());
        Some((owner, version.object.reference()))
    }

    fn counts(&mut self, version: &Version) -> &mut BTreeMap<Key, usize> {
        match version.origin {
            Origin::Itself => &mut self.written,
            Origin::Endpoints | Origin::ControllersEndpoints => &mut self.mirrored,
        }
    }
}

fn of(owned: &BTreeMap<Key, usize>, owner: &Reference) -> impl Iterator<Item = Reference> {
    let own = owned
        .range(first(owner)..)
        .take_while(move |((it, _), _)| it == owner);
    own.map(|((_, object), _)| object.clone())
}

/// The smallest key of the owner: it sorts before the keys of all its objects.
fn first(owner: &Reference) -> Key {
    static LEAST: sluice_model::KindName = sluice_model::KindName {
        name: "",
        version: "",
    };
    let name = NamespacedName::new("", "");
    (owner.clone(), Reference { kind: &LEAST, name })
}
