//! The status of a pod, as kubelet reports it.

use std::net::IpAddr;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, HostIP, Pod, PodCondition, PodIP, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::container::{Container, Role, State};

/// The conditions that kubelet owns (`pkg/kubelet/types/pod_status.go`, `PodConditionByKubelet`). Those of others stay.
pub(crate) const CONDITIONS: [&str; 5] = [
    "PodScheduled",
    "PodReadyToStartContainers",
    "Initialized",
    "ContainersReady",
    "Ready",
];

/// The status of a pod with a machine, with the conditions that kubelet owns. `reported` is what was last written of it: an
/// object that is read later may be older.
///
/// Phases and conditions are those of `pkg/kubelet/kubelet_pods.go`.
pub(super) fn status(
    pod: &Pod,
    reported: Option<&PodStatus>,
    containers: &[Container],
    addresses: Option<[IpAddr; 2]>,
    node: [IpAddr; 2],
    start: Timestamp,
) -> PodStatus {
    let old = reported.or(pod.status.as_ref());
    let old = old.cloned().unwrap_or_default();
    let terminated = |it: &Container| match &it.state {
        State::Terminated(ended) => Some(ended.exit_code),
        _ => None,
    };
    let apps = || containers.iter().filter(|it| it.role == Role::App);
    let codes: Vec<i32> = apps().filter_map(terminated).collect();
    let all_ended = codes.len() == apps().count() && !codes.is_empty();
    let started = |it: &Container| it.is_up() || it.restarts > 0;
    let is_init = |it: &&Container| matches!(it.role, Role::Init | Role::Sidecar);
    let init: Vec<&Container> = containers.iter().filter(is_init).collect();
    let ephemeral = containers.iter().filter(|it| it.role == Role::Ephemeral);
    // Nobody waits for them to be ready.
    let ephemeral = ephemeral.map(|it| ContainerStatus {
        ready: false,
        started: None,
        ..it.status()
    });
    let ephemeral: Vec<_> = ephemeral.collect();
    let of_init = |it: &&&Container| it.role == Role::Init;
    let init_failed = init.iter().filter(of_init);
    let init_failed = init_failed
        .filter_map(|it| terminated(it))
        .any(|it| it != 0);
    let is_over = all_ended
        && !init
            .iter()
            .any(|it| it.role == Role::Sidecar && it.is_running());
    let phase = if init_failed {
        "Failed"
    } else if is_over && codes.iter().all(|it| *it == 0) {
        "Succeeded"
    } else if is_over {
        "Failed"
    } else if all_ended || apps().any(started) {
        "Running"
    } else {
        "Pending"
    };
    let names = |all: Vec<&Container>| {
        let names = all.iter().map(|it| it.spec.name.as_str());
        names.collect::<Vec<_>>().join(" ")
    };
    let waiting = containers.iter();
    let waiting =
        waiting.filter(|it| matches!(it.role, Role::App | Role::Sidecar) && !it.is_ready());
    let waiting = names(waiting.collect());
    let incomplete = init.iter().filter(|it| match it.role {
        Role::Init => !it.is_done(),
        _ => !it.is_started() && !started(it) && !all_ended,
    });
    let incomplete = names(incomplete.copied().collect());
    let initialized = if incomplete.is_empty() {
        Ok(())
    } else {
        let text = format!("containers with incomplete status: [{incomplete}]");
        Err(("ContainersNotInitialized", text))
    };
    let ready = match (waiting.is_empty(), phase == "Succeeded") {
        (true, _) => Ok(()),
        (false, true) => Err(("PodCompleted", String::new())),
        (false, false) => Err((
            "ContainersNotReady",
            format!("containers with unready status: [{}]", waiting),
        )),
    };
    let mut conditions = old.conditions.unwrap_or_default();
    conditions.retain(|it| CONDITIONS.contains(&&*it.type_));
    let yes = Ok(());
    let pod_ready = ready.clone().and_then(|()| gates(pod));
    let verdicts = [&yes, &yes, &initialized, &ready, &pod_ready];
    for (kind, verdict) in CONDITIONS.into_iter().zip(verdicts) {
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
        container_statuses: Some(apps().map(Container::status).collect()),
        init_container_statuses: (!init.is_empty())
            .then(|| init.iter().map(|it| it.status()).collect()),
        ephemeral_container_statuses: (!ephemeral.is_empty()).then_some(ephemeral),
        qos_class: old.qos_class,
        observed_generation: pod.metadata.generation.max(old.observed_generation),
        ..PodStatus::default()
    }
}

