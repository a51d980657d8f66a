//! The status of a pod, as kubelet reports it.

use std::net::IpAddr;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{HostIP, Pod, PodCondition, PodIP, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::container::{Container, State};

/// The status of a pod with a machine. Conditions that kubelet does not own stay.
///
/// Phases and conditions are those of `pkg/kubelet/kubelet_pods.go`.
pub(super) fn status(
    pod: &Pod,
    containers: &[Container],
    addresses: Option<[IpAddr; 2]>,
    node: [IpAddr; 2],
    start: Timestamp,
) -> PodStatus {
    let old = pod.status.clone().unwrap_or_default();
    let terminated = |it: &Container| match &it.state {
        State::Terminated(ended) => Some(ended.exit_code),
        _ => None,
    };
    let codes: Vec<i32> = containers.iter().filter_map(terminated).collect();
    let all_ended = codes.len() == containers.len() && !containers.is_empty();
    let started = |it: &Container| it.is_running() || it.restarts > 0;
    let phase = if all_ended && codes.iter().all(|it| *it == 0) {
        "Succeeded"
    } else if all_ended {
        "Failed"
    } else if containers.iter().any(started) {
        "Running"
    } else {
        "Pending"
    };
    let waiting: Vec<&str> = containers
        .iter()
        .filter(|it| !it.is_ready())
        .map(|it| it.spec.name.as_str())
        .collect();
    let ready = match (waiting.is_empty(), all_ended && phase == "Succeeded") {
        (true, _) => Ok(()),
        (false, true) => Err(("PodCompleted", String::new())),
        (false, false) => Err((
            "ContainersNotReady",
            format!("containers with unready status: [{}]", waiting.join(" ")),
        )),
    };
    let mut conditions = old.conditions.unwrap_or_default();
    let yes = Ok(());
    for (kind, verdict) in [
        ("PodScheduled", &yes),
        ("PodReadyToStartContainers", &yes),
        ("Initialized", &yes),
        ("ContainersReady", &ready),
        ("Ready", &ready),
    ] {
        set(&mut conditions, kind, verdict);
    }
    PodStatus {
        phase: Some(phase.to_owned()),
        conditions: Some(conditions),
        host_ip: Some(node[0].to_string()),
        host_ips: Some(node.map(|ip| HostIP { ip: ip.to_string() }).to_vec()),
        pod_ip: addresses.map(|it| it[0].to_string()),
        pod_ips: addresses.map(|all| all.map(|ip| PodIP { ip: ip.to_string() }).to_vec()),
        start_time: old.start_time.or(Some(Time(start))),
        container_statuses: Some(containers.iter().map(Container::status).collect()),
        qos_class: old.qos_class.or_else(|| Some("BestEffort".to_owned())),
        ..PodStatus::default()
    }
}

type Verdict<'a> = Result<(), (&'a str, String)>;

fn set(conditions: &mut Vec<PodCondition>, kind: &str, verdict: &Verdict<'_>) {
    let status = if verdict.is_ok() { "True" } else { "False" };
    let position = conditions.iter().position(|it| it.type_ == kind);
    let position = position.unwrap_or_else(|| {
        conditions.push(PodCondition {
            type_: kind.to_owned(),
            ..PodCondition::default()
        });
        conditions.len() - 1
    });
    let condition = &mut conditions[position];
    if condition.status != status {
        condition.last_transition_time = Some(Time(Timestamp::now()));
    }
    condition.status = status.to_owned();
    let (reason, message) = match verdict {
        Ok(()) => (None, None),
        Err((reason, message)) => (
            Some((*reason).to_owned()),
            (!message.is_empty()).then(|| message.clone()),
        ),
    };
    condition.reason = reason;
    condition.message = message;
}
