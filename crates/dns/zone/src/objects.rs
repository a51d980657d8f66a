//! What is known of the cluster.

mod addresses;
mod alike;
mod namespace;
mod slice;

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use sluice_model::{
    Change, ClusterIps, EndpointSlice, Namespace, NamespacedName, Notice, Pod, Service,
};

use crate::{Event, PodRecords};
use addresses::Addresses;
use namespace::Contents;

pub(crate) use namespace::Entry;
pub(crate) use slice::{Ready, Slice};

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
    /// Changes that every server may answer from.
    changes: Changes,
    /// Changes of pods, which servers with [`PodRecords::Verified`] answer from.
    pod_changes: Changes,
}

#[derive(Debug, Default)]
struct Changes {
    count: u64,
    /// When the last one came, in seconds since the Unix epoch.
    last: u32,
}

/// Whose answers an event may alter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Altered {
    Nobody,
    Verified,
    All,
}

impl Altered {
    fn all_if(changed: bool) -> Self {
        if changed { Self::All } else { Self::Nobody }
    }
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
            changes: Changes::default(),
            pod_changes: Changes::default(),
        }
    }

    /// Takes in what a source says. `now`, in seconds since the Unix epoch, becomes the serial of the zones
    /// if an answer may change.
    pub fn absorb(&mut self, event: &Event, now: u32) {
        let altered = match event {
            Event::Service(it) => Altered::all_if(self.replace_service(&it.name(), it.object())),
            Event::EndpointSlice(it) => {
                Altered::all_if(self.replace_slice(&it.name(), it.object()))
            }
            Event::Pod(it) => self.replace_pod(&it.name(), it.object()),
            Event::Namespace(Change::Set(it)) => Altered::all_if(self.declare(it)),
            Event::Namespace(Change::Delete(it)) => Altered::all_if(self.withdraw(&it.name)),
            Event::Notice(Notice::Synced) => {
                Altered::all_if(!std::mem::replace(&mut self.synced, true))
            }
            Event::Notice(Notice::Problems { .. }) => Altered::Nobody,
        };
        let changes = match altered {
            Altered::Nobody => return,
            Altered::Verified => &mut self.pod_changes,
            Altered::All => &mut self.changes,
        };
        changes.count += 1;
        changes.last = now;
    }

    /// Puts all objects of another source in the place of these. The revision grows.
    pub fn replace(&mut self, new: Self) {
        let before = self.revision(PodRecords::Verified);
        *self = new;
        self.changes.count += before + 1;
    }

    /// Grows with every change that may alter an answer of a server with these names of pods: as long as it
    /// stays, the same question has the same answer.
    #[must_use]
    pub fn revision(&self, pods: PodRecords) -> u64 {
        match pods {
            PodRecords::Verified => self.changes.count + self.pod_changes.count,
            PodRecords::Disabled | PodRecords::Insecure => self.changes.count,
        }
    }

    /// The serial of the zones of a server with these names of pods: when an answer last changed, in seconds
    /// since the Unix epoch; 0 before.
    #[must_use]
    pub fn serial(&self, pods: PodRecords) -> u32 {
        match pods {
            PodRecords::Verified => self.changes.last.max(self.pod_changes.last),
            PodRecords::Disabled | PodRecords::Insecure => self.changes.last,
        }
    }

    /// Whether the first complete list of every kind has come.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.synced
    }

    #[must_use]
    pub fn pod(&self, name: &NamespacedName) -> Option<&Pod> {
        self.namespaces.get(&name.namespace)?.pod(&name.name)
    }

    #[must_use]
    pub fn service(&self, namespace: &str, name: &str) -> Option<&Service> {
        self.entry(namespace, name)?.service.as_deref()
    }

    #[must_use]
    pub fn endpoint_slice(&self, name: &NamespacedName) -> Option<&EndpointSlice> {
        self.namespaces.get(&name.namespace)?.slice(&name.name)
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
        let known = if !pods.is_empty() {
            pods
        } else {
            let endpoints = self.endpoints_at(address).filter_map(|(slice, index)| {
                let name = slice.object.endpoints[index].target.clone()?;
                let namespace = slice.object.name.namespace.clone();
                Some(NamespacedName { namespace, name })
            });
            endpoints.collect()
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

    /// A pod by which its namespace comes or goes matters to all (see [`NamespaceRule::DeclaredOrImplied`]).
    fn replace_pod(&mut self, name: &NamespacedName, new: Option<&Arc<Pod>>) -> Altered {
        let namespaces = self.namespaces.len();
        let old = self.contents(name).replace_pod(&name.name, new);
        self.pods.replace(old.as_ref(), new);
        self.forget_if_empty(&name.namespace);
        if self.namespaces.len() != namespaces {
            return Altered::All;
        }
        if alike::pods(old.as_deref(), new.map(Arc::as_ref)) {
            Altered::Nobody
        } else {
            Altered::Verified
        }
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
