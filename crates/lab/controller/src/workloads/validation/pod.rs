//! Updates of pods (`pkg/apis/core/validation/validation.go`).

use k8s_openapi::api::core::v1::{PodSpec, Toleration};

use crate::field::Problems;

/// Checks what may change of a Pod's spec: images, a shorter deadline, tolerations that are added, and scheduling gates
/// that go (`ValidatePodUpdate`). Its node comes by a binding.
pub(super) fn unchanged(old: &PodSpec, new: &PodSpec, problems: &mut Problems) {
    let init = |it: &PodSpec| it.init_containers.as_ref().map_or(0, Vec::len);
    for (field, differs) in [
        ("containers", old.containers.len() != new.containers.len()),
        ("initContainers", init(old) != init(new)),
    ] {
        if differs {
            let why = "pod updates may not add or remove containers";
            problems.forbidden(format!("spec.{field}"), why);
            return;
        }
    }
    deadline(
        old.active_deadline_seconds,
        new.active_deadline_seconds,
        problems,
    );
    tolerations(old, new, problems);
    let mut expected = new.clone();
    expected.active_deadline_seconds = old.active_deadline_seconds;
    expected.tolerations.clone_from(&old.tolerations);
    let gates = |it: &PodSpec| it.scheduling_gates.clone().unwrap_or_default();
    let kept = gates(old);
    for (index, gate) in gates(new).iter().enumerate() {
        if !kept.contains(gate) {
            let name = &gate.name;
            let why = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            problems.forbidden(format!("spec.schedulingGates[{index}].name"), &why);
        }
    }
    expected.scheduling_gates.clone_from(&old.scheduling_gates);
    if !kept.is_empty() {
        // No scheduler has looked at the pod yet, so where it may run can still be narrowed.
        let selector = new.node_selector.clone().unwrap_or_default();
        let mut before = old.node_selector.iter().flatten();
        if before.all(|(key, value)| selector.get(key) == Some(value)) {
            expected.node_selector.clone_from(&old.node_selector);
        }
        if old.affinity.is_none() {
            expected.affinity = None;
        }
    }
    let grace = (
        old.termination_grace_period_seconds,
        new.termination_grace_period_seconds,
    );
    if grace.0.is_some_and(|it| it < 0) && grace.1 == Some(1) {
        expected.termination_grace_period_seconds = grace.0;
    }
    let pairs = expected.containers.iter_mut().zip(&old.containers);
    let init = expected.init_containers.iter_mut().flatten();
    let init = init.zip(old.init_containers.iter().flatten());
    for (container, old) in pairs.chain(init) {
        container.image.clone_from(&old.image);
    }
    if expected != *old {
        problems.forbidden(
            "spec",
            "pod updates may not change fields other than `spec.containers[*].image`,\
             `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to \
             existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was \
             previously negative)",
        );
    }
}

fn deadline(old: Option<i64>, new: Option<i64>, problems: &mut Problems) {
    const PATH: &str = "spec.activeDeadlineSeconds";
    match (old, new) {
        (Some(_), None) => {
            let why = "must not update from a positive integer to nil value";
            problems.invalid(PATH, "null", why);
        }
        (Some(old), Some(new)) if new > old => {
            problems.invalid(PATH, new, "must be less than or equal to previous value");
        }
        _ => {}
    }
}

/// A toleration stays, but for its seconds.
fn tolerations(old: &PodSpec, new: &PodSpec, problems: &mut Problems) {
    let new = new.tolerations.as_deref().unwrap_or_default();
    let is_kept = |old: &Toleration| {
        new.iter().any(|it| {
            let seconds = old.toleration_seconds;
            *old == Toleration {
                toleration_seconds: seconds,
                ..it.clone()
            }
        })
    };
    if !old.tolerations.iter().flatten().all(is_kept) {
        let why = "existing toleration can not be modified except its tolerationSeconds";
        problems.forbidden("spec.tolerations", why);
    }
}
