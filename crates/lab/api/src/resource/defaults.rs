//! Defaults that depend on other fields of the object (`SetDefaults_*` in `pkg/apis`), and fields that a write does not change.

use serde_json::{Map, Value, json};
use sluice_controller::Typed;
use sluice_controller::workloads::default_template;

use super::{Registry, Resource};
use crate::status::Status;

/// Sets defaults by way of a type. What is no object of the type is refused elsewhere.
pub(super) fn typed<T: Typed>(object: &mut Value, default: fn(&mut T)) {
    if let Ok(mut it) = T::read(object) {
        default(&mut it);
        *object = it.write();
    }
}

/// `core/v1`: the defaults of pods, if there is a template.
pub(super) fn template(template: &mut Value) {
    if template.is_object() {
        typed(template, default_template);
    }
}

/// `core/v1`: a controller without labels or selector has the labels of its pods.
pub(super) fn replication_controller(new: &mut Value) {
    if new["spec"]["template"].is_null() {
        return;
    }
    template(&mut new["spec"]["template"]);
    let labels = new["spec"]["template"]["metadata"]["labels"].clone();
    for (part, field) in [("spec", "selector"), ("metadata", "labels")] {
        if new[part][field].is_null() && !labels.is_null() {
            new[part][field] = labels.clone();
        }
    }
}

fn each<'a>(object: &'a mut Value, pointer: &str) -> impl Iterator<Item = &'a mut Value> {
    let list = object.pointer_mut(pointer).and_then(Value::as_array_mut);
    list.into_iter().flatten()
}

/// `networking/v1`: a policy is for egress, too, when it has rules for it.
pub(super) fn network_policy(new: &mut Value) {
    let spec = &mut new["spec"];
    if spec["policyTypes"].is_null() {
        let has_egress = !spec["egress"].is_null();
        let types = if has_egress {
            json!(["Ingress", "Egress"])
        } else {
            json!(["Ingress"])
        };
        spec["policyTypes"] = types;
    }
}

/// `rbac/v1`: users and groups are names of this group.
pub(super) fn role_binding(new: &mut Value) {
    for it in each(new, "/subjects") {
        let is_own = it["kind"] == "User" || it["kind"] == "Group";
        if is_own && it["apiGroup"].as_str().is_none_or(str::is_empty) {
            it["apiGroup"] = "rbac.authorization.k8s.io".into();
        }
    }
}

/// `certificates/v1`: what is asked for never changes (`PrepareForUpdate` of the strategy).
pub(super) fn certificate_request(
    _: &Resource,
    _: &Registry,
    old: Option<&Value>,
    new: &mut Value,
) -> Result<(), Status> {
    if let Some(old) = old {
        new["spec"] = old["spec"].clone();
    }
    Ok(())
}

/// `core/v1`: of a container's limits, a missing default is the maximum, a missing request the default or the minimum.
pub(super) fn limit_range(new: &mut Value) {
    for it in each(new, "/spec/limits").filter(|it| it["type"] == "Container") {
        for (from, to) in [
            ("max", "default"),
            ("default", "defaultRequest"),
            ("min", "defaultRequest"),
        ] {
            let given: Map<_, _> = it[from].as_object().cloned().unwrap_or_default();
            if !given.is_empty() && it[to].is_null() {
                it[to] = json!({});
            }
            for (name, quantity) in given {
                let slot = &mut it[to][&name];
                if slot.is_null() {
                    *slot = quantity;
                }
            }
        }
    }
}

/// `resource/v1`: of the devices of each request one is wanted.
pub(super) fn device_requests(new: &mut Value) {
    for pointer in ["/spec/devices/requests", "/spec/spec/devices/requests"] {
        for request in each(new, pointer) {
            request.get_mut("exactly").map(one_device);
            each(request, "/firstAvailable").for_each(one_device);
        }
    }
}

fn one_device(request: &mut Value) {
    let Some(request) = request.as_object_mut() else {
        return;
    };
    let mode = request.entry("allocationMode");
    let is_counted = *mode.or_insert_with(|| "ExactCount".into()) == "ExactCount";
    if is_counted {
        request.entry("count").or_insert_with(|| 1.into());
    }
}
