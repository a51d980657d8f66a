//! The controller of EndpointSlices. The work for a change is proportional to the change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Endpoints, Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use sluice_model::NamespacedName;

use crate::index::Index;
use crate::meta;
use crate::selector::{self, first_pair, selects};
use crate::slices::{
    self, MANAGED_BY, MIRRORS, SERVICE_NAME, SLICES, SliceChanges, TRIGGERED, Zones,
};

/// The label with the zone of a Node.
const ZONE: &str = "topology.kubernetes.io/zone";

/// An object that the controller reads.
#[derive(Clone, Debug, PartialEq)]
pub enum Object {
    Service(Arc<Service>),
    Pod(Arc<Pod>),
    /// A Node: only its zone and its existence matter.
    Node(Arc<Node>),
    /// Endpoints: of a person, for a Service without selector, or of this controller.
    Endpoints(Arc<Endpoints>),
    /// An EndpointSlice of any writer.
    EndpointSlice(Arc<EndpointSlice>),
}

/// A change of an object: one to write, or one that happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The object exists with this content.
    Set(Object),
    /// The object is deleted; its content does not matter.
    Delete(Object),
}

/// Computes the EndpointSlices of Services.
#[derive(Debug, Default)]
pub struct Controller {
    services: BTreeMap<NamespacedName, Arc<Service>>,
    pods: BTreeMap<NamespacedName, Arc<Pod>>,
    zones: Zones,
    pub(crate) endpoints: BTreeMap<NamespacedName, Arc<Endpoints>>,
    slices: BTreeMap<NamespacedName, Arc<EndpointSlice>>,
    /// Services by one pair of their selector.
    selectors: Index,
    /// Pods by their labels.
    labelled: Index,
    /// Slices by the Service they name.
    owned: Index,
    /// Whether it writes the Endpoints of Services with a selector, too.
    writes_endpoints: bool,
    /// Services that were deleted: their Endpoints go.
    gone: BTreeSet<NamespacedName>,
    /// Services whose slices must be computed again, with the time of their first change since the last time.
    dirty: BTreeMap<NamespacedName, Timestamp>,
}

impl Controller {
    /// A controller that also writes the Endpoints of Services with a selector, as kube-controller-manager does.
    #[must_use]
    pub fn with_endpoints() -> Self {
        Self {
            writes_endpoints: true,
            ..Self::default()
        }
    }

    /// Records a change that happened at `now`. The controller's own writes are such changes, too.
    pub fn absorb(&mut self, change: Change, now: Timestamp) {
        let (object, exists) = match change {
            Change::Set(object) => (object, true),
            Change::Delete(object) => (object, false),
        };
        match object {
            Object::Service(it) => {
                let key = meta::key(&it.metadata);
                if let Some((old, new)) = replace(&mut self.services, &key, it, exists) {
                    if exists {
                        self.gone.remove(&key);
                    } else {
                        self.gone.insert(key.clone());
                    }
                    self.selectors
                        .remove(&key, old.as_deref().and_then(first_pair));
                    self.selectors
                        .add(&key, new.as_deref().and_then(first_pair));
                    self.touch([key], now);
                }
            }
            Object::Pod(it) => {
                let key = meta::key(&it.metadata);
                if let Some((old, new)) = replace(&mut self.pods, &key, it, exists) {
                    let labels = |it: &Option<Arc<Pod>>| {
                        let pod = it.as_ref();
                        pod.and_then(|it| it.metadata.labels.clone())
                            .unwrap_or_default()
                    };
                    let (old, new) = (labels(&old), labels(&new));
                    self.labelled.remove(&key, &old);
                    self.labelled.add(&key, &new);
                    let mut services = self.selecting(&key, &old);
                    services.extend(self.selecting(&key, &new));
                    self.touch(services, now);
                }
            }
            Object::Node(it) => {
                let name = it.metadata.name.clone().unwrap_or_default();
                let zone = meta::label(&it.metadata, ZONE);
                let zone = (!zone.is_empty()).then(|| zone.to_owned());
                let old = if exists {
                    self.zones.insert(name.clone(), zone.clone())
                } else {
                    self.zones.remove(&name)
                };
                if old != exists.then_some(zone) {
                    let services = self.on_node(&name);
                    self.touch(services, now);
                }
            }
            Object::Endpoints(it) => {
                let key = meta::key(&it.metadata);
                if replace(&mut self.endpoints, &key, it, exists).is_some() {
                    self.touch([key], now);
                }
            }
            Object::EndpointSlice(it) => {
                let key = meta::key(&it.metadata);
                if let Some((old, new)) = replace(&mut self.slices, &key, it, exists) {
                    let name = SERVICE_NAME.to_owned();
                    if let Some(old) = old {
                        let owner = owner(&old);
                        self.owned.remove(&key, [(&name, &owner.name.to_string())]);
                        self.touch([owner], now);
                    }
                    if let Some(new) = new {
                        let owner = owner(&new);
                        self.owned.add(&key, [(&name, &owner.name.to_string())]);
                        self.touch([owner], now);
                    }
                }
            }
        }
    }

