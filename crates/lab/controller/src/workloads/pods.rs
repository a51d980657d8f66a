//! States of pods, and pods made from templates.

use k8s_openapi::api::core::v1::{Pod, PodCondition, PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::plan::{Object, Plan};
use super::{Cluster, ownership};
use crate::meta;

/// Longest prefix of a generated name (`k8s.io/apiserver/pkg/storage/names`).
const LONGEST_PREFIX: usize = 58;

/// `status.phase`; Pending when it is missing.
pub(super) fn phase(pod: &Pod) -> &str {
    let phase = pod.status.as_ref().and_then(|it| it.phase.as_deref());
    phase.filter(|it| !it.is_empty()).unwrap_or("Pending")
}

/// Whether the phase is Succeeded or Failed.
pub(super) fn is_finished(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Whether the pod is deleted, but its containers may still run.
pub(crate) fn is_terminating(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

/// Whether the pod counts as a replica (`IsPodActive`, `pkg/controller/controller_utils.go`).
pub(super) fn is_active(pod: &Pod) -> bool {
    !is_finished(pod) && !is_terminating(pod)
}

/// The condition of this type.
pub(super) fn condition<'a>(pod: &'a Pod, type_: &str) -> Option<&'a PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|it| it.type_ == type_)
}

/// Whether the condition Ready is True.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready").is_some_and(|it| it.status == "True")
}

/// Whether the pod has been ready for `min_ready_seconds`. If not yet, the plan wakes then (`IsPodAvailable`,
/// `pkg/api/v1/pod/util.go`).
pub(super) fn is_available(pod: &Pod, min_ready_seconds: Option<i32>, plan: &mut Plan) -> bool {
    let Some(ready) = condition(pod, "Ready").filter(|it| it.status == "True") else {
        return false;
    };
    match (min_ready_seconds.unwrap_or(0), &ready.last_transition_time) {
        (0, _) => true,
        (seconds, Some(since)) => plan.is_over(since.0, i64::from(seconds)),
        (_, None) => false,
    }
}

/// The node of the pod; `None` when it is not scheduled.
pub(super) fn node(pod: &Pod) -> Option<&str> {
    let name = pod.spec.as_ref()?.node_name.as_deref();
    name.filter(|it| !it.is_empty())
}

/// A condition whose transition is now.
pub(super) fn new_condition(type_: &str, status: &str, plan: &Plan) -> PodCondition {
    PodCondition {
        last_transition_time: Some(plan.time()),
        status: status.to_owned(),
        type_: type_.to_owned(),
        ..PodCondition::default()
    }
}

/// Replaces the condition of the same type. The transition time changes with the status only. Returns whether anything
/// but times changed.
pub(super) fn set_condition(pod: &mut Pod, mut condition: PodCondition) -> bool {
    let conditions = pod
        .status
        .get_or_insert_default()
        .conditions
        .get_or_insert_default();
    let Some(old) = conditions.iter_mut().find(|it| it.type_ == condition.type_) else {
        conditions.push(condition);
        return true;
    };
    if old.status == condition.status {
        condition.last_transition_time = old.last_transition_time.clone();
        condition.last_probe_time = old.last_probe_time.clone();
    }
    let has_changed = *old != condition;
    *old = condition;
    has_changed
}

/// A pod of `owner` without a name.
pub(super) fn from_template<T: Object>(template: &PodTemplateSpec, owner: &T) -> Pod {
    let metadata = template.metadata.clone().unwrap_or_default();
    Pod {
        metadata: ObjectMeta {
            namespace: owner.metadata().namespace.clone(),
            labels: metadata.labels,
            annotations: metadata.annotations,
            finalizers: metadata.finalizers,
            owner_references: Some(vec![ownership::reference(owner)]),
            ..ObjectMeta::default()
        },
        spec: Some(template.spec.clone().unwrap_or_default()),
        status: None,
    }
}

/// Names a pod after its owner, with five characters. They depend on the time, so that the replacement of a deleted pod
/// has another name. `index` tells the pods of one plan apart.
pub(super) fn name<T: Object>(
    pod: &mut Pod,
    owner: &T,
    index: usize,
    cluster: &Cluster,
    plan: &Plan,
) {
    let name = meta::name(owner.metadata());
    let uid = owner.metadata().uid.as_deref().unwrap_or_default();
    let prefix: String = format!("{name}-").chars().take(LONGEST_PREFIX).collect();
    let seed = format!("{uid}/{}/{index}", plan.now().as_nanosecond());
    let is_taken = |name: &str| {
        let mut pods = cluster.pods.iter().map(|it| &it.metadata);
        pods.any(|it| {
            it.name.as_deref() == Some(name) && it.namespace == owner.metadata().namespace
        })
    };
    let name = meta::generated_name(&prefix, &seed, is_taken);
    pod.metadata.generate_name = Some(prefix);
    pod.metadata.name = Some(name);
}

/// Creates a pod of `owner`, with an Event, unless one was refused just now.
pub(super) fn create<T: Object>(owner: &T, pod: Pod, plan: &mut Plan) {
    if !plan.may_create(owner) {
        return;
    }
    let message = format!("Created pod: {}", meta::name(&pod.metadata));
    plan.create(pod);
    plan.event(owner, "SuccessfulCreate", message);
}

/// Deletes a pod of `owner`, with an Event.
pub(super) fn delete<T: Object>(owner: &T, pod: &Pod, plan: &mut Plan) {
    if plan.delete(pod) {
        let message = format!("Deleted pod: {}", meta::name(&pod.metadata));
        plan.event(owner, "SuccessfulDelete", message);
    }
}

/// The spec of a pod, made if it is missing.
pub(super) fn spec_mut(pod: &mut Pod) -> &mut PodSpec {
    pod.spec.get_or_insert_default()
}
