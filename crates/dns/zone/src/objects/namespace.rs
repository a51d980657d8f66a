//! What is in a namespace.

use std::collections::HashMap;
use std::sync::Arc;

use sluice_model::{EndpointSlice, Pod, Service};

use super::Slice;

/// What is in a namespace, by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Contents {
    /// There is a Namespace object.
    pub(super) declared: bool,
    /// Services, and the slices that belong to them whether they exist or not.
    pub(super) services: HashMap<Arc<str>, Entry>,
    slices: HashMap<Arc<str>, Arc<Slice>>,
    pods: HashMap<Arc<str>, Arc<Pod>>,
}

/// A Service and its slices. Either may be missing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entry {
    pub(crate) service: Option<Arc<Service>>,
    /// The key is the name.
    pub(crate) slices: Vec<Arc<Slice>>,
}

impl Contents {
    pub(super) fn is_empty(&self) -> bool {
        !self.declared && self.services.is_empty() && self.slices.is_empty() && self.pods.is_empty()
    }

    pub(super) fn pod(&self, name: &str) -> Option<&Pod> {
        self.pods.get(name).map(Arc::as_ref)
    }

    pub(super) fn slice(&self, name: &str) -> Option<&EndpointSlice> {
        self.slices.get(name).map(|it| &*it.object)
    }

    pub(super) fn replace_service(
        &mut self,
        name: &Arc<str>,
        new: Option<&Arc<Service>>,
    ) -> Option<Arc<Service>> {
        let entry = self.services.entry(Arc::clone(name)).or_default();
        let old = std::mem::replace(&mut entry.service, new.cloned());
        self.forget_if_empty(name);
        old
    }

    pub(super) fn replace_slice(
        &mut self,
        name: &Arc<str>,
        new: Option<&Arc<Slice>>,
    ) -> Option<Arc<Slice>> {
        let old = replace(&mut self.slices, name, new);
        if let Some(service) = old.as_ref().and_then(|it| it.object.service.as_ref()) {
            if let Some(entry) = self.services.get_mut(service) {
                entry.slices.retain(|it| it.object.name.name != *name);
            }
            self.forget_if_empty(service);
        }
        if let Some((new, service)) = new.and_then(|it| Some((it, it.object.service.as_ref()?))) {
            let slices = &mut self.services.entry(Arc::clone(service)).or_default().slices;
            let place = slices.partition_point(|it| it.object.name.name < *name);
            slices.insert(place, Arc::clone(new));
        }
        old
    }

    pub(super) fn replace_pod(
        &mut self,
        name: &Arc<str>,
        new: Option<&Arc<Pod>>,
    ) -> Option<Arc<Pod>> {
        replace(&mut self.pods, name, new)
    }

    fn forget_if_empty(&mut self, service: &str) {
        let empty = |it: &Entry| it.service.is_none() && it.slices.is_empty();
        if self.services.get(service).is_some_and(empty) {
            self.services.remove(service);
        }
    }
}

fn replace<T>(
    map: &mut HashMap<Arc<str>, Arc<T>>,
    name: &Arc<str>,
    new: Option<&Arc<T>>,
) -> Option<Arc<T>> {
    match new {
        Some(new) => map.insert(Arc::clone(name), Arc::clone(new)),
        None => map.remove(name),
    }
}