    /// The writes for all changes so far. The caller makes them and reports each with [`absorb`](Self::absorb), at once
    /// or when it reads it.
    pub fn changes(&mut self) -> Vec<Change> {
        let dirty = std::mem::take(&mut self.dirty);
        let changes = dirty
            .into_iter()
            .flat_map(|(service, time)| self.changes_of(&service, time));
        let changes = changes.collect();
        self.gone.clear();
        changes
    }

    /// A write of [`changes`](Self::changes) that was not made: it is asked for again, if it is still needed.
    pub fn ask_again(&mut self, change: &Change, now: Timestamp) {
        let service = match change {
            Change::Set(Object::EndpointSlice(it)) | Change::Delete(Object::EndpointSlice(it)) => {
                owner(it)
            }
            Change::Set(Object::Endpoints(it)) => meta::key(&it.metadata),
            Change::Delete(Object::Endpoints(it)) => {
                let key = meta::key(&it.metadata);
                if !self.services.contains_key(&key) {
                    self.gone.insert(key.clone());
                }
                key
            }
            // Not an object that this controller writes.
            _ => return,
        };
        self.touch([service], now);
    }

    /// The slices that exist.
    pub fn slices(&self) -> impl Iterator<Item = &Arc<EndpointSlice>> {
        self.slices.values()
    }

    fn touch(&mut self, services: impl IntoIterator<Item = NamespacedName>, now: Timestamp) {
        for service in services {
            self.dirty.entry(service).or_insert(now);
        }
    }

    /// The Services that select a pod with these labels.
    fn selecting(
        &self,
        pod: &NamespacedName,
        labels: &BTreeMap<String, String>,
    ) -> BTreeSet<NamespacedName> {
        let namespace = &pod.namespace;
        let candidates = labels.iter();
        let candidates =
            candidates.flat_map(|(key, value)| self.selectors.get(namespace, key, value));
        let selecting = candidates.filter(|it| {
            let service = self.services.get(it);
            service.is_some_and(|it| selects(it, Some(labels)))
        });
        selecting.cloned().collect()
    }

    /// The Services with a pod on a node.
    fn on_node(&self, node: &str) -> BTreeSet<NamespacedName> {
        let here = self.pods.iter().filter(|(_, pod)| {
            let spec = pod.spec.as_ref();
            spec.and_then(|it| it.node_name.as_deref()) == Some(node)
        });
        let services = here.flat_map(|(key, pod)| {
            let labels = pod.metadata.labels.clone().unwrap_or_default();
            self.selecting(key, &labels)
        });
        services.collect()
    }

    fn changes_of(&self, key: &NamespacedName, time: Timestamp) -> Vec<Change> {
        let (own, mirrored) = (self.written_by(key, SLICES), self.written_by(key, MIRRORS));
        let is_taken = |name: &str| {
            let name = NamespacedName::new(key.namespace.clone(), name);
            self.slices.contains_key(&name)
        };
        let service = self.services.get(key).filter(|it| {
            let spec = it.spec.as_ref();
            spec.is_some_and(|it| it.type_.as_deref() != Some("ExternalName"))
        });
        let slices = match service.filter(|it| selector::of(it).is_some()) {
            Some(service) => slices::reconcile(
                service,
                &self.selected(key, service),
                &self.zones,
                &own,
                is_taken,
            ),
            // "Kubernetes will not modify" them: the slices stay as they are, also when the selector was taken away.
            None if self.services.contains_key(key) => SliceChanges::default(),
            None => removal(&own),
        };
        let endpoints = service.and_then(|service| {
            let endpoints = self.endpoints.get(key)?;
            slices::is_mirrored(endpoints, service).then_some(endpoints)
        });
        let mirrors = match endpoints {
            Some(endpoints) => slices::mirror(endpoints, &mirrored, is_taken),
            None => removal(&mirrored),
        };
        let mut changes = self.as_changes(key, slices, time);
        changes.extend(self.as_changes(key, mirrors, time));
        if self.writes_endpoints {
            changes.extend(self.endpoints_change(key, time));
        }
        changes
    }

