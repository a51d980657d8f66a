//! The objects that sources reported, by Service.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Bound;
use std::sync::Arc;

use crate::Event;
use sluice_model::{
    AddressType, Change, EndpointSlice, IpFamily, LocalAddresses, Model, NamespacedName, Node,
    Service, ServiceCidr,
};

/// The node's own addresses, loopback included.
pub type HostAddresses = BTreeSet<IpAddr>;

/// A Service and the slices that belong to it. Either may arrive first.
#[derive(Clone, Debug, Default)]
pub struct ServiceEntry {
    /// The Service; `None` while only slices are known.
    pub service: Option<Arc<Service>>,
    /// Slices by name. The order decides between duplicates, so it must not be that of events.
    pub slices: BTreeMap<Arc<str>, Arc<EndpointSlice>>,
}

impl ServiceEntry {
    /// The slices of one family, by name.
    pub(crate) fn slices_of(&self, family: IpFamily) -> impl Iterator<Item = &EndpointSlice> {
        let address_type = match family {
            IpFamily::V4 => AddressType::Ipv4,
            IpFamily::V6 => AddressType::Ipv6,
        };
        let slices = self.slices.values().map(Arc::as_ref);
        slices.filter(move |it| it.address_type == address_type)
    }
}

/// What a change of the state affects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Touched {
    /// A Service object.
    Service(NamespacedName),
    /// The endpoints of these Services: one, or two when a slice moved.
    Endpoints(Vec<NamespacedName>),
    /// A Node object.
    Node(Arc<str>),
    /// The addresses of the machine.
    LocalAddresses,
    /// The ranges ClusterIPs come from.
    ServiceCidrs,
}

/// The cluster as the sources describe it.
#[derive(Clone, Debug, Default)]
pub struct ClusterState {
    services: BTreeMap<NamespacedName, ServiceEntry>,
    /// The Services that name each address, in any field, by name.
    named: HashMap<IpAddr, Vec<NamespacedName>>,
    /// The Service of each slice, to find the slice when its label changes.
    slice_owner: HashMap<NamespacedName, NamespacedName>,
    nodes: BTreeMap<Arc<str>, Arc<Node>>,
    cidrs: BTreeMap<Arc<str>, Arc<ServiceCidr>>,
    local: LocalAddresses,
}

impl ClusterState {
    /// Takes in an event about an object or the machine; `None` when it changes nothing.
    pub fn absorb(&mut self, event: Event) -> Option<Touched> {
        match event {
            Event::Service(change) => self.set_service(&change),
            Event::EndpointSlice(Change::Set(slice)) => self.set_slice(&slice),
            Event::EndpointSlice(Change::Delete(name)) => {
                let owner = self.slice_owner.remove(&name)?;
                self.remove_slice(&owner, &name.name);
                Some(Touched::Endpoints(vec![owner]))
            }
            Event::Node(change) => {
                let name = change.name().name;
                replace(&mut self.nodes, &change).then_some(Touched::Node(name))
            }
            Event::ServiceCidr(change) => {
                replace(&mut self.cidrs, &change).then_some(Touched::ServiceCidrs)
            }
            Event::LocalAddresses(addresses) => {
                let old = std::mem::replace(&mut self.local, addresses);
                (old != self.local).then_some(Touched::LocalAddresses)
            }
            Event::Notice(_) => None,
        }
    }

    pub fn service(&self, name: &NamespacedName) -> Option<&ServiceEntry> {
        self.services.get(name)
    }

    /// Every Service or group of slices, by name.
    pub fn services(&self) -> impl Iterator<Item = (&NamespacedName, &ServiceEntry)> {
        self.services.iter()
    }

    /// The Services behind this one, by name; all of them without one.
    pub(crate) fn services_after(
        &self,
        last: Option<&NamespacedName>,
    ) -> impl Iterator<Item = (&NamespacedName, &ServiceEntry)> {
        let from = last.map_or(Bound::Unbounded, Bound::Excluded);
        self.services
            .range::<NamespacedName, _>((from, Bound::Unbounded))
    }

    /// The Services that name an address, in any field, by name.
    pub(crate) fn naming(&self, addr: IpAddr) -> impl Iterator<Item = &Service> {
        let names = self.named.get(&addr).into_iter().flatten();
        names.filter_map(|it| self.services.get(it)?.service.as_deref())
    }

