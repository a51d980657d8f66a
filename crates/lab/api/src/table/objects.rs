//! Kinds with few columns.

use jiff::Timestamp;
use serde_json::Value;

use super::age::{age, since};
use super::{number, text};

pub(super) fn name(object: &Value) -> Value {
    object["metadata"]["name"].clone()
}

/// The name, and whether an annotation says that the object is the default of its kind.
pub(super) fn or_default(object: &Value, annotation: &str) -> String {
    let metadata = &object["metadata"];
    let is_default = metadata["annotations"][annotation] == "true";
    let suffix = if is_default { " (default)" } else { "" };
    format!("{}{suffix}", text(&metadata["name"], ""))
}

pub(crate) fn config_map(object: &Value, now: Timestamp) -> Vec<Value> {
    let count = count(&object["data"]) + count(&object["binaryData"]);
    vec![name(object), count.into(), age(object, now)]
}

pub(crate) fn secret(object: &Value, now: Timestamp) -> Vec<Value> {
    let count = count(&object["data"]).into();
    let sort = text(&object["type"], "Opaque").into();
    vec![name(object), sort, count, age(object, now)]
}

fn count(map: &Value) -> usize {
    map.as_object().map_or(0, serde_json::Map::len)
}

/// Events of both API groups, whose fields have different names.
pub(crate) fn event(object: &Value, now: Timestamp) -> Vec<Value> {
    let first = |fields: &[&str]| {
        let values = fields
            .iter()
            .map(|it| object.pointer(it).unwrap_or(&Value::Null));
        values
            .into_iter()
            .find(|it| !it.is_null())
            .cloned()
            .unwrap_or_default()
    };
    let about = first(&["/involvedObject", "/regarding"]);
    let started = first(&["/firstTimestamp", "/deprecatedFirstTimestamp", "/eventTime"]);
    let seen = first(&[
        "/series/lastObservedTime",
        "/lastTimestamp",
        "/deprecatedLastTimestamp",
        "/eventTime",
        "/firstTimestamp",
    ]);
    let count = first(&["/series/count", "/count", "/deprecatedCount"]);
    let source = first(&[
        "/source/component",
        "/reportingComponent",
        "/reportingController",
        "/deprecatedSource/component",
    ]);
    let host = first(&["/source/host", "/reportingInstance"]);
    let source = match text(&host, "") {
        "" => text(&source, "").to_owned(),
        host => format!("{}, {host}", text(&source, "")),
    };
    let (kind, subject) = (text(&about["kind"], ""), text(&about["name"], ""));
    let message = first(&["/message", "/note"]);
    vec![
        since(&seen, now).into(),
        object["type"].clone(),
        object["reason"].clone(),
        format!("{}/{subject}", kind.to_lowercase()).into(),
        text(&about["fieldPath"], "").into(),
        source.into(),
        text(&message, "").trim().into(),
        since(&started, now).into(),
        number(&count).max(1).to_string().into(),
        name(object),
    ]
}