    /// The write to the Endpoints of a Service, if there is one.
    fn endpoints_change(&self, key: &NamespacedName, time: Timestamp) -> Option<Change> {
        let held = self.endpoints.get(key);
        let Some(service) = self.services.get(key) else {
            let goes = |it: &&Arc<Endpoints>| {
                let is_due = self.gone.contains(key) || slices::is_own(it);
                is_due && slices::goes_with_service(it)
            };
            return held
                .filter(goes)
                .map(|it| Change::Delete(Object::Endpoints(it.clone())));
        };
        let spec = service.spec.as_ref();
        let is_external = spec.is_some_and(|it| it.type_.as_deref() == Some("ExternalName"));
        let is_ending = service.metadata.deletion_timestamp.is_some();
        if is_external || is_ending || selector::of(service).is_none() {
            return None;
        }
        let pods = self.selected(key, service);
        let mut wanted = slices::endpoints(service, &pods, held.map(|it| &**it))?;
        let annotations = wanted.metadata.annotations.get_or_insert_default();
        annotations.insert(TRIGGERED.to_owned(), time.to_string());
        Some(Change::Set(Object::Endpoints(Arc::new(wanted))))
    }

    /// The slices of a Service from this writer.
    fn written_by(&self, service: &NamespacedName, writer: &str) -> Vec<&EndpointSlice> {
        let names = self
            .owned
            .get(&service.namespace, SERVICE_NAME, &service.name);
        let slices = names.filter_map(|it| self.slices.get(it));
        let own = slices.filter(|it| meta::label(&it.metadata, MANAGED_BY) == writer);
        own.map(|it| &**it).collect()
    }

    /// The pods that a Service selects.
    fn selected(&self, key: &NamespacedName, service: &Service) -> Vec<&Pod> {
        let names = first_pair(service)
            .map(|(label, value)| self.labelled.get(&key.namespace, label, value));
        let pods = names
            .into_iter()
            .flatten()
            .filter_map(|it| self.pods.get(it));
        let chosen = pods.filter(|it| selects(service, it.metadata.labels.as_ref()));
        chosen.map(|it| &**it).collect()
    }

    fn as_changes(
        &self,
        service: &NamespacedName,
        slices: SliceChanges,
        time: Timestamp,
    ) -> Vec<Change> {
        let written = slices.write.into_iter().map(|mut slice| {
            let annotations = slice.metadata.annotations.get_or_insert_default();
            annotations.insert(TRIGGERED.to_owned(), time.to_string());
            Change::Set(Object::EndpointSlice(Arc::new(slice)))
        });
        let deleted = slices.delete.iter().filter_map(|name| {
            let name = NamespacedName::new(service.namespace.clone(), name.as_str());
            let slice = self.slices.get(&name)?.clone();
            Some(Change::Delete(Object::EndpointSlice(slice)))
        });
        written.chain(deleted).collect()
    }
}

/// Deletes all slices.
fn removal(slices: &[&EndpointSlice]) -> SliceChanges {
    let names = slices.iter().filter_map(|it| it.metadata.name.clone());
    SliceChanges {
        write: Vec::new(),
        delete: names.collect(),
    }
}

/// The Service of a slice.
pub(crate) fn owner(slice: &EndpointSlice) -> NamespacedName {
    let namespace = slice.metadata.namespace.as_deref().unwrap_or_default();
    NamespacedName::new(namespace, meta::label(&slice.metadata, SERVICE_NAME))
}

/// An object before and after a change.
type Versions<T> = (Option<Arc<T>>, Option<Arc<T>>);

/// Inserts or removes an object. Returns both versions, `None` where they are equal.
fn replace<T: PartialEq>(
    map: &mut BTreeMap<NamespacedName, Arc<T>>,
    key: &NamespacedName,
    object: Arc<T>,
    exists: bool,
) -> Option<Versions<T>> {
    let old = if exists {
        map.insert(key.clone(), object.clone())
    } else {
        map.remove(key)
    };
    let new = exists.then_some(object);
    (old != new).then_some((old, new))
}
