//! The controllers of workloads: Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs, CronJobs, the scheduler, and what becomes of the
//! pods of a node that does not answer. Rules are kube-controller-manager's and kube-scheduler's of Kubernetes 1.36.
//!
//! ```text
//! Cluster ──reconcile(now)──▶ Plan { writes, wake }
//!    ▲                            │
//!    └────── the caller writes ◀──┘   until there is nothing to write; again at `wake`
//! ```
//!
//! # Invariants
//!
//! - `reconcile` remembers nothing: what it read decides, also after a restart. What the API refused is told to it.
//! - An object with the controller reference of somebody else is neither changed nor deleted, but for a pod whose node is lost
//!   or has a taint against it.
//! - A write that is refused or lost is asked for again.
//! - When nothing changes from outside, the writes come to an end.
//!
//! Not here: binding of volumes, preemption, PodDisruptionBudgets.

mod accounts;
mod counts;
mod cron_job;
mod daemon_set;
mod defaults;
mod deployment;
mod fit;
mod garbage;
mod job;
mod labels;
mod node_lifecycle;
mod ownership;
mod plan;
pub(crate) mod pods;
mod replica_set;
mod resize;
mod revisions;
mod scheduler;
mod stateful_set;
mod template;
#[cfg(test)]
mod tests;
mod validation;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use k8s_openapi::api::apps::v1::{
    ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet,
};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{
    ConfigMap, Namespace, Node, PersistentVolumeClaim, Pod, ServiceAccount,
};

pub use accounts::{AUTHORITY, account_of, mount_token};
pub use cron_job::time_zones;
pub use defaults::{
    complete_job, complete_pod, default_cron_job, default_daemon_set, default_deployment,
    default_job, default_pod, default_replica_set, default_stateful_set, default_template,
};
pub use plan::{Failure, Plan, Workload, Write};
pub use resize::resize;
pub use validation::{
    validate_cron_job, validate_daemon_set, validate_deployment, validate_job, validate_pod,
    validate_replica_set, validate_stateful_set,
};

/// All objects that the controllers read, with the API's defaults. An owner that is missing here does not exist, so its
/// dependents are deleted.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    pub namespaces: Vec<Arc<Namespace>>,
    pub accounts: Vec<Arc<ServiceAccount>>,
    /// The ConfigMaps called [`AUTHORITY`].
    pub authorities: Vec<Arc<ConfigMap>>,
    /// The certificate of the API's authority, in PEM.
    pub authority: String,
    pub nodes: Vec<Arc<Node>>,
    /// Pods of every phase, terminating ones included.
    pub pods: Vec<Arc<Pod>>,
    pub deployments: Vec<Arc<Deployment>>,
    /// ReplicaSets, of Deployments and others.
    pub replica_sets: Vec<Arc<ReplicaSet>>,
    pub stateful_sets: Vec<Arc<StatefulSet>>,
    pub daemon_sets: Vec<Arc<DaemonSet>>,
    pub jobs: Vec<Arc<Job>>,
    pub cron_jobs: Vec<Arc<CronJob>>,
    pub claims: Vec<Arc<PersistentVolumeClaim>>,
    /// What the API refused to create, by the uid of the owner: until the next one is accepted.
    pub failures: BTreeMap<String, Failure>,
    /// The time zones that CronJobs name, as far as this machine knows them.
    pub zones: BTreeMap<String, TimeZone>,
    /// The revisions of StatefulSets and DaemonSets.
    pub revisions: Vec<Arc<ControllerRevision>>,
}

/// The writes to make now, in this order. Takes time proportional to pods times nodes.
#[must_use]
pub fn reconcile(cluster: &Cluster, now: Timestamp) -> Plan {
    let mut plan = Plan::new(now, cluster.failures.clone());
    accounts::reconcile(cluster, &mut plan);
    garbage::reconcile(cluster, &mut plan);
    node_lifecycle::reconcile(cluster, &mut plan);
    for deployment in &cluster.deployments {
        deployment::reconcile(cluster, deployment, &mut plan);
    }
    for set in &cluster.replica_sets {
        replica_set::reconcile(cluster, set, &mut plan);
    }
    for set in &cluster.stateful_sets {
        stateful_set::reconcile(cluster, set, &mut plan);
    }
    for set in &cluster.daemon_sets {
        daemon_set::reconcile(cluster, set, &mut plan);
    }
    for job in &cluster.jobs {
        job::reconcile(cluster, job, &mut plan);
    }
    job::release_orphans(cluster, &mut plan);
    for cron_job in &cluster.cron_jobs {
        cron_job::reconcile(cluster, cron_job, &mut plan);
    }
    scheduler::reconcile(cluster, &mut plan);
    plan
}
