//! Annotations of Deployments and ReplicaSets: revisions, and the sizes that proportions are computed from
//! (`pkg/controller/deployment/util/deployment_util.go`).

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::super::plan::Plan;
use super::Rollout;
use super::sets::Sets;
use crate::meta;

/// The number of the template, from 1.
const REVISION: &str = "deployment.kubernetes.io/revision";
/// `spec.replicas` of the Deployment when the ReplicaSet was scaled last.
const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
/// `spec.replicas` plus the surge of the Deployment when the ReplicaSet was scaled last.
const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";

/// Annotations of a Deployment that its ReplicaSets do not inherit.
const NOT_COPIED: &[&str] = &[
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    "deployment.kubernetes.io/revision-history",
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    "deprecated.deployment.rollback.to",
];

/// The revision; 0 when it is missing.
pub(super) fn revision(metadata: &ObjectMeta) -> i64 {
    meta::annotation(metadata, REVISION).parse().unwrap_or(0)
}

/// [`DESIRED_REPLICAS`] as a number.
pub(super) fn desired_replicas(set: &ReplicaSet) -> Option<i32> {
    let text = meta::annotation(&set.metadata, DESIRED_REPLICAS);
    text.parse().ok()
}

/// [`MAX_REPLICAS`] as a number.
pub(super) fn max_replicas(set: &ReplicaSet) -> Option<i32> {
    let text = meta::annotation(&set.metadata, MAX_REPLICAS);
    text.parse().ok()
}

/// Records the present size of the Deployment.
pub(super) fn set_sizes(set: &mut ReplicaSet, rollout: &Rollout<'_>) {
    let annotations = set.metadata.annotations.get_or_insert_default();
    let sizes = [
        (DESIRED_REPLICAS, rollout.replicas),
        (MAX_REPLICAS, rollout.most()),
    ];
    for (name, size) in sizes {
        annotations.insert(name.to_owned(), size.to_string());
    }
}

/// Sets the revision, the annotations and `minReadySeconds` of the newest ReplicaSet.
pub(super) fn synchronize(rollout: &Rollout<'_>, sets: &mut Sets<'_>) {
    let next = next_revision(sets);
    let Some(newest) = &mut sets.newest else {
        return;
    };
    copy(rollout.deployment, &mut newest.after);
    if revision(&newest.after.metadata) < next {
        set_revision(&mut newest.after.metadata, next);
    }
    let seconds = rollout.deployment.spec.as_ref();
    let seconds = seconds.and_then(|it| it.min_ready_seconds);
    newest.after.spec.get_or_insert_default().min_ready_seconds = seconds;
}

/// Sets the annotations of a new ReplicaSet.
pub(super) fn first(rollout: &Rollout<'_>, set: &mut ReplicaSet, sets: &Sets<'_>) {
    copy(rollout.deployment, set);
    set_revision(&mut set.metadata, next_revision(sets));
    set_sizes(set, rollout);
}

/// Sets the revision of the Deployment to that of its newest ReplicaSet.
pub(super) fn write_revision(deployment: &Deployment, sets: &Sets<'_>, plan: &mut Plan) {
    let newest = sets.newest.as_ref().map(|it| &it.after);
    if let Some(newest) = newest.or(sets.created.as_ref()) {
        let mut after = deployment.clone();
        set_revision(&mut after.metadata, revision(&newest.metadata));
        plan.update(deployment, after);
    }
}

fn next_revision(sets: &Sets<'_>) -> i64 {
    let old = sets.old.iter().map(|it| revision(&it.after.metadata));
    old.max().unwrap_or(0) + 1
}

fn set_revision(metadata: &mut ObjectMeta, revision: i64) {
    let annotations = metadata.annotations.get_or_insert_default();
    annotations.insert(REVISION.to_owned(), revision.to_string());
}

fn copy(deployment: &Deployment, set: &mut ReplicaSet) {
    for (name, value) in deployment.metadata.annotations.iter().flatten() {
        if !NOT_COPIED.contains(&name.as_str()) {
            let annotations = set.metadata.annotations.get_or_insert_default();
            annotations.insert(name.clone(), value.clone());
        }
    }
}
