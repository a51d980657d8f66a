//! What is known of the cluster.

mod addresses;
mod alike;
mod namespace;
mod slice;

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use sluice_model::{
    ClusterIps, EndpointSlice, Event, Namespace, NamespacedName, Object, ObjectKey, Pod, Service,
};

use addresses::Addresses;
use namespace::Contents;

pub(crate) use namespace::Entry;
pub(crate) use slice::{EndpointName, Slice};

/// What says whether a namespace exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespaceRule {
    /// Its Namespace object: an API server has one for each.
    Declared,
    /// Its Namespace object when there is any Namespace object; without a single one, an object inside it.
    /// For manifests, whose authors often leave Namespaces out.
    DeclaredOrImplied,
}

/// The objects of a cluster, with the indexes that answers need.
///
/// An event costs what its object has: the ports of a Service, the endpoints of a slice. Nothing is copied
/// from the objects.
#[derive(Debug)]
pub struct Objects {
    rule: NamespaceRule,
    namespaces: HashMap<Arc<str>, Contents>,
    /// How many Namespace objects there are.
    declared: usize,
    cluster_ips: Addresses<Service>,
    /// The ready endpoints; the position is that in the slice.
    endpoints: Addresses<Slice>,
    pods: Addresses<Pod>,
    synced: bool,
    revision: u64,
    serial: u32,
}

impl Objects {
    /// Nothing is known yet.
    #[must_use]
    pub fn new(rule: NamespaceRule) -> Self {
        Self {
            rule,
            namespaces: HashMap::new(),
            declared: 0,
            cluster_ips: Addresses::default(),
            endpoints: Addresses::default(),
            pods: Addresses::default(),
            synced: false,
            revision: 0,
            serial: 0,
        }
    }

    /// Takes in what a source says. `now`, in seconds since the Unix epoch, becomes the serial of the zones
    /// if an answer may change.
    pub fn absorb(&mut self, event: &Event, now: u32) {
        let changed = match event {
            Event::Set(object) => self.set(object),
            Event::Delete(key) => self.delete(key),
            Event::Synced => !std::mem::replace(&mut self.synced, true),
            Event::Problems { .. } | Event::LocalAddresses(_) => false,
        };
        if changed {
            self.revision += 1;
            self.serial = now;
        }
    }

    /// Grows with every change that may alter an answer: as long as it stays, the same question has the same
    /// answer.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The serial of the zones: when an answer last changed, in seconds since the Unix epoch; 0 before.
    #[must_use]
    pub fn serial(&self) -> u32 {
        self.serial
    }

