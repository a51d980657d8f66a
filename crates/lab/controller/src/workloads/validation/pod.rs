//! Specs of pods (`pkg/apis/core/validation/validation.go`).

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, ContainerPort, PodSpec, Probe, Toleration};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::dns;
use crate::Format;
use crate::field::Problems;

pub(super) fn spec(path: &str, spec: &PodSpec, problems: &mut Problems) {
    let mut names = BTreeSet::new();
    let lists = [
        ("initContainers", spec.init_containers.as_deref()),
        ("containers", Some(spec.containers.as_slice())),
    ];
    for (list, containers) in lists {
        for (at, container) in containers.into_iter().flatten().enumerate() {
            let path = format!("{path}.{list}[{at}]");
            name(&path, &container.name, &mut names, problems);
            check_container(&path, container, problems);
        }
    }
    dns::check(path, spec, problems);
}

fn name<'a>(path: &str, name: &'a str, names: &mut BTreeSet<&'a str>, problems: &mut Problems) {
    if !name.is_empty() && !names.insert(name) {
        problems.duplicate(format!("{path}.name"), name);
    }
}

fn check_container(path: &str, container: &Container, problems: &mut Problems) {
    if container.image.as_deref().unwrap_or_default().is_empty() {
        problems.required(format!("{path}.image"), "");
    }
    let mut names = BTreeSet::new();
    for (at, port) in container.ports.iter().flatten().enumerate() {
        check_port(&format!("{path}.ports[{at}]"), port, &mut names, problems);
    }
    let probes = [
        ("livenessProbe", &container.liveness_probe),
        ("readinessProbe", &container.readiness_probe),
        ("startupProbe", &container.startup_probe),
    ];
    for (name, probe) in probes {
        if let Some(probe) = probe {
            let path = format!("{path}.{name}");
            check_probe(&path, probe, problems);
            let successes = probe.success_threshold.filter(|it| *it != 1);
            if let Some(it) = successes.filter(|_| name != "readinessProbe") {
                problems.invalid(format!("{path}.successThreshold"), it, "must be 1");
            }
        }
    }
}

fn check_port<'a>(
    path: &str,
    port: &'a ContainerPort,
    names: &mut BTreeSet<&'a str>,
    problems: &mut Problems,
) {
    if let Some(name) = port.name.as_deref().filter(|it| !it.is_empty()) {
        let field = format!("{path}.name");
        if !names.insert(name) {
            problems.duplicate(field, name);
        } else {
            problems.format(field, name, Format::PortName);
        }
    }
    if port.container_port == 0 {
        problems.required(format!("{path}.containerPort"), "");
    }
}

fn check_probe(path: &str, probe: &Probe, problems: &mut Problems) {
    let handlers = [
        probe.exec.is_some(),
        probe.http_get.is_some(),
        probe.tcp_socket.is_some(),
        probe.grpc.is_some(),
    ];
    match handlers.iter().filter(|it| **it).count() {
        0 => problems.required(path, "must specify a handler type"),
        1 => {}
        _ => problems.forbidden(path, "may not specify more than 1 handler type"),
    }
    let http = probe.http_get.as_ref().map(|it| ("httpGet", &it.port));
    let tcp = probe.tcp_socket.as_ref().map(|it| ("tcpSocket", &it.port));
    for (handler, port) in http.into_iter().chain(tcp) {
        check_target(&format!("{path}.{handler}.port"), port, problems);
    }
    let command = probe.exec.as_ref().map(|it| it.command.as_ref());
    if command.is_some_and(|it| it.is_none_or(Vec::is_empty)) {
        problems.required(format!("{path}.exec.command"), "");
    }
}

/// The port of a probe may be a name.
fn check_target(field: &str, port: &IntOrString, problems: &mut Problems) {
    match port {
        IntOrString::Int(it) => problems.port(field, *it),
        IntOrString::String(it) => problems.format(field, it, Format::PortName),
    }
}

/// Checks what may change of a Pod's spec: images, a shorter deadline, tolerations that are added, scheduling gates that go,
/// and the first node (`ValidatePodUpdate`).
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
    if gates(new).iter().all(|it| kept.contains(it)) {
        expected.scheduling_gates.clone_from(&old.scheduling_gates);
    }
    let grace = (
        old.termination_grace_period_seconds,
        new.termination_grace_period_seconds,
    );
    if grace.0.is_some_and(|it| it < 0) && grace.1 == Some(1) {
        expected.termination_grace_period_seconds = grace.0;
    }
    if old.node_name.is_none() {
        expected.node_name = None;
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
