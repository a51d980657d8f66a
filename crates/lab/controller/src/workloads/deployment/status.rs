//! The status of a Deployment (`pkg/controller/deployment/progress.go`, `calculateStatus` in `sync.go`).

use k8s_openapi::api::apps::v1::{DeploymentCondition, DeploymentStatus};

use super::super::counts::non_zero;
use super::super::plan::Plan;
use super::Rollout;
use super::sets::{Replicas, Sets};

const PROGRESSING: &str = "Progressing";
const AVAILABLE: &str = "Available";
const FAILURE: &str = "ReplicaFailure";

/// Whether the progress deadline applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// The condition Progressing is computed.
    Judged,
    /// The Deployment is paused, scaled or deleted: the deadline does not run.
    Ignored,
}

/// Whether all pods are new and available (`DeploymentComplete`).
pub(super) fn is_complete(rollout: &Rollout<'_>, sets: &Sets<'_>) -> bool {
    let newest = sets.newest.as_ref();
    let counts = [
        newest.map_or(0, Replicas::active),
        sets.total(Replicas::active),
        sets.total(Replicas::available),
    ];
    counts.iter().all(|it| *it == rollout.replicas)
}

/// Writes the status if it changed.
pub(super) fn write(rollout: &Rollout<'_>, sets: &Sets<'_>, progress: Progress, plan: &mut Plan) {
    let deployment = rollout.deployment;
    let old = deployment.status.clone().unwrap_or_default();
    let mut status = counts(rollout, sets, &old);
    let has_minimum =
        sets.total(Replicas::available) >= rollout.replicas - rollout.max_unavailable();
    let available = if has_minimum {
        (
            "True",
            "MinimumReplicasAvailable",
            "Deployment has minimum availability.",
        )
    } else {
        (
            "False",
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
        )
    };
    set(&mut status, AVAILABLE, available, plan);
    copy_failure(sets, &mut status, plan);
    if rollout.progress_deadline().is_some() {
        note_pause(rollout, &mut status, plan);
    }
    if progress == Progress::Judged {
        judge(rollout, sets, &old, &mut status, plan);
    }
    let mut after = deployment.clone();
    after.status = Some(status);
    plan.update_status(deployment, after);
}

fn counts(rollout: &Rollout<'_>, sets: &Sets<'_>, old: &DeploymentStatus) -> DeploymentStatus {
    let available = sets.total(Replicas::available);
    let created = sets
        .created
        .as_ref()
        .and_then(|it| it.spec.as_ref()?.replicas);
    let wanted = sets.total(Replicas::wanted) + created.unwrap_or(0);
    let newest = sets.newest.as_ref().map_or(0, Replicas::active);
    DeploymentStatus {
        available_replicas: non_zero(available),
        collision_count: if sets.collides {
            Some(old.collision_count.unwrap_or(0) + 1)
        } else {
            old.collision_count
        },
        conditions: old.conditions.clone(),
        observed_generation: rollout.deployment.metadata.generation,
        ready_replicas: non_zero(sets.total(Replicas::ready)),
        replicas: non_zero(sets.total(Replicas::active)),
        terminating_replicas: Some(sets.total(Replicas::terminating)),
        unavailable_replicas: non_zero((wanted - available).max(0)),
        updated_replicas: non_zero(newest),
    }
}

/// Takes over what a ReplicaSet says of pods that the API refuses (`getReplicaFailures`).
fn copy_failure(sets: &Sets<'_>, status: &mut DeploymentStatus, plan: &Plan) {
    let mut newest_first = sets.newest.iter().chain(&sets.old);
    let failure = newest_first.find_map(|it| {
        let conditions = it.after.status.as_ref()?.conditions.as_ref()?;
        conditions.iter().find(|it| it.type_ == FAILURE)
    });
    match failure {
        Some(it) => {
            let text = |it: &Option<String>| it.clone().unwrap_or_default();
            let (reason, message) = (text(&it.reason), text(&it.message));
            set(status, FAILURE, (&it.status, &reason, &message), plan);
        }
        None => {
            let conditions = status.conditions.iter_mut();
            conditions.for_each(|it| it.retain(|it| it.type_ != FAILURE));
        }
    }
}

/// Records a pause or its end in the condition Progressing, which restarts the deadline (`checkPausedConditions`).
fn note_pause(rollout: &Rollout<'_>, status: &mut DeploymentStatus, plan: &Plan) {
    let reason = reason(status);
    if reason == Some("ProgressDeadlineExceeded") {
        return;
    }
    let spec = rollout.deployment.spec.as_ref();
    let is_paused = spec.is_some_and(|it| it.paused == Some(true));
    let was_paused = reason == Some("DeploymentPaused");
    let condition = match (is_paused, was_paused) {
        (true, false) => ("Unknown", "DeploymentPaused", "Deployment is paused"),
        (false, true) => ("Unknown", "DeploymentResumed", "Deployment is resumed"),
        _ => return,
    };
    set(status, PROGRESSING, condition, plan);
}

