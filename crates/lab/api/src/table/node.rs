//! Nodes.

use jiff::Timestamp;
use serde_json::Value;

use super::age::age;
use super::objects::name;
use super::{NONE, items, joined, text};

/// Label whose suffix is a role of the node.
const ROLE: &str = "node-role.kubernetes.io/";

pub(crate) fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let info = &object["status"]["nodeInfo"];
    let known = |field: &str| Value::from(text(&info[field], "<unknown>"));
    vec![
        name(object),
        status(object).into(),
        roles(object).into(),
        age(object, now),
        info["kubeletVersion"].clone(),
        address(object, "InternalIP").into(),
        address(object, "ExternalIP").into(),
        known("osImage"),
        known("kernelVersion"),
        known("containerRuntimeVersion"),
    ]
}

fn status(node: &Value) -> String {
    let mut conditions = items(&node["status"]["conditions"]);
    let ready = conditions.find(|it| it["type"] == "Ready");
    let ready = match ready.map(|it| text(&it["status"], "Unknown")) {
        None => "Unknown",
        Some("True") => "Ready",
        Some(_) => "NotReady",
    };
    match node["spec"]["unschedulable"].as_bool() {
        Some(true) => format!("{ready},SchedulingDisabled"),
        _ => ready.to_owned(),
    }
}

fn roles(node: &Value) -> String {
    let labels = node["metadata"]["labels"].as_object().into_iter().flatten();
    let roles = labels.filter_map(|(key, value)| match key.strip_prefix(ROLE) {
        Some(role) if !role.is_empty() => Some(role),
        _ if key == "kubernetes.io/role" => value.as_str(),
        _ => None,
    });
    joined(roles)
}

fn address<'a>(node: &'a Value, sort: &str) -> &'a str {
    let mut addresses = items(&node["status"]["addresses"]);
    let found = addresses.find(|it| it["type"] == sort);
    found.map_or(NONE, |it| text(&it["address"], NONE))
}
