//! Workloads.

use jiff::Timestamp;
use serde_json::Value;

use super::age::age;
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
