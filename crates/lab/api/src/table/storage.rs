//! PersistentVolumes, their claims and classes; claims of devices.

use jiff::Timestamp;
use serde_json::Value;

use super::age::age;
use super::objects::{name, or_default};
use super::{items, text};

/// Abbreviations of access modes, in the order in which they are shown.
const MODES: [(&str, &str); 4] = [
    ("ReadWriteOnce", "RWO"),
    ("ReadOnlyMany", "ROX"),
    ("ReadWriteMany", "RWX"),
    ("ReadWriteOncePod", "RWOP"),
];

pub(crate) fn volume(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let claim = &spec["claimRef"];
    let claim = match claim["name"].as_str() {
        Some(name) => format!("{}/{name}", text(&claim["namespace"], "")),
        None => String::new(),
    };
    vec![
        name(object),
        text(&spec["capacity"]["storage"], "0").into(),
        modes(&spec["accessModes"]).into(),
        text(&spec["persistentVolumeReclaimPolicy"], "").into(),
        phase(object),
        claim.into(),
        class(object),
        text(&spec["volumeAttributesClassName"], UNSET).into(),
        text(&status["reason"], "").into(),
        age(object, now),
        text(&spec["volumeMode"], UNSET).into(),
    ]
}

pub(crate) fn claim(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let volume = text(&spec["volumeName"], "");
    let of_volume = |it: String| Value::from(if volume.is_empty() { String::new() } else { it });
    vec![
        name(object),
        phase(object),
        volume.into(),
        of_volume(text(&status["capacity"]["storage"], "0").to_owned()),
        of_volume(modes(&status["accessModes"])),
        class(object),
        text(&spec["volumeAttributesClassName"], UNSET).into(),
        age(object, now),
        text(&spec["volumeMode"], UNSET).into(),
    ]
}

pub(crate) fn storage_class(object: &Value, now: Timestamp) -> Vec<Value> {
    let is_default = "storageclass.kubernetes.io/is-default-class";
    vec![
        or_default(object, is_default).into(),
        object["provisioner"].clone(),
        text(&object["reclaimPolicy"], "Delete").into(),
        text(&object["volumeBindingMode"], "Immediate").into(),
        object["allowVolumeExpansion"]
            .as_bool()
            .unwrap_or_default()
            .into(),
        age(object, now),
    ]
}

const UNSET: &str = "<unset>";

fn modes(given: &Value) -> String {
    let has = |mode: &str| items(given).any(|it| it == mode);
    let modes = MODES.iter().filter(|(mode, _)| has(mode));
    modes.map(|(_, short)| *short).collect::<Vec<_>>().join(",")
}

fn phase(object: &Value) -> Value {
    if object["metadata"]["deletionTimestamp"].is_null() {
        text(&object["status"]["phase"], "").into()
    } else {
        "Terminating".into()
    }
}

fn class(object: &Value) -> Value {
    let earlier = &object["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"];
    text(earlier, text(&object["spec"]["storageClassName"], "")).into()
}

pub(crate) fn device_claim(object: &Value, now: Timestamp) -> Vec<Value> {
    let status = &object["status"];
    let is_deleted = !object["metadata"]["deletionTimestamp"].is_null();
    let is_allocated = !status["allocation"].is_null();
    let states = [
        (is_deleted, "deleted"),
        (!is_deleted && !is_allocated, "pending"),
        (is_allocated, "allocated"),
        (is_allocated && !status["reservedFor"].is_null(), "reserved"),
    ];
    let states = states.iter().filter(|(holds, _)| *holds);
    let states: Vec<_> = states.map(|(_, state)| *state).collect();
    vec![name(object), states.join(",").into(), age(object, now)]
}
