//! Completes a folder of manifests as a control plane would.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Endpoints, Node, Pod, PodCondition, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::{IPAddress, ServiceCIDR};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use sluice_model::{NamespacedName, is_label};

use crate::controller::owner;
use crate::slices::{MANAGED_BY, MIRRORS, SLICES};
use crate::{Allocator, Change, Controller, FieldError, Object, Pools, meta, set_defaults};

/// The objects of a folder of manifests.
#[derive(Clone, Debug, Default)]
pub struct Manifests {
    pub services: Vec<Service>,
    /// Pods with their addresses (`status.podIPs`). A pod without conditions counts as ready: nothing probes it.
    pub pods: Vec<Pod>,
    /// Without any Node, every node name counts as existing.
    pub nodes: Vec<Node>,
    /// Endpoints for Services without selector.
    pub endpoints: Vec<Endpoints>,
    /// EndpointSlices of other writers.
    pub slices: Vec<EndpointSlice>,
    /// Without any ServiceCIDR, the previous ones stay, at first those of the [`Pools`].
    pub service_cidrs: Vec<ServiceCIDR>,
    /// IPAddresses of other writers, which reserve addresses.
    pub ip_addresses: Vec<IPAddress>,
    /// Whether a manifest cannot be read. It may contain an object that is missing, so missing objects stay.
    pub unread: bool,
}

/// The rank of Nodes among the objects that the controller reads.
const NODE: u8 = 1;

/// A completed Service with the objects that belong to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Completed {
    /// The Service with its ClusterIPs and NodePorts.
    pub service: Service,
    /// Ours, and those of other writers.
    pub slices: Vec<EndpointSlice>,
    /// The IPAddresses of its ClusterIPs.
    pub ip_addresses: Vec<IPAddress>,
}

/// Completes manifests. Keeps the result of the previous time as far as the manifests allow.
#[derive(Debug)]
pub struct Folder {
    allocator: Allocator,
    controller: Controller,
    /// The objects that the controller has read.
    told: BTreeMap<(u8, NamespacedName), Object>,
    /// Services as in the manifests when they were completed.
    written: BTreeMap<NamespacedName, Service>,
    services: BTreeMap<NamespacedName, Service>,
}

impl Folder {
    /// Starts from the Services and slices of an earlier run. An address that two of them have is a refusal.
    #[must_use]
    pub fn new(
        pools: Pools,
        services: Vec<Service>,
        slices: Vec<EndpointSlice>,
    ) -> (Self, Vec<(NamespacedName, FieldError)>) {
        let mut allocator = Allocator::new(pools);
        let refusals = allocator.recover(&services);
        let mut controller = Controller::default();
        for slice in slices.into_iter().filter(is_ours) {
            let slice = Object::EndpointSlice(Arc::new(slice));
            controller.absorb(Change::Set(slice), Timestamp::UNIX_EPOCH);
        }
        let services = services.into_iter().map(|it| (meta::key(&it.metadata), it));
        let folder = Self {
            allocator,
            controller,
            told: BTreeMap::new(),
            written: BTreeMap::new(),
            services: services.collect(),
        };
        (folder, refusals)
    }

    /// Reads all manifests at `now`. A Service that is refused keeps its previous version.
    pub fn update(
        &mut self,
        mut manifests: Manifests,
        now: Timestamp,
    ) -> Vec<(NamespacedName, FieldError)> {
        let mut refusals = Vec::new();
        let unread = manifests.unread;
        if unread && self.told.is_empty() && !self.services.is_empty() {
            // The manifest with the missing Pods may be the unreadable one: slices stay.
            return refusals;
        }
        let cidrs = manifests
            .service_cidrs
            .iter()
            .filter_map(|it| it.spec.as_ref());
        let cidrs = cidrs.flat_map(|it| it.cidrs.iter().flatten());
        let cidrs: Vec<_> = cidrs.filter_map(|it| it.parse().ok()).collect();
        if !cidrs.is_empty() {
            self.allocator.set_service_cidrs(cidrs, Vec::new());
        }
        if !unread {
            refusals.extend(self.allocator.set_reserved(&manifests.ip_addresses));
        }
        let services = std::mem::take(&mut manifests.services);
        self.complete_services(services, unread, &mut refusals);
        let mut objects = self.objects(manifests);
        if unread {
            for (key, object) in &self.told {
                objects.entry(key.clone()).or_insert_with(|| object.clone());
            }
        }
        self.tell(objects, now);
        // Report the writes back to the controller. One round is enough: slices of two writers do not depend on each
        // other.
        for change in self.controller.changes() {
            self.controller.absorb(change, now);
        }
        refusals
    }

    /// Every Service with the objects that belong to it.
    pub fn completed(&self) -> BTreeMap<NamespacedName, Completed> {
        let mut slices: BTreeMap<NamespacedName, Vec<EndpointSlice>> = BTreeMap::new();
        for slice in self.controller.slices() {
            slices
                .entry(owner(slice))
                .or_default()
                .push((**slice).clone());
        }
        let completed = self.services.iter().map(|(key, service)| {
            let completed = Completed {
                service: service.clone(),
                slices: slices.remove(key).unwrap_or_default(),
                ip_addresses: self.allocator.ip_addresses_of(key),
            };
            (key.clone(), completed)
        });
        completed.collect()
    }