/// What others say of a pod whose containers are ready: the conditions that its `readinessGates` name, in kubelet's words
/// (`GeneratePodReadyCondition` in `pkg/kubelet/status/generate.go`).
fn gates(pod: &Pod) -> Verdict<'static> {
    let spec = pod.spec.as_ref();
    let gates = spec.and_then(|it| it.readiness_gates.as_deref());
    let conditions = pod.status.as_ref().and_then(|it| it.conditions.as_deref());
    let closed = gates.unwrap_or_default().iter().filter_map(|gate| {
        let kind = &gate.condition_type;
        let mut conditions = conditions.unwrap_or_default().iter();
        match conditions.find(|it| it.type_ == *kind) {
            None => Some(format!(
                "corresponding condition of pod readiness gate {kind:?} does not exist."
            )),
            Some(it) if it.status != "True" => Some(format!(
                "the status of pod readiness gate {kind:?} is not \"True\", but {}",
                it.status
            )),
            Some(_) => None,
        }
    });
    let closed: Vec<String> = closed.collect();
    if closed.is_empty() {
        return Ok(());
    }
    Err(("ReadinessGatesNotReady", closed.join("; ")))
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

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sluice_controller::Typed;

    use super::*;

    #[test]
    fn others_say_whether_a_pod_with_gates_is_ready() {
        let ready = |conditions: serde_json::Value| {
            let gates = json!([{"conditionType": "a/b"}, {"conditionType": "c"}]);
            let object = json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
                "spec": {"containers": [], "readinessGates": gates},
                "status": {"conditions": conditions},
            });
            let node = ["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()];
            let pod = Pod::read(&object).unwrap();
            let status = status(&pod, None, &[], None, node, Timestamp::UNIX_EPOCH);
            let [.., containers, ready] = &status.conditions.unwrap()[..] else {
                panic!("no conditions");
            };
            assert_eq!(
                (&*containers.type_, &*containers.status),
                ("ContainersReady", "True")
            );
            let message = ready.message.clone().unwrap_or_default();
            format!("{} {message}", ready.status)
        };
        let condition = |kind: &str, status: &str| json!({"type": kind, "status": status});
        let missing = "corresponding condition of pod readiness gate";
        assert_eq!(
            ready(json!([])),
            format!("False {missing} \"a/b\" does not exist.; {missing} \"c\" does not exist.")
        );
        let closed = json!([condition("a/b", "True"), condition("c", "Unknown")]);
        assert_eq!(
            ready(closed),
            "False the status of pod readiness gate \"c\" is not \"True\", but Unknown"
        );
        let open = json!([condition("a/b", "True"), condition("c", "True")]);
        assert_eq!(ready(open), "True ");
    }

    #[test]
    fn an_object_that_is_older_changes_nothing() {
        let conditions = |time: &str| {
            let scheduled =
                json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": time});
            let foreign = json!({"type": "example.com/Gate", "status": "True"});
            json!({"conditions": [scheduled, foreign]})
        };
        let pod = |time: &str| {
            let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "status": conditions(time)});
            Pod::read(&object).unwrap()
        };
        let node = [
            "192.168.100.10".parse().unwrap(),
            "fd00:100::a".parse().unwrap(),
        ];
        let of =
            |pod: &Pod, reported| status(pod, reported, &[], None, node, Timestamp::UNIX_EPOCH);
        let reported = of(&pod("2026-01-02T03:04:05Z"), None);
        assert_eq!(of(&pod("2026-01-01T00:00:00Z"), Some(&reported)), reported);
        let all = reported.conditions.unwrap();
        assert!(all.iter().map(|it| &*it.type_).eq(CONDITIONS));
    }
}
