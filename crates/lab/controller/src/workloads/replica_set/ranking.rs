//! The order in which surplus pods are deleted (`ActivePodsWithRanks`, `pkg/controller/controller_utils.go`).

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::super::pods;
use crate::meta;

/// The annotation with the deletion cost of a pod: the lowest is deleted first. 0 when it is missing (KEP-2255).
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Sorts pods, those to delete first at the front. Among otherwise equal pods, those on nodes with many `siblings` come
/// first, then younger ones. The uid, which is random, decides last; in Kubernetes also between pods that became ready
/// at about the same time.
pub(super) fn first_to_go(pods: &mut [&Pod], siblings: &[&Pod], now: Timestamp) {
    let mut crowds: BTreeMap<Option<&str>, usize> = BTreeMap::new();
    for pod in siblings {
        *crowds.entry(pods::node(pod)).or_default() += 1;
    }
    pods.sort_by_cached_key(|pod| {
        let progress = (
            pods::node(pod).is_some(),
            matches!(pods::phase(pod), "Unknown" | "Running"),
            pods::phase(pod) == "Running",
            pods::is_ready(pod),
        );
        let crowd = crowds.get(&pods::node(pod)).copied().unwrap_or(0);
        let age = (
            magnitude(ready_since(pod), now),
            Reverse(restarts(pod)),
            magnitude(created(pod), now),
        );
        let cost = deletion_cost(pod);
        (
            progress,
            cost,
            Reverse(crowd),
            age,
            pod.metadata.uid.clone(),
        )
    });
}

fn deletion_cost(pod: &Pod) -> i32 {
    let cost = meta::annotation(&pod.metadata, DELETION_COST);
    cost.parse().unwrap_or(0)
}

/// The logarithm of an age, so that a pod of 9 hours is not younger than one of 10 hours (KEP-2185). A missing time is
/// the youngest.
fn magnitude(since: Option<Timestamp>, now: Timestamp) -> Option<u32> {
    let age = now.duration_since(since?).as_nanos();
    u128::try_from(age).ok().and_then(u128::checked_ilog2)
}

fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let ready = pods::condition(pod, "Ready").filter(|it| it.status == "True")?;
    ready.last_transition_time.as_ref().map(|it| it.0)
}

fn created(pod: &Pod) -> Option<Timestamp> {
    pod.metadata.creation_timestamp.as_ref().map(|it| it.0)
}

/// Restarts of the container that restarted most.
fn restarts(pod: &Pod) -> i32 {
    let status = pod.status.as_ref();
    let containers = status.and_then(|it| it.container_statuses.as_ref());
    let restarts = containers.into_iter().flatten().map(|it| it.restart_count);
    restarts.max().unwrap_or(0)
}
