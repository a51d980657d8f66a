//! Workloads.

use jiff::Timestamp;
use serde_json::Value;

use super::age::{age, human, since};
use super::objects::name;
use super::{NONE, items, joined, labels, number, text};
use crate::selector::selector_text;

pub(crate) fn deployment(object: &Value, now: Timestamp) -> Vec<Value> {
    let status = &object["status"];
    let mut cells = vec![
        name(object),
        format!("{}/{}", number(&status["readyReplicas"]), desired(object)).into(),
        number(&status["updatedReplicas"]).to_string().into(),
        number(&status["availableReplicas"]).to_string().into(),
        age(object, now),
    ];
    cells.extend(template(object));
    cells.push(selected(object));
    cells
}

pub(crate) fn replica_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let status = &object["status"];
    let mut cells = vec![
        name(object),
        desired(object).into(),
        number(&status["replicas"]).into(),
        number(&status["readyReplicas"]).into(),
        age(object, now),
    ];
    cells.extend(template(object));
    cells.push(selected(object));
    cells
}

pub(crate) fn stateful_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let ready = number(&object["status"]["readyReplicas"]);
    let ready = format!("{ready}/{}", desired(object));
    let mut cells = vec![name(object), ready.into(), age(object, now)];
    cells.extend(template(object));
    cells
}

pub(crate) fn daemon_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let status = |field: &str| Value::from(number(&object["status"][field]));
    let mut cells = vec![
        name(object),
        status("desiredNumberScheduled"),
        status("currentNumberScheduled"),
        status("numberReady"),
        status("updatedNumberScheduled"),
        status("numberAvailable"),
        labels(&object["spec"]["template"]["spec"]["nodeSelector"]).into(),
        age(object, now),
    ];
    cells.extend(template(object));
    cells.push(selected(object));
    cells
}

pub(crate) fn replication_controller(object: &Value, now: Timestamp) -> Vec<Value> {
    let mut cells = replica_set(object, now);
    cells.pop();
    cells.push(labels(&object["spec"]["selector"]).into());
    cells
}

/// Conditions of a Job that is not running, in the order in which they count (`printJob`).
const OUTCOMES: [&str; 5] = [
    "Complete",
    "Failed",
    "Suspended",
    "FailureTarget",
    "SuccessCriteriaMet",
];

pub(crate) fn job(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let has = |wanted: &str| {
        let mut conditions = items(&status["conditions"]);
        conditions.any(|it| it["type"] == *wanted && it["status"] == "True")
    };
    let is_leaving = !object["metadata"]["deletionTimestamp"].is_null();
    let outcome = OUTCOMES.iter().position(|it| has(it));
    let word = match outcome {
        Some(at) if at < 2 || !is_leaving => OUTCOMES[at],
        _ if is_leaving => "Terminating",
        _ => "Running",
    };
    let succeeded = number(&status["succeeded"]);
    let completions = match (spec["completions"].as_i64(), number(&spec["parallelism"])) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, several) if several > 1 => format!("{succeeded}/1 of {several}"),
        (None, _) => format!("{succeeded}/1"),
    };
    let at = |field: &str| status[field].as_str()?.parse::<Timestamp>().ok();
    let duration = at("startTime").map_or(String::new(), |start| {
        let end = at("completionTime").unwrap_or(now);
        human(end.as_second() - start.as_second())
    });
    let mut cells = vec![
        name(object),
        word.into(),
        completions.into(),
        duration.into(),
        age(object, now),
    ];
    cells.extend(template(object));
    cells.push(selected(object));
    cells
}

pub(crate) fn cron_job(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let suspended = match spec["suspend"].as_bool() {
        Some(true) => "True",
        Some(false) => "False",
        None => "<unset>",
    };
    let last = &status["lastScheduleTime"];
    let last = if last.is_null() {
        NONE.to_owned()
    } else {
        since(last, now)
    };
    let mut cells = vec![
        name(object),
        spec["schedule"].clone(),
        text(&spec["timeZone"], NONE).into(),
        suspended.into(),
        items(&status["active"]).count().into(),
        last.into(),
        age(object, now),
    ];
    cells.extend(template(&spec["jobTemplate"]));
    cells.push(selected(&spec["jobTemplate"]));
    cells
}

pub(crate) fn revision(object: &Value, now: Timestamp) -> Vec<Value> {
    let mut owners = items(&object["metadata"]["ownerReferences"]);
    let owner = owners.find(|it| it["controller"] == true);
    let owner = owner.map_or(NONE.to_owned(), |it| {
        let group = text(&it["apiVersion"], "")
            .split_once('/')
            .map_or("", |(group, _)| group);
        let kind = text(&it["kind"], "").to_lowercase();
        format!("{kind}.{group}/{}", text(&it["name"], ""))
    });
    let revision = number(&object["revision"]);
    vec![
        name(object),
        owner.into(),
        revision.into(),
        age(object, now),
    ]
}

/// `spec.replicas`; 1 when it is missing.
fn desired(object: &Value) -> i64 {
    object["spec"]["replicas"].as_i64().unwrap_or(1)
}

/// Names and images of the containers.
fn template(object: &Value) -> [Value; 2] {
    let containers = &object["spec"]["template"]["spec"]["containers"];
    ["name", "image"].map(|field| {
        let texts: Vec<_> = items(containers).map(|it| text(&it[field], "")).collect();
        texts.join(",").into()
    })
}

fn selected(object: &Value) -> Value {
    let selector = selector_text(&object["spec"]["selector"]);
    joined([selector.as_str()].into_iter()).into()
}
