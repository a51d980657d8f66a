//! The objects that the controllers read, as typed values.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{
    ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet,
};
use k8s_openapi::api::core::v1::{Endpoints, Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::IPAddress;
use k8s_openapi::serde::de::DeserializeOwned;
use serde_json::Value;
use sluice_api::Status;
use sluice_controller::{Change, Object, workloads};
use sluice_model::NamespacedName;

use crate::object::{key_of, typed};

/// The kinds that the controllers read.
pub(super) const KINDS: [&str; 12] = [
    "Node",
    "Pod",
    "Service",
    "Endpoints",
    "EndpointSlice",
    "IPAddress",
    "ServiceCIDR",
    "Deployment",
    "ReplicaSet",
    "StatefulSet",
    "DaemonSet",
    "ControllerRevision",
];

type All<T> = BTreeMap<NamespacedName, Arc<T>>;

#[derive(Default)]
pub(super) struct Objects {
    /// By name.
    pub(super) nodes: BTreeMap<String, Arc<Node>>,
    pub(super) pods: All<Pod>,
    pub(super) services: All<Service>,
    /// By name, which is the IP address.
    pub(super) addresses: BTreeMap<String, Arc<IPAddress>>,
    endpoints: All<Endpoints>,
    slices: All<EndpointSlice>,
    deployments: All<Deployment>,
    replica_sets: All<ReplicaSet>,
    stateful_sets: All<StatefulSet>,
    daemon_sets: All<DaemonSet>,
    revisions: All<ControllerRevision>,
}

impl Objects {
    /// Stores or removes an object.
    pub(super) fn absorb(&mut self, object: &Value, exists: bool) -> Result<(), Status> {
        let key = key_of(object);
        let name = key.name.to_string();
        match object["kind"].as_str().unwrap_or_default() {
            "Node" => set(&mut self.nodes, name, object, exists),
            "IPAddress" => set(&mut self.addresses, name, object, exists),
            "Pod" => set(&mut self.pods, key, object, exists),
            "Service" => set(&mut self.services, key, object, exists),
            "Endpoints" => set(&mut self.endpoints, key, object, exists),
            "EndpointSlice" => set(&mut self.slices, key, object, exists),
            "Deployment" => set(&mut self.deployments, key, object, exists),
            "ReplicaSet" => set(&mut self.replica_sets, key, object, exists),
            "StatefulSet" => set(&mut self.stateful_sets, key, object, exists),
            "DaemonSet" => set(&mut self.daemon_sets, key, object, exists),
            "ControllerRevision" => set(&mut self.revisions, key, object, exists),
            _ => Ok(()),
        }
    }

    /// The change for the controller of EndpointSlices. Call it after [`absorb`](Self::absorb).
    pub(super) fn of_slices(&self, object: &Value, exists: bool) -> Option<Change> {
        let key = key_of(object);
        let kind = object["kind"].as_str().unwrap_or_default();
        let found = match (kind, exists) {
            ("Service", true) => self.services.get(&key).cloned().map(Object::Service),
            ("Pod", true) => self.pods.get(&key).cloned().map(Object::Pod),
            ("Node", true) => self.nodes.get(&*key.name).cloned().map(Object::Node),
            ("Endpoints", true) => self.endpoints.get(&key).cloned().map(Object::Endpoints),
            ("EndpointSlice", true) => self.slices.get(&key).cloned().map(Object::EndpointSlice),
            ("Service", false) => typed(object).ok().map(Object::Service),
            ("Pod", false) => typed(object).ok().map(Object::Pod),
            ("Node", false) => typed(object).ok().map(Object::Node),
            ("Endpoints", false) => typed(object).ok().map(Object::Endpoints),
            ("EndpointSlice", false) => typed(object).ok().map(Object::EndpointSlice),
            _ => None,
        };
        Some(if exists {
            Change::Set(found?)
        } else {
            Change::Delete(found?)
        })
    }

    /// The objects that the controllers of workloads read.
    pub(super) fn cluster(&self) -> workloads::Cluster {
        workloads::Cluster {
            nodes: self.nodes.values().cloned().collect(),
            pods: self.pods.values().cloned().collect(),
            deployments: self.deployments.values().cloned().collect(),
            replica_sets: self.replica_sets.values().cloned().collect(),
            stateful_sets: self.stateful_sets.values().cloned().collect(),
            daemon_sets: self.daemon_sets.values().cloned().collect(),
            revisions: self.revisions.values().cloned().collect(),
        }
    }
}

fn set<K: Ord, T: DeserializeOwned>(
    all: &mut BTreeMap<K, Arc<T>>,
    key: K,
    object: &Value,
    exists: bool,
) -> Result<(), Status> {
    if exists {
        all.insert(key, Arc::new(typed(object)?));
    } else {
        all.remove(&key);
    }
    Ok(())
}
