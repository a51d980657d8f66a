//! The status of a DaemonSet (`updateDaemonSetStatus`).

use k8s_openapi::api::apps::v1::DaemonSetStatus;
use k8s_openapi::api::core::v1::Pod;

use super::super::counts::{count, non_zero};
use super::super::plan::Plan;
use super::super::pods;
use super::nodes::Verdict;
use super::{NodePods, Set};

/// Writes the status if it changed.
pub(super) fn write(set: &Set<'_>, plan: &mut Plan) {
    let is_scheduled = |it: &&NodePods<'_>| !it.pods.is_empty();
    let (wanted, other): (Vec<&NodePods<'_>>, Vec<_>) =
        set.nodes.iter().partition(|it| it.verdict == Verdict::Runs);
    let scheduled: Vec<_> = wanted.iter().copied().filter(is_scheduled).collect();
    let oldest: Vec<&Pod> = scheduled.iter().map(|it| it.pods[0]).collect();
    let available = count(oldest.iter().filter(|it| set.is_available(it, plan)));
    let old = set.object.status.clone().unwrap_or_default();
    let status = DaemonSetStatus {
        collision_count: old.collision_count,
        conditions: old.conditions,
        current_number_scheduled: count(&scheduled),
        desired_number_scheduled: count(&wanted),
        number_available: non_zero(available),
        number_misscheduled: count(other.into_iter().filter(is_scheduled)),
        number_ready: count(oldest.iter().filter(|it| pods::is_ready(it))),
        number_unavailable: non_zero(count(&wanted) - available),
        observed_generation: set.object.metadata.generation,
        updated_number_scheduled: non_zero(count(oldest.iter().filter(|it| set.is_updated(it)))),
    };
    let mut after = set.object.clone();
    after.status = Some(status);
    plan.update_status(set.object, after);
}
