//! Replaces pods of old revisions, the highest ordinal first (`updateStatefulSetAfterInvariantEstablished`).

use super::super::counts::{Rounding, count, scaled};
use super::super::plan::Plan;
use super::super::{pods, revisions};
use super::{Set, delete, identity};

/// Deletes old pods while at most `maxUnavailable` pods are unavailable. Ordinals below the partition stay.
pub(super) fn update(set: &Set<'_>, plan: &mut Plan) {
    let missing = set.replicas() - count(&set.pods);
    let unavailable = set.pods.values().filter(|it| !set.is_available(it, plan));
    let unavailable = missing + count(unavailable);
    let most = max_unavailable(set);
    let lowest = set.ordinals().start + set.partition();
    let outdated = set.pods.range(lowest..).rev().filter(|(_, pod)| {
        identity::revision(pod) != revisions::name(&set.update) && !pods::is_terminating(pod)
    });
    let room = usize::try_from(most - unavailable).unwrap_or(0);
    for (_, pod) in outdated.take(room) {
        delete(set, pod, plan);
    }
}

/// `maxUnavailable` rounded down, at least 1, and 1 by default (KEP-961).
fn max_unavailable(set: &Set<'_>) -> i32 {
    let strategy = set.spec.update_strategy.as_ref();
    let rolling = strategy.and_then(|it| it.rolling_update.as_ref());
    let value = rolling.and_then(|it| it.max_unavailable.as_ref());
    let value = value.map(|it| scaled(it, set.replicas(), Rounding::Down));
    value.unwrap_or(1).max(1)
}