    /// Whether the first complete list of every kind has come.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.synced
    }

    /// A pod.
    #[must_use]
    pub fn pod(&self, name: &NamespacedName) -> Option<&Pod> {
        self.namespaces.get(&name.namespace)?.pod(&name.name)
    }

    /// The pods that have an address: several when they share the one of their node.
    pub fn pods_at(&self, address: IpAddr) -> impl Iterator<Item = &Pod> {
        self.pods.owners(address).map(|(pod, _)| pod)
    }

    /// The pod that has an address for itself, by the Pods or else by the ready endpoints.
    #[must_use]
    pub fn pod_at(&self, address: IpAddr) -> Option<NamespacedName> {
        if self.pods_at(address).any(|it| it.host_network) {
            return None;
        }
        let pods = self.pods_at(address).map(|it| it.name.clone());
        let pods: BTreeSet<NamespacedName> = pods.collect();
        let known = match pods.is_empty() {
            false => pods,
            true => {
                let endpoints = self.endpoints_at(address).filter_map(|(slice, index)| {
                    let name = slice.object.endpoints[index].target.clone()?;
                    let namespace = slice.object.name.namespace.clone();
                    Some(NamespacedName { namespace, name })
                });
                endpoints.collect()
            }
        };
        match known.len() {
            1 => known.into_iter().next(),
            _ => None,
        }
    }

    /// The Services with a name, in every namespace, by namespace.
    pub(crate) fn services_called(&self, name: &str) -> BTreeSet<&NamespacedName> {
        let namespaces = self.namespaces.values();
        let services = namespaces.filter_map(|it| it.services.get(name)?.service.as_deref());
        services.map(|it| &it.name).collect()
    }

    pub(crate) fn namespace_exists(&self, namespace: &str) -> bool {
        let Some(contents) = self.namespaces.get(namespace) else {
            return false;
        };
        let implied = self.rule == NamespaceRule::DeclaredOrImplied && self.declared == 0;
        contents.declared || implied
    }

    pub(crate) fn entry(&self, namespace: &str, service: &str) -> Option<&Entry> {
        self.namespaces.get(namespace)?.services.get(service)
    }

    /// The Services that have a ClusterIP, by name.
    pub(crate) fn services_at(&self, address: IpAddr) -> impl Iterator<Item = &Service> {
        self.cluster_ips.owners(address).map(|(service, _)| service)
    }

    /// The ready endpoints that have an address, by name and position of their slices.
    pub(crate) fn endpoints_at(&self, address: IpAddr) -> impl Iterator<Item = (&Slice, usize)> {
        self.endpoints.owners(address)
    }

    fn set(&mut self, object: &Object) -> bool {
        match object {
            Object::Service(it) => self.replace_service(&it.name, Some(it)),
            Object::EndpointSlice(it) => self.replace_slice(&it.name, Some(it)),
            Object::Pod(it) => self.replace_pod(&it.name, Some(it)),
            Object::Namespace(it) => self.declare(it),
            Object::Node(_) | Object::ServiceCidr(_) => false,
        }
    }

    fn delete(&mut self, key: &ObjectKey) -> bool {
        match key {
            ObjectKey::Service(name) => self.replace_service(name, None),
            ObjectKey::EndpointSlice(name) => self.replace_slice(name, None),
            ObjectKey::Pod(name) => self.replace_pod(name, None),
            ObjectKey::Namespace(name) => self.withdraw(name),
            ObjectKey::Node(_) | ObjectKey::ServiceCidr(_) => false,
        }
    }

    fn declare(&mut self, namespace: &Namespace) -> bool {
        let contents = self
            .namespaces
            .entry(Arc::clone(&namespace.name))
            .or_default();
        let new = !std::mem::replace(&mut contents.declared, true);
        self.declared += usize::from(new);
        new
    }

    fn withdraw(&mut self, name: &str) -> bool {
        let Some(contents) = self.namespaces.get_mut(name) else {
            return false;
        };
        let was = std::mem::replace(&mut contents.declared, false);
        self.declared -= usize::from(was);
        self.forget_if_empty(name);
        was
    }

    fn replace_service(&mut self, name: &NamespacedName, new: Option<&Arc<Service>>) -> bool {
        let old = self.contents(name).replace_service(&name.name, new);
        self.cluster_ips.replace(old.as_ref(), new);
        self.forget_if_empty(&name.namespace);
        !alike::services(old.as_deref(), new.map(Arc::as_ref))
    }

    fn replace_slice(&mut self, name: &NamespacedName, new: Option<&Arc<EndpointSlice>>) -> bool {
        let new = new.map(|it| Arc::new(Slice::new(it)));
        let old = self.contents(name).replace_slice(&name.name, new.as_ref());
        self.endpoints.replace(old.as_ref(), new.as_ref());
        self.forget_if_empty(&name.namespace);
        let [old, new] = [&old, &new].map(|it| it.as_ref().map(|it| &*it.object));
        !alike::slices(old, new)
    }

    fn replace_pod(&mut self, name: &NamespacedName, new: Option<&Arc<Pod>>) -> bool {
        let old = self.contents(name).replace_pod(&name.name, new);
        self.pods.replace(old.as_ref(), new);
        self.forget_if_empty(&name.namespace);
        !alike::pods(old.as_deref(), new.map(Arc::as_ref))
    }

    fn contents(&mut self, name: &NamespacedName) -> &mut Contents {
        let namespace = Arc::clone(&name.namespace);
        self.namespaces.entry(namespace).or_default()
    }

    fn forget_if_empty(&mut self, namespace: &str) {
        if self
            .namespaces
            .get(namespace)
            .is_some_and(Contents::is_empty)
        {
            self.namespaces.remove(namespace);
        }
    }
}

/// The virtual addresses of a Service. A headless one has none, and so has one that still waits for its own.
pub(crate) fn cluster_ips(service: &Service) -> &[IpAddr] {
    match &service.cluster_ips {
        ClusterIps::Assigned(addresses) => addresses,
        ClusterIps::Headless | ClusterIps::Unassigned => &[],
    }
}
