//! Pods, with their state in one word (`printPod`).

use jiff::Timestamp;
use serde_json::Value;

use super::age::{age, since};
use super::objects::name;
use super::{NONE, items, number, text};

pub(crate) fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let summary = Summary::of(object);
    let restarts = match summary.last_restart {
        Some(time) if summary.restarts > 0 => {
            format!("{} ({} ago)", summary.restarts, since(time, now))
        }
        _ => summary.restarts.to_string(),
    };
    let mut ips = items(&status["podIPs"]).map(|it| text(&it["ip"], NONE));
    let ip = ips.next().unwrap_or(text(&status["podIP"], NONE));
    vec![
        name(object),
        format!("{}/{}", summary.ready, summary.containers).into(),
        summary.reason.into(),
        restarts.into(),
        age(object, now),
        ip.into(),
        text(&spec["nodeName"], NONE).into(),
        text(&status["nominatedNodeName"], NONE).into(),
        gates(object).into(),
    ]
}

fn gates(pod: &Value) -> String {
    let gates = items(&pod["spec"]["readinessGates"]);
    let total = gates.clone().count();
    let is_true = |gate: &&Value| holds(pod, text(&gate["conditionType"], ""));
    match total {
        0 => NONE.to_owned(),
        total => format!("{}/{total}", gates.filter(is_true).count()),
    }
}

/// Whether a condition is True.
fn holds(pod: &Value, condition: &str) -> bool {
    let mut conditions = items(&pod["status"]["conditions"]);
    conditions.any(|it| it["type"] == condition && it["status"] == "True")
}

struct Summary<'a> {
    ready: usize,
    containers: usize,
    restarts: i64,
    last_restart: Option<&'a Value>,
    reason: String,
}

impl<'a> Summary<'a> {
    fn of(pod: &'a Value) -> Self {
        let (spec, status) = (&pod["spec"], &pod["status"]);
        let mut summary = Self {
            ready: 0,
            containers: items(&spec["containers"]).count(),
            restarts: 0,
            last_restart: None,
            reason: text(&status["reason"], text(&status["phase"], "Unknown")).to_owned(),
        };
        let has_begun = holds(pod, "Initialized");
        // A sidecar that was ended with the pod has failed, and the pod has not.
        if !summary.look_at_init_containers(pod) || has_begun {
            summary.look_at_containers(pod);
        }
        if !pod["metadata"]["deletionTimestamp"].is_null() {
            summary.reason = match text(&status["reason"], "") {
                "NodeLost" => "Unknown",
                _ => "Terminating",
            }
            .to_owned();
        }
        summary
    }

    /// Whether the init containers are still running.
    fn look_at_init_containers(&mut self, pod: &'a Value) -> bool {
        let total = items(&pod["spec"]["initContainers"]).count();
        for (index, container) in items(&pod["status"]["initContainerStatuses"]).enumerate() {
            let state = &container["state"];
            let is_sidecar = is_sidecar(pod, &container["name"]);
            self.add_restarts(container);
            if number(&state["terminated"]["exitCode"]) == 0 && !state["terminated"].is_null() {
                continue;
            }
            if is_sidecar && container["started"] == true {
                self.containers += 1;
                self.ready += usize::from(container["ready"] == true);
                continue;
            }
            self.reason = match (&state["terminated"], text(&state["waiting"]["reason"], "")) {
                (Value::Object(_), _) => format!("Init:{}", ending(&state["terminated"])),
                (_, "" | "PodInitializing") => format!("Init:{index}/{total}"),
                (_, reason) => format!("Init:{reason}"),
            };
            return true;
        }
        false
    }

    fn look_at_containers(&mut self, pod: &'a Value) {
        let mut is_running = false;
        for container in items(&pod["status"]["containerStatuses"]).rev() {
            self.add_restarts(container);
            let state = &container["state"];
            let waiting = text(&state["waiting"]["reason"], "");
            if !waiting.is_empty() {
                self.reason = waiting.to_owned();
            } else if !state["terminated"].is_null() {
                self.reason = ending(&state["terminated"]);
            } else if container["ready"] == true && !state["running"].is_null() {
                is_running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" && is_running {
            self.reason = if holds(pod, "Ready") {
                "Running"
            } else {
                "NotReady"
            }
            .to_owned();
        }
    }

    fn add_restarts(&mut self, container: &'a Value) {
        self.restarts += number(&container["restartCount"]);
        let finished = &container["lastState"]["terminated"]["finishedAt"];
        // Times in one format sort as text.
        if finished.as_str() > self.last_restart.and_then(Value::as_str) {
            self.last_restart = Some(finished);
        }
    }
}

fn is_sidecar(pod: &Value, name: &Value) -> bool {
    let mut containers = items(&pod["spec"]["initContainers"]);
    containers.any(|it| it["name"] == *name && it["restartPolicy"] == "Always")
}

/// Why a container terminated.
fn ending(terminated: &Value) -> String {
    match (
        text(&terminated["reason"], ""),
        number(&terminated["signal"]),
    ) {
        ("", 0) => format!("ExitCode:{}", number(&terminated["exitCode"])),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}
