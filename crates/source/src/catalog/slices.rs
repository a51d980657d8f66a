//! The EndpointSlices of each Service, those that are made from Endpoints among them.

use std::collections::{BTreeMap, BTreeSet};

use sluice_model::{NamespacedName, ObjectKey};

use super::file::Version;
use crate::manifest::Origin;

/// Service and slice.
type Key = (NamespacedName, NamespacedName);

/// The slices of all files by Service.
#[derive(Debug, Default)]
pub(super) struct Slices {
    /// Number of versions of each slice: files that have it.
    written: BTreeMap<Key, usize>,
    /// The same of those that are made from Endpoints.
    mirrored: BTreeMap<Key, usize>,
    /// Services whose slices of either sort changed.
    changed: Vec<NamespacedName>,
}

impl Slices {
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

    /// The slices of a Service.
    pub(super) fn of(&self, service: &NamespacedName) -> impl Iterator<Item = ObjectKey> {
        of(&self.written, service).chain(of(&self.mirrored, service))
    }

    /// Whether a version is made from Endpoints, and its Service has slices of its own.
    pub(super) fn supersede(&self, version: &Version) -> bool {
        let service = version
            .service()
            .filter(|_| version.origin != Origin::Itself);
        service.is_some_and(|it| of(&self.written, &it).next().is_some())
    }

    /// The slices made from Endpoints that may be in force now or no longer, since the last call.
    pub(super) fn competing(&mut self) -> Vec<ObjectKey> {
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
        let service = version.service()?;
        let ObjectKey::EndpointSlice(slice) = version.object.key() else {
            return None;
        };
        self.changed.push(service.clone());
        Some((service, slice))
    }

    fn counts(&mut self, version: &Version) -> &mut BTreeMap<Key, usize> {
        match version.origin {
            Origin::Itself => &mut self.written,
            Origin::Endpoints | Origin::ControllersEndpoints => &mut self.mirrored,
        }
    }
}

fn of(slices: &BTreeMap<Key, usize>, service: &NamespacedName) -> impl Iterator<Item = ObjectKey> {
    let first = (service.clone(), NamespacedName::new("", ""));
    let all = slices.range(first..);
    let own = all.take_while(move |((it, _), _)| it == service);
    own.map(|((_, slice), _)| ObjectKey::EndpointSlice(slice.clone()))
}
