//! A Deployment whose size changed: in the middle of a rollout all its ReplicaSets are scaled in proportion (`scale`,
//! `pkg/controller/deployment/sync.go`).

use std::cmp::Reverse;

use super::super::plan::Plan;
use super::sets::{Replicas, Sets};
use super::{Rollout, Strategy, annotations};

/// Whether a ReplicaSet with pods was last scaled for another size of the Deployment (`isScalingEvent`). Never with
/// `Recreate`.
pub(super) fn is_needed(rollout: &Rollout<'_>, sets: &Sets<'_>) -> bool {
    let is_rolling = matches!(rollout.strategy, Strategy::Rolling { .. });
    let mut active = sets.all().filter(|it| it.wanted() > 0);
    is_rolling
        && active.any(|it| {
            let desired = annotations::desired_replicas(&it.after);
            desired.is_some_and(|it| it != rollout.replicas)
        })
}

/// Scales the ReplicaSets to the size of the Deployment, without a step of the rollout.
pub(super) fn scale(rollout: &Rollout<'_>, sets: &mut Sets<'_>, plan: &mut Plan) {
    let is_saturated = is_saturated(rollout, sets);
    if let Some(only) = active_or_latest(sets) {
        only.resize(rollout, rollout.replicas, plan);
    } else if is_saturated {
        for set in &mut sets.old {
            if set.wanted() > 0 {
                set.resize(rollout, 0, plan);
            }
        }
    } else if matches!(rollout.strategy, Strategy::Rolling { .. }) {
        in_proportion(rollout, sets, plan);
    }
}

/// The only ReplicaSet with pods, or the newest when none has pods (`FindActiveOrLatest`).
fn active_or_latest<'s, 'a>(sets: &'s mut Sets<'a>) -> Option<&'s mut Replicas<'a>> {
    let active = sets.all().filter(|it| it.wanted() > 0).count();
    match active {
        0 => sets.all_mut().last(),
        1 => sets.all_mut().find(|it| it.wanted() > 0),
        _ => None,
    }
}

/// Whether the newest ReplicaSet has all replicas, and all are available (`IsSaturated`).
fn is_saturated(rollout: &Rollout<'_>, sets: &Sets<'_>) -> bool {
    sets.newest.as_ref().is_some_and(|it| {
        let desired = annotations::desired_replicas(&it.after);
        let counts = [Some(it.wanted()), desired, Some(it.available())];
        counts.iter().all(|it| *it == Some(rollout.replicas))
    })
}

/// Each ReplicaSet keeps its proportion of the existing pods; the largest takes the rest of the rounding.
fn in_proportion(rollout: &Rollout<'_>, sets: &mut Sets<'_>, plan: &mut Plan) {
    let allowed = if rollout.replicas > 0 {
        rollout.most()
    } else {
        0
    };
    let status = rollout.deployment.status.as_ref();
    let before = status.and_then(|it| it.replicas).unwrap_or(0);
    let change = allowed - sets.total(Replicas::wanted);
    // Sorted from old to new; of two with the same size, the newer one grows and the older one shrinks.
    let mut active: Vec<_> = sets.all_mut().filter(|it| it.wanted() > 0).collect();
    if change > 0 {
        active.reverse();
    }
    active.sort_by_key(|it| Reverse(it.wanted()));
    let mut left = change;
    let mut sizes = Vec::new();
    for set in &active {
        let part = match change {
            0 => 0,
            1.. => fraction(rollout, set, before).min(left),
            _ => fraction(rollout, set, before).max(left),
        };
        left -= part;
        sizes.push(set.wanted() + part);
    }
    if let Some(largest) = sizes.first_mut() {
        *largest = (*largest + left).max(0);
    }
    for (set, size) in active.into_iter().zip(sizes) {
        set.resize(rollout, size, plan);
    }
}

/// How many replicas a ReplicaSet gains to keep its proportion, rounded to the nearest (`getReplicaSetFraction`,
/// `util/deployment_util.go`). `status` is the number of pods in the Deployment's status.
fn fraction(rollout: &Rollout<'_>, set: &Replicas<'_>, status: i32) -> i32 {
    if rollout.replicas == 0 {
        return -set.wanted();
    }
    let before = annotations::max_replicas(&set.after).filter(|it| *it != 0);
    let before = i64::from(before.unwrap_or(status));
    if before <= 0 {
        return 0;
    }
    let product = i64::from(set.wanted()) * i64::from(rollout.most());
    let size = (2 * product + before) / (2 * before);
    i32::try_from(size).unwrap_or(i32::MAX) - set.wanted()
}
