//! The order in which Services are planned: the namespace with the least work first, in it the Service with the least. So
//! neither a large Service nor many small ones of one namespace are before those of another.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use sluice_model::NamespacedName;

/// Services with the work that each of them is.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// The names of the Services in each namespace. None is empty.
    services: HashMap<Arc<str>, Namespace>,
    namespaces: BTreeSet<(usize, Arc<str>)>,
}

#[derive(Debug, Default)]
struct Namespace {
    work: usize,
    services: BTreeSet<(usize, Arc<str>)>,
}

impl Order {
    /// Adds a Service that is not there yet.
    pub(super) fn insert(&mut self, service: &NamespacedName, work: usize) {
        self.change(&service.namespace, |it| {
            it.work += work;
            it.services.insert((work, service.name.clone()));
        });
    }

    /// Removes a Service that was added with this work.
    pub(super) fn remove(&mut self, service: &NamespacedName, work: usize) {
        self.change(&service.namespace, |it| {
            it.work -= work;
            it.services.remove(&(work, service.name.clone()));
        });
    }

    pub(super) fn first(&self) -> Option<NamespacedName> {
        let (_, namespace) = self.namespaces.first()?;
        let (_, name) = self.services.get(namespace)?.services.first()?;
        Some(NamespacedName::new(namespace.clone(), name.clone()))
    }

    pub(super) fn last(&self) -> Option<NamespacedName> {
        let (_, namespace) = self.namespaces.last()?;
        let (_, name) = self.services.get(namespace)?.services.last()?;
        Some(NamespacedName::new(namespace.clone(), name.clone()))
    }

    fn change(&mut self, name: &Arc<str>, change: impl FnOnce(&mut Namespace)) {
        let namespace = self.services.entry(name.clone()).or_default();
        self.namespaces.remove(&(namespace.work, name.clone()));
        change(namespace);
        if namespace.services.is_empty() {
            self.services.remove(name);
        } else {
            self.namespaces.insert((namespace.work, name.clone()));
        }
    }
}
