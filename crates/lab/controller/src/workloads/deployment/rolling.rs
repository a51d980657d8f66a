//! Replaces pods a few at a time (`pkg/controller/deployment/rolling.go`).

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};

use super::super::ownership;
use super::super::plan::Plan;
use super::super::template::{POD_TEMPLATE_HASH, hash};
use super::sets::{Replicas, Sets};
use super::status::Progress;
use super::{Rollout, annotations, announce};
use crate::meta;

/// Plans one step: scales the newest ReplicaSet up if there is room, else the old ones down if enough pods are
/// available.
pub(super) fn roll(rollout: &Rollout<'_>, sets: &mut Sets<'_>, plan: &mut Plan) -> Progress {
    if sets.newest.is_none() {
        create(rollout, sets, plan);
    } else if !resize_newest(rollout, sets, plan) {
        scale_down_old(rollout, sets, plan);
    }
    Progress::Judged
}

/// Creates the ReplicaSet of the present template (`getNewReplicaSet`, `sync.go`).
pub(super) fn create(rollout: &Rollout<'_>, sets: &mut Sets<'_>, plan: &mut Plan) {
    let set = newest(rollout, sets);
    let wanted = set.spec.as_ref().and_then(|it| it.replicas).unwrap_or(0);
    if sets.is_taken(&meta::key(&set.metadata)) {
        sets.collides = true;
        return;
    }
    plan.create(set.clone());
    if wanted > 0 {
        announce(rollout.deployment, &set, 0, wanted, plan);
    }
    sets.created = Some(set);
}

fn newest(rollout: &Rollout<'_>, sets: &Sets<'_>) -> ReplicaSet {
    let deployment = rollout.deployment;
    let spec = deployment.spec.clone().unwrap_or_default();
    let status = deployment.status.as_ref();
    let hash = hash(&spec.template, status.and_then(|it| it.collision_count));
    let mut template = spec.template;
    let metadata = template.metadata.get_or_insert_default();
    let labels = metadata.labels.get_or_insert_default();
    labels.insert(POD_TEMPLATE_HASH.to_owned(), hash.clone());
    let labels = labels.clone();
    let mut selector: LabelSelector = spec.selector;
    let pairs = selector.match_labels.get_or_insert_default();
    pairs.insert(POD_TEMPLATE_HASH.to_owned(), hash.clone());
    let name = meta::name(&deployment.metadata);
    let mut set = ReplicaSet {
        metadata: ObjectMeta {
            name: Some(format!("{name}-{hash}")),
            namespace: deployment.metadata.namespace.clone(),
            labels: Some(labels),
            owner_references: Some(vec![ownership::reference(deployment)]),
            ..ObjectMeta::default()
        },
        spec: Some(ReplicaSetSpec {
            min_ready_seconds: spec.min_ready_seconds,
            replicas: Some(rollout.replicas_of_newest(None, sets)),
            selector,
            template: Some(template),
        }),
        status: None,
    };
    annotations::first(rollout, &mut set, sets);
    set
}

/// Scales the newest ReplicaSet (`reconcileNewReplicaSet`). Returns whether its size changed.
pub(super) fn resize_newest(rollout: &Rollout<'_>, sets: &mut Sets<'_>, plan: &mut Plan) -> bool {
    let newest = sets.newest.as_ref();
    let wanted = rollout.replicas_of_newest(newest, sets);
    let newest = sets.newest.as_mut();
    newest.is_some_and(|it| it.wanted() != wanted && it.resize(rollout, wanted, plan))
}

/// Scales old ReplicaSets down as far as enough pods stay available (`reconcileOldReplicaSets`): at first the pods that are
/// not available anyway.
///
/// For example 10 replicas of which 2 may be unavailable, and 3 more may exist: with 8 old pods and 5 new ones that never
/// become available nothing is removed, because 8 must stay.
fn scale_down_old(rollout: &Rollout<'_>, sets: &mut Sets<'_>, plan: &mut Plan) {
    let least = rollout.replicas - rollout.max_unavailable();
    let unavailable = |it: &Replicas<'_>| it.wanted() - it.staying();
    let new_unavailable = sets.newest.as_ref().map_or(0, unavailable);
    let mut surplus = sets.total(Replicas::wanted) - least - new_unavailable;
    for set in &mut sets.old {
        surplus -= shrink(rollout, set, surplus.min(unavailable(set)), plan);
    }
    let mut surplus = sets.total(Replicas::staying) - least;
    for set in &mut sets.old {
        surplus -= shrink(rollout, set, surplus.min(set.wanted()), plan);
    }
}

/// Scales a ReplicaSet down by `by`. Returns by how much it was.
fn shrink(rollout: &Rollout<'_>, set: &mut Replicas<'_>, by: i32, plan: &mut Plan) -> i32 {
    if by > 0 {
        set.resize(rollout, set.wanted() - by, plan);
    }
    by.max(0)
}
