//! Nodes that do not answer: taints, pods that are no longer ready, and their eviction
//! (`pkg/controller/nodelifecycle/node_lifecycle_controller.go`, `pkg/controller/tainteviction/taint_eviction.go`).

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod, Taint};

use super::plan::Plan;
use super::{Cluster, fit, pods};

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// Taints for conditions that are True.
const PRESSURE: &[(&str, &str)] = &[
    ("MemoryPressure", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "node.kubernetes.io/pid-pressure"),
    (
        "NetworkUnavailable",
        "node.kubernetes.io/network-unavailable",
    ),
];

pub(super) fn reconcile(cluster: &Cluster, plan: &mut Plan) {
    for node in &cluster.nodes {
        taint(node, plan);
        let name = node.metadata.name.as_deref();
        let pods = cluster.pods.iter().filter(|it| pods::node(it) == name);
        for pod in pods {
            if is_lost(node) {
                make_unready(pod, plan);
            }
            evict(pod, node, plan);
        }
    }
}

/// The status of a condition; `None` when it is missing.
fn condition<'a>(node: &'a Node, type_: &str) -> Option<&'a str> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    let condition = conditions.iter().find(|it| it.type_ == type_)?;
    Some(condition.status.as_str())
}

/// The status of the condition Ready.
pub(super) fn readiness(node: &Node) -> Option<&str> {
    condition(node, "Ready")
}

fn is_lost(node: &Node) -> bool {
    matches!(condition(node, "Ready"), Some("False" | "Unknown"))
}

/// Sets the taints of a node from its conditions. A taint with effect NoExecute gets the time that tolerations count
/// from.
fn taint(node: &Node, plan: &mut Plan) {
    let mut after = node.clone();
    let spec = after.spec.get_or_insert_default();
    let is_cordoned = spec.unschedulable == Some(true);
    let ready = condition(node, "Ready");
    let mut taints = spec.taints.take().unwrap_or_default();
    // Keep the time when a node that is not ready becomes unreachable.
    let is_lost = |it: &&Taint| matches!(it.key.as_str(), NOT_READY | UNREACHABLE);
    let since = taints
        .iter()
        .find(|it| it.effect == "NoExecute" && is_lost(it));
    let since = since.and_then(|it| it.time_added.clone());
    let mut wanted = vec![
        (NOT_READY, ready == Some("False")),
        (UNREACHABLE, ready == Some("Unknown")),
        (fit::UNSCHEDULABLE, is_cordoned),
    ];
    for (type_, key) in PRESSURE {
        wanted.push((key, condition(node, type_) == Some("True")));
    }
    for (key, holds) in wanted {
        set(&mut taints, key, "NoSchedule", holds);
        if matches!(key, NOT_READY | UNREACHABLE) {
            set(&mut taints, key, "NoExecute", holds);
        }
    }
    for taint in taints.iter_mut().filter(|it| it.effect == "NoExecute") {
        if taint.time_added.is_none() {
            let since = since.clone().filter(|_| is_lost(&&*taint));
            taint.time_added = Some(since.unwrap_or(plan.time()));
        }
    }
    spec.taints = (!taints.is_empty()).then_some(taints);
    // An empty spec is left out.
    after.spec = after
        .spec
        .filter(|it| node.spec.is_some() || it.taints.is_some());
    plan.update(node, after);
}

fn set(taints: &mut Vec<Taint>, key: &str, effect: &str, holds: bool) {
    let is_it = |it: &Taint| it.key == key && it.effect == effect;
    match (holds, taints.iter().any(is_it)) {
        (true, false) => taints.push(Taint {
            effect: effect.to_owned(),
            key: key.to_owned(),
            ..Taint::default()
        }),
        (false, true) => taints.retain(|it| !is_it(it)),
        _ => {}
    }
}

/// Sets Ready to False: the state of the pod is unknown, so Services must not use it (`MarkPodsNotReady`).
fn make_unready(pod: &Pod, plan: &mut Plan) {
    if !pods::is_ready(pod) {
        return;
    }
    let mut after = pod.clone();
    pods::set_condition(&mut after, pods::new_condition("Ready", "False", plan));
    plan.update_status(pod, after);
    plan.warning(pod, "NodeNotReady", "Node is not ready".to_owned());
}

/// Deletes a pod that does not tolerate a taint of its node, or no longer does.
fn evict(pod: &Pod, node: &Node, plan: &mut Plan) {
    if pods::is_terminating(pod) || pods::is_finished(pod) {
        return;
    }
    let mut evicting: Vec<&Taint> = fit::taints(node, "NoExecute").collect();
    evicting.retain(|taint| is_evicted(pod, taint, plan));
    if !evicting.is_empty() && plan.delete(pod) {
        let message = format!(
            "Marking for deletion Pod {}",
            crate::meta::key(&pod.metadata)
        );
        plan.event(pod, "TaintManagerEviction", message);
    }
}

/// Whether a taint is not tolerated, or the shortest toleration of it has ended.
fn is_evicted(pod: &Pod, taint: &Taint, plan: &mut Plan) -> bool {
    let Some(spec) = &pod.spec else {
        return true;
    };
    let tolerations: Vec<_> = fit::tolerations_of(spec, taint).collect();
    let seconds = tolerations.iter().filter_map(|it| it.toleration_seconds);
    match (tolerations.is_empty(), seconds.min(), since(pod, taint)) {
        (true, _, _) => true,
        (false, None, _) => false,
        // This plan sets the time of the taint.
        (false, Some(_), None) => false,
        (false, Some(seconds), Some(since)) => plan.is_over(since, seconds.max(0)),
    }
}

/// The time that a toleration counts from: the later of the taint's and the pod's.
fn since(pod: &Pod, taint: &Taint) -> Option<Timestamp> {
    let added = taint.time_added.as_ref()?.0;
    let created = pod.metadata.creation_timestamp.as_ref().map(|it| it.0);
    Some(created.map_or(added, |it| it.max(added)))
}
