//! Garbage collection: deletes objects whose owners are gone (`pkg/controller/garbagecollector`, with the propagation
//! policy Background), and pods whose node is gone (`pkg/controller/podgc/gc_controller.go`).

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::plan::{Object, Plan};
use super::{Cluster, pods};

/// Kinds of owners of which a [`Cluster`] has all objects.
const KNOWN_OWNERS: &[(&str, &str)] = &[
    ("apps/v1", "Deployment"),
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "DaemonSet"),
    ("batch/v1", "Job"),
    ("batch/v1", "CronJob"),
];

pub(super) fn reconcile(cluster: &Cluster, plan: &mut Plan) {
    let owners = uids(&cluster.deployments)
        .chain(uids(&cluster.replica_sets))
        .chain(uids(&cluster.stateful_sets))
        .chain(uids(&cluster.daemon_sets))
        .chain(uids(&cluster.jobs))
        .chain(uids(&cluster.cron_jobs));
    let owners = owners.collect();
    remove_orphans(&cluster.replica_sets, &owners, plan);
    remove_orphans(&cluster.revisions, &owners, plan);
    remove_orphans(&cluster.jobs, &owners, plan);
    remove_orphans(&cluster.pods, &owners, plan);
    let nodes = cluster.nodes.iter();
    let nodes = nodes.map(|it| it.metadata.name.as_deref());
    let nodes: BTreeSet<_> = nodes.collect();
    for pod in &cluster.pods {
        let is_stray = match pods::node(pod) {
            Some(it) => !nodes.contains(&Some(it)),
            // No kubelet will report its end.
            None => pods::is_terminating(pod),
        };
        // One with finalizers stays until they are removed.
        let is_deleted = pod.metadata.deletion_grace_period_seconds == Some(0);
        if is_stray && !is_deleted {
            plan.delete_at_once(&**pod);
        }
    }
}

fn uids<T: Object>(objects: &[Arc<T>]) -> impl Iterator<Item = &str> {
    objects.iter().filter_map(|it| it.metadata().uid.as_deref())
}

fn remove_orphans<T: Object>(objects: &[Arc<T>], owners: &BTreeSet<&str>, plan: &mut Plan) {
    for object in objects {
        if is_orphan(object.metadata(), owners) {
            plan.delete(&**object);
        }
    }
}

/// Whether all owners of an object are gone for certain.
fn is_orphan(metadata: &ObjectMeta, owners: &BTreeSet<&str>) -> bool {
    let references = metadata.owner_references.as_deref().unwrap_or_default();
    let is_gone = |kind: &str, api_version: &str, uid: &str| {
        KNOWN_OWNERS.contains(&(api_version, kind)) && !owners.contains(uid)
    };
    let mut all = references.iter();
    !references.is_empty() && all.all(|it| is_gone(&it.kind, &it.api_version, &it.uid))
}
