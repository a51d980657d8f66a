//! The status of a StatefulSet (`computeReplicaStatus`, `completeRollingUpdate`).

use k8s_openapi::api::apps::v1::StatefulSetStatus;
use k8s_openapi::api::core::v1::Pod;

use super::super::counts::{count, non_zero};
use super::super::plan::Plan;
use super::super::{pods, revisions};
use super::{Set, identity, is_running_and_ready};

/// Writes the status if it changed.
pub(super) fn write(set: &Set<'_>, plan: &mut Plan) {
    let all: Vec<&Pod> = set.pods.values().chain(&set.condemned).copied().collect();
    let ready: Vec<_> = all.iter().filter(|it| is_running_and_ready(it)).collect();
    let available = ready
        .iter()
        .filter(|it| pods::is_available(it, set.spec.min_ready_seconds, plan));
    let of = |revision: &str| {
        let mut pods = all.clone();
        pods.retain(|it| !pods::is_terminating(it) && identity::revision(it) == revision);
        count(pods)
    };
    let update = revisions::name(&set.update);
    let old = set.object.status.clone().unwrap_or_default();
    let mut status = StatefulSetStatus {
        available_replicas: Some(count(available)),
        collision_count: Some(old.collision_count.unwrap_or(0)),
        conditions: old.conditions,
        current_replicas: non_zero(of(revisions::name(&set.current))),
        current_revision: Some(revisions::name(&set.current).to_owned()),
        observed_generation: set.object.metadata.generation,
        ready_replicas: non_zero(count(&ready)),
        replicas: count(&all),
        update_revision: Some(update.to_owned()),
        updated_replicas: non_zero(of(update)),
    };
    let counts = [of(update), count(&ready), status.replicas];
    if !set.is_on_delete() && counts.iter().all(|it| *it == set.replicas()) {
        status.current_revision.clone_from(&status.update_revision);
        status.current_replicas = status.updated_replicas;
    }
    let mut after = set.object.clone();
    after.status = Some(status);
    plan.update_status(set.object, after);
}