    fn complete_services(
        &mut self,
        services: Vec<Service>,
        unread: bool,
        refusals: &mut Vec<(NamespacedName, FieldError)>,
    ) {
        let mut wanted = BTreeMap::new();
        for mut service in services {
            in_namespace(&mut service.metadata);
            let key = meta::key(&service.metadata);
            if !is_label(&key.namespace) || !is_label(&key.name) {
                let why = "no name that a Service can have: lower-case letters, digits and dashes";
                refusals.push((key, FieldError::new("metadata", why)));
                continue;
            }
            match wanted.entry(key.clone()) {
                Entry::Vacant(entry) => drop(entry.insert(service)),
                Entry::Occupied(_) => {
                    let twice = FieldError::new("metadata.name", "another Service has it");
                    refusals.push((key, twice));
                }
            }
        }
        let gone = self
            .services
            .keys()
            .filter(|it| !unread && !wanted.contains_key(it));
        for key in gone.cloned().collect::<Vec<_>>() {
            self.allocator.release(&key);
            self.services.remove(&key);
            self.written.remove(&key);
        }
        let changed = wanted
            .into_iter()
            .filter(|(key, it)| self.written.get(key) != Some(it));
        let mut changed: Vec<_> = changed.collect();
        // Services that request an address or port come first: no other Service may get it by chance.
        changed.sort_by_key(|(_, it)| !asks(it));
        for (key, written) in changed {
            let mut service = written.clone();
            let old = self.services.get(&key);
            service.status = old.and_then(|it| it.status.clone());
            set_defaults(&mut service);
            match self.allocator.complete(&mut service, old) {
                Ok(()) => {
                    self.services.insert(key.clone(), service);
                    self.written.insert(key, written);
                }
                Err(more) => {
                    let owners = self.allocator.owners(&service);
                    let more = more.fields().into_iter().map(|it| of(it, &owners));
                    refusals.extend(more.map(|it| (key.clone(), it)));
                }
            }
        }
    }

    /// All objects for the controller but its own slices.
    fn objects(&self, manifests: Manifests) -> BTreeMap<(u8, NamespacedName), Object> {
        let mut objects = BTreeMap::new();
        for (key, service) in &self.services {
            objects.insert((0, key.clone()), Object::Service(Arc::new(service.clone())));
        }
        let mut nodes = manifests.nodes;
        let nodes_stay = manifests.unread && self.told.keys().any(|(kind, _)| *kind == NODE);
        if nodes.is_empty() && !nodes_stay {
            nodes = nodes_of(&manifests.pods);
        }
        for node in nodes {
            let key = meta::key(&node.metadata);
            objects.insert((NODE, key), Object::Node(Arc::new(node)));
        }
        for mut pod in manifests.pods {
            in_namespace(&mut pod.metadata);
            ready_by_default(&mut pod);
            let key = meta::key(&pod.metadata);
            objects.insert((2, key), Object::Pod(Arc::new(pod)));
        }
        for mut endpoints in manifests.endpoints {
            in_namespace(&mut endpoints.metadata);
            let key = meta::key(&endpoints.metadata);
            objects.insert((3, key), Object::Endpoints(Arc::new(endpoints)));
        }
        for mut slice in manifests.slices.into_iter().filter(|it| !is_ours(it)) {
            in_namespace(&mut slice.metadata);
            let key = meta::key(&slice.metadata);
            objects.insert((4, key), Object::EndpointSlice(Arc::new(slice)));
        }
        objects
    }

    fn tell(&mut self, objects: BTreeMap<(u8, NamespacedName), Object>, now: Timestamp) {
        for (key, object) in &self.told {
            if !objects.contains_key(key) {
                self.controller.absorb(Change::Delete(object.clone()), now);
            }
        }
        for (key, object) in &objects {
            if self.told.get(key) != Some(object) {
                self.controller.absorb(Change::Set(object.clone()), now);
            }
        }
        self.told = objects;
    }
}

/// A refusal with the owners of what is taken.
fn of(mut refusal: FieldError, owners: &BTreeSet<String>) -> FieldError {
    if refusal.why.ends_with("already allocated") {
        let owners: Vec<_> = owners.iter().map(String::as_str).collect();
        refusal.why = format!("{}: {}", refusal.why, owners.join("; "));
    }
    refusal
}

fn in_namespace(metadata: &mut ObjectMeta) {
    metadata
        .namespace
        .get_or_insert_with(|| "default".to_owned());
}

/// Whether our controller wrote a slice.
fn is_ours(slice: &EndpointSlice) -> bool {
    [SLICES, MIRRORS].contains(&meta::label(&slice.metadata, MANAGED_BY))
}

/// Whether a Service requests an address or port by its number.
fn asks(service: &Service) -> bool {
    let Some(spec) = &service.spec else {
        return false;
    };
    let mut ports = spec.ports.iter().flatten();
    spec.cluster_ip.is_some()
        || spec.cluster_ips.iter().flatten().next().is_some()
        || spec.load_balancer_ip.is_some()
        || spec.health_check_node_port.is_some()
        || ports.any(|it| it.node_port.is_some())
}

fn nodes_of(pods: &[Pod]) -> Vec<Node> {
    let names = pods
        .iter()
        .filter_map(|it| it.spec.as_ref()?.node_name.clone());
    let names: BTreeSet<String> = names.collect();
    let node = |name| Node {
        metadata: ObjectMeta {
            name: Some(name),
            ..ObjectMeta::default()
        },
        ..Node::default()
    };
    names.into_iter().map(node).collect()
}

fn ready_by_default(pod: &mut Pod) {
    let status = pod.status.get_or_insert_default();
    status.conditions.get_or_insert_with(|| {
        vec![PodCondition {
            type_: "Ready".to_owned(),
            status: "True".to_owned(),
            ..PodCondition::default()
        }]
    });
}

#[cfg(test)]
mod tests;
