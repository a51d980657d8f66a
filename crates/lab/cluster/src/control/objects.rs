//! The objects that the controllers read, as typed values.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{
    ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet,
};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{
    ConfigMap, Endpoints, Namespace, Node, PersistentVolumeClaim, Pod, Service, ServiceAccount,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::IPAddress;
use serde_json::Value;
use sluice_api::Status;
use sluice_controller::{Change, Object, Typed, workloads};
use sluice_model::NamespacedName;

use super::failures::Failures;
use super::tokens::{self, Secrets};
use crate::object::{key_of, typed};
use crate::zones;

/// The kinds that the controllers read.
pub(super) const KINDS: [&str; 19] = [
    "Job",
    "CronJob",
    "Namespace",
    "ServiceAccount",
    "ConfigMap",
    "Secret",
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
    "PersistentVolumeClaim",
];

type All<T> = BTreeMap<NamespacedName, Arc<T>>;

#[derive(Default)]
pub(super) struct Objects {
    pub(super) nodes: BTreeMap<String, Arc<Node>>,
    pub(super) pods: All<Pod>,
    pub(super) services: All<Service>,
    /// The key is the name, which is the IP address.
    pub(super) addresses: BTreeMap<String, Arc<IPAddress>>,
    /// The Secrets that hold tokens.
    pub(super) tokens: Secrets,
    namespaces: BTreeMap<String, Arc<Namespace>>,
    accounts: All<ServiceAccount>,
    authorities: All<ConfigMap>,
    endpoints: All<Endpoints>,
    slices: All<EndpointSlice>,
    deployments: All<Deployment>,
    replica_sets: All<ReplicaSet>,
    stateful_sets: All<StatefulSet>,
    daemon_sets: All<DaemonSet>,
    jobs: All<Job>,
    cron_jobs: All<CronJob>,
    revisions: All<ControllerRevision>,
    claims: All<PersistentVolumeClaim>,
}

impl Objects {
    /// Stores or removes an object. Returns the change for the controller of EndpointSlices, if it reads the kind.
    pub(super) fn absorb(
        &mut self,
        object: &Value,
        exists: bool,
    ) -> Result<Option<Change>, Status> {
        let key = key_of(object);
        let name = key.name.to_string();
        let changed = match object["kind"].as_str().unwrap_or_default() {
            "Service" => set(&mut self.services, key, object, exists)?.map(Object::Service),
            "Pod" => set(&mut self.pods, key, object, exists)?.map(Object::Pod),
            "Node" => set(&mut self.nodes, name, object, exists)?.map(Object::Node),
            "Endpoints" => set(&mut self.endpoints, key, object, exists)?.map(Object::Endpoints),
            "EndpointSlice" => {
                set(&mut self.slices, key, object, exists)?.map(Object::EndpointSlice)
            }
            "IPAddress" => set(&mut self.addresses, name, object, exists)?.and(None),
            "Namespace" => set(&mut self.namespaces, name, object, exists)?.and(None),
            "ServiceAccount" => set(&mut self.accounts, key, object, exists)?.and(None),
            "Secret" if tokens::is_of_account(object) => {
                if exists {
                    self.tokens.insert(key, Arc::new(object.clone()));
                } else {
                    self.tokens.remove(&key);
                }
                None
            }
            "ConfigMap" if name == workloads::AUTHORITY => {
                set(&mut self.authorities, key, object, exists)?.and(None)
            }
            "Deployment" => set(&mut self.deployments, key, object, exists)?.and(None),
            "ReplicaSet" => set(&mut self.replica_sets, key, object, exists)?.and(None),
            "StatefulSet" => set(&mut self.stateful_sets, key, object, exists)?.and(None),
            "DaemonSet" => set(&mut self.daemon_sets, key, object, exists)?.and(None),
            "Job" => set(&mut self.jobs, key, object, exists)?.and(None),
            "CronJob" => set(&mut self.cron_jobs, key, object, exists)?.and(None),
            "ControllerRevision" => set(&mut self.revisions, key, object, exists)?.and(None),
            "PersistentVolumeClaim" => set(&mut self.claims, key, object, exists)?.and(None),
            _ => None,
        };
        Ok(changed.map(if exists { Change::Set } else { Change::Delete }))
    }

    /// The objects that the controllers of workloads read.
    pub(super) fn cluster(&self, authority: &str, failures: &Failures) -> workloads::Cluster {
        let cron_jobs: Vec<_> = self.cron_jobs.values().cloned().collect();
        let zones = workloads::time_zones(&cron_jobs);
        let zones = zones.filter_map(|it| Some((it.to_owned(), zones::of(it)?)));
        workloads::Cluster {
            zones: zones.collect(),
            jobs: self.jobs.values().cloned().collect(),
            cron_jobs: cron_jobs.clone(),
            namespaces: self.namespaces.values().cloned().collect(),
            accounts: self.accounts.values().cloned().collect(),
            authorities: self.authorities.values().cloned().collect(),
            authority: authority.to_owned(),
            nodes: self.nodes.values().cloned().collect(),
            pods: self.pods.values().cloned().collect(),
            deployments: self.deployments.values().cloned().collect(),
            replica_sets: self.replica_sets.values().cloned().collect(),
            stateful_sets: self.stateful_sets.values().cloned().collect(),
            daemon_sets: self.daemon_sets.values().cloned().collect(),
            revisions: self.revisions.values().cloned().collect(),
            claims: self.claims.values().cloned().collect(),
            failures: failures.all(),
        }
    }
}

/// Returns the object that is stored or removed.
fn set<K: Ord, T: Typed>(
    all: &mut BTreeMap<K, Arc<T>>,
    key: K,
    object: &Value,
    exists: bool,
) -> Result<Option<Arc<T>>, Status> {
    if !exists {
        return Ok(all.remove(&key));
    }
    let object = Arc::new(typed::<T>(object)?);
    all.insert(key, object.clone());
    Ok(Some(object))
}