    pub fn service_of(&self, slice: &NamespacedName) -> Option<&NamespacedName> {
        self.slice_owner.get(slice)
    }

    /// The Node of this name.
    pub fn node(&self, name: &str) -> Option<&Arc<Node>> {
        self.nodes.get(name)
    }

    /// Every Node, by name.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values().map(AsRef::as_ref)
    }

    /// The machine's own addresses.
    pub fn local_addresses(&self) -> &LocalAddresses {
        &self.local
    }

    /// The addresses of a node, loopback included: the machine's, and while those are unknown its
    /// Node object's.
    pub fn host_addresses(&self, node_name: &str) -> HostAddresses {
        let mut all = self.local.all.clone();
        if all.is_empty() {
            let node = self.nodes.get(node_name);
            all.extend(node.iter().flat_map(|it| &it.addresses));
        }
        all.extend([
            IpAddr::from(Ipv4Addr::LOCALHOST),
            IpAddr::from(Ipv6Addr::LOCALHOST),
        ]);
        all
    }

    /// Whether any Service is known.
    pub fn has_services(&self) -> bool {
        self.services.values().any(|it| it.service.is_some())
    }

    /// Every ServiceCIDR.
    pub fn service_cidrs(&self) -> impl Iterator<Item = &ServiceCidr> {
        self.cidrs.values().map(Arc::as_ref)
    }

    fn set_service(&mut self, change: &Change<Service>) -> Option<Touched> {
        let name = change.name();
        let (old, new) = match change {
            Change::Set(new) => {
                let entry = self.services.entry(name.clone()).or_default();
                (entry.service.replace(new.clone()), Some(new))
            }
            Change::Delete(_) => {
                let old = self.services.get_mut(&name)?.service.take();
                self.drop_if_empty(&name);
                (old, None)
            }
        };
        if old.as_ref() == new {
            return None;
        }
        for addr in old.iter().flat_map(|it| it.addresses()) {
            if let Entry::Occupied(mut names) = self.named.entry(addr) {
                names.get_mut().retain(|it| *it != name);
                if names.get().is_empty() {
                    names.remove();
                }
            }
        }
        for addr in new.iter().flat_map(|it| it.addresses()) {
            let names = self
                .named
                .entry(addr)
                .or_insert_with(|| Vec::with_capacity(1));
            if let Err(place) = names.binary_search(&name) {
                names.insert(place, name.clone());
            }
        }
        Some(Touched::Service(name))
    }

    fn set_slice(&mut self, slice: &Arc<EndpointSlice>) -> Option<Touched> {
        let owner = slice
            .service
            .as_ref()
            .map(|service| NamespacedName::new(slice.name.namespace.clone(), service.clone()));
        let previous = match &owner {
            Some(owner) => self.slice_owner.insert(slice.name.clone(), owner.clone()),
            None => self.slice_owner.remove(&slice.name),
        };
        let mut touched = Vec::new();
        if let Some(previous) = previous.filter(|it| owner.as_ref() != Some(it)) {
            self.remove_slice(&previous, &slice.name.name);
            touched.push(previous);
        }
        if let Some(owner) = owner {
            let entry = self.services.entry(owner.clone()).or_default();
            let old = entry.slices.insert(slice.name.name.clone(), slice.clone());
            if old.as_ref() != Some(slice) {
                touched.push(owner);
            }
        }
        (!touched.is_empty()).then_some(Touched::Endpoints(touched))
    }

    fn remove_slice(&mut self, owner: &NamespacedName, slice: &str) {
        if let Some(entry) = self.services.get_mut(owner) {
            entry.slices.remove(slice);
            self.drop_if_empty(owner);
        }
    }

    /// Removes an entry without objects. Otherwise memory would grow with every Service that was
    /// ever deleted (kube-proxy issue 128928).
    fn drop_if_empty(&mut self, name: &NamespacedName) {
        if let Some(entry) = self.services.get(name)
            && entry.service.is_none()
            && entry.slices.is_empty()
        {
            self.services.remove(name);
        }
    }
}

/// Stores or removes an object without a namespace. Returns whether that changed something.
fn replace<M: Model>(all: &mut BTreeMap<Arc<str>, Arc<M>>, change: &Change<M>) -> bool {
    let name = change.name().name;
    match change.object() {
        Some(new) => all.insert(name, new.clone()).as_ref() != Some(new),
        None => all.remove(&name).is_some(),
    }
}