fn judge(
    rollout: &Rollout<'_>,
    sets: &Sets<'_>,
    old: &DeploymentStatus,
    status: &mut DeploymentStatus,
    plan: &mut Plan,
) {
    let Some(deadline) = rollout.progress_deadline() else {
        let conditions = status.conditions.iter_mut();
        conditions.for_each(|it| it.retain(|it| it.type_ != PROGRESSING));
        return;
    };
    let newest = sets.newest.as_ref().map(Replicas::name);
    if let Some(created) = &sets.created {
        let name = crate::meta::name(&created.metadata);
        let message = format!("Created new replica set \"{name}\"");
        touch(status, ("True", "NewReplicaSetCreated", &message), plan);
        return;
    }
    let subject = match newest {
        Some(name) => format!("ReplicaSet \"{name}\""),
        None => {
            let name = rollout.deployment.metadata.name.as_deref();
            format!("Deployment \"{}\"", name.unwrap_or_default())
        }
    };
    let was_complete = reason(status) == Some("NewReplicaSetAvailable");
    if was_complete && status.replicas == status.updated_replicas {
        // A pod that fails after the rollout is no progress to wait for.
        return;
    }
    if is_complete(rollout, sets) {
        let message = format!("{subject} has successfully progressed.");
        set(
            status,
            PROGRESSING,
            ("True", "NewReplicaSetAvailable", &message),
            plan,
        );
    } else if is_progress(old, status) || reason(status).is_none() {
        let message = format!("{subject} is progressing.");
        touch(status, ("True", "ReplicaSetUpdated", &message), plan);
    } else if is_late(status, deadline, plan) {
        let message = format!("{subject} has timed out progressing.");
        set(
            status,
            PROGRESSING,
            ("False", "ProgressDeadlineExceeded", &message),
            plan,
        );
    }
}

/// Whether there are more new pods, fewer old ones, or more available ones (`DeploymentProgressing`).
fn is_progress(old: &DeploymentStatus, new: &DeploymentStatus) -> bool {
    let count = |it: Option<i32>| it.unwrap_or(0);
    let outdated = |it: &DeploymentStatus| count(it.replicas) - count(it.updated_replicas);
    count(new.updated_replicas) > count(old.updated_replicas)
        || outdated(new) < outdated(old)
        || count(new.ready_replicas) > count(old.ready_replicas)
        || count(new.available_replicas) > count(old.available_replicas)
}

/// Whether the last progress is older than the deadline (`DeploymentTimedOut`).
fn is_late(status: &DeploymentStatus, deadline: i32, plan: &mut Plan) -> bool {
    let Some(progressing) = condition(status, PROGRESSING) else {
        return false;
    };
    match progressing.reason.as_deref() {
        Some("NewReplicaSetAvailable") => false,
        Some("ProgressDeadlineExceeded") => true,
        _ => {
            let since = progressing.last_update_time.clone();
            since.is_some_and(|it| plan.is_over(it.0, i64::from(deadline)))
        }
    }
}

fn condition<'a>(status: &'a DeploymentStatus, type_: &str) -> Option<&'a DeploymentCondition> {
    let mut conditions = status.conditions.iter().flatten();
    conditions.find(|it| it.type_ == type_)
}

fn reason(status: &DeploymentStatus) -> Option<&str> {
    condition(status, PROGRESSING)?.reason.as_deref()
}

/// Sets the condition Progressing and the time of the last progress, even when the reason is the same.
fn touch(status: &mut DeploymentStatus, to: (&str, &str, &str), plan: &Plan) {
    let is_new = condition(status, PROGRESSING).is_none_or(|it| it.status != to.0);
    if is_new {
        return set(status, PROGRESSING, to, plan);
    }
    let mut conditions = status.conditions.iter_mut().flatten();
    if let Some(old) = conditions.find(|it| it.type_ == PROGRESSING) {
        old.reason = Some(to.1.to_owned());
        old.message = Some(to.2.to_owned());
        old.last_update_time = Some(plan.time());
    }
}

/// Sets a condition if its status or reason differs. The transition time changes with the status only
/// (`SetDeploymentCondition`).
fn set(status: &mut DeploymentStatus, type_: &str, to: (&str, &str, &str), plan: &Plan) {
    let (state, reason, message) = to;
    let old = condition(status, type_);
    if old.is_some_and(|it| it.status == state && it.reason.as_deref() == Some(reason)) {
        return;
    }
    let transition = old.filter(|it| it.status == state);
    let transition = transition.and_then(|it| it.last_transition_time.clone());
    let condition = DeploymentCondition {
        last_transition_time: Some(transition.unwrap_or(plan.time())),
        last_update_time: Some(plan.time()),
        message: Some(message.to_owned()),
        reason: Some(reason.to_owned()),
        status: state.to_owned(),
        type_: type_.to_owned(),
    };
    let conditions = status.conditions.get_or_insert_default();
    conditions.retain(|it| it.type_ != type_);
    conditions.push(condition);
}
