//! The parts of a Pod that have ways of writing of their own: its node, its ephemeral containers, its resources
//! (`pkg/registry/core/pod/{strategy,storage/storage}.go`).

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;
use sluice_controller::workloads::resize;
use sluice_controller::{FieldError, Typed};

use super::Effect;
use super::write::{Replaced, set};
use super::writer::Writer;
use crate::resource::Resource;
use crate::status::{Cause, Status};
use crate::validation;

impl Writer {
    /// Assigns a Pod to the node that it names. Nobody else may do that, and it counts as no change of the Pod's spec.
    pub(super) fn bind(&mut self, mut new: Value, effect: Effect) -> Result<Arc<Value>, Status> {
        let Replaced { resource, key, old } = self.replaced(&mut new)?;
        let stored = old.value();
        let (name, spec) = (&key.name, &stored["spec"]);
        let node = spec["nodeName"].as_str().unwrap_or_default();
        let why = if !stored["metadata"]["deletionTimestamp"].is_null() {
            format!("pod {name} is being deleted, cannot be assigned to a host")
        } else if !node.is_empty() {
            format!("pod {name} is already assigned to node {node:?}")
        } else if !spec["schedulingGates"].is_null() {
            format!("pod {name} has non-empty .spec.schedulingGates")
        } else {
            let mut before = Value::clone(&stored);
            before["spec"]["nodeName"] = new["spec"]["nodeName"].clone();
            return self.replace(&resource, key, &old, &before, new, effect);
        };
        let binding = Resource {
            plural: format!("{}/binding", resource.plural),
            ..Resource::clone(&resource)
        };
        Err(Status::conflict(&binding, name, &why))
    }

    /// Replaces the ephemeral containers of a Pod, of which none changes or goes.
    pub(super) fn add_containers(
        &mut self,
        mut new: Value,
        effect: Effect,
    ) -> Result<Arc<Value>, Status> {
        const FIELD: &str = "ephemeralContainers";
        let replaced = self.replaced(&mut new)?;
        let (resource, stored) = (&replaced.resource, replaced.old.value());
        let all = |it: &Value| it["spec"][FIELD].as_array().cloned().unwrap_or_default();
        let mut spec = stored["spec"].clone();
        set(&mut spec, FIELD, &new["spec"][FIELD]);
        let mut whole = with_spec(&stored, &new, spec);
        // In its one form.
        validation::conform(resource, &mut whole)?;
        resource.complete(&mut whole);
        let found = all(&whole);
        let held = all(&stored).into_iter().filter(|it| !found.contains(it));
        let causes: Vec<_> = held
            .map(|it| {
                let is_there = found.iter().any(|other| other["name"] == it["name"]);
                let what = if is_there { "changed" } else { "removed" };
                let name = &it["name"];
                let why =
                    format!("Forbidden: existing ephemeral containers {name} may not be {what}");
                Cause::new(format!("spec.{FIELD}"), why)
            })
            .collect();
        validation::refuse(resource, &replaced.key.name, &causes)?;
        self.replace_spec(replaced, whole, effect)
    }

    /// Replaces the resources of a Pod's containers, and nothing else.
    pub(super) fn resize(&mut self, mut new: Value, effect: Effect) -> Result<Arc<Value>, Status> {
        let replaced = self.replaced(&mut new)?;
        let (resource, stored) = (&replaced.resource, replaced.old.value());
        validation::conform(resource, &mut new)?;
        let typed =
            |it: &Value| Pod::read(it).map_err(|why| validation::undecodable(resource, &why));
        let resized = resize(&typed(&stored)?, &typed(&new)?).map_err(|found| {
            let cause = |it: FieldError| Cause::new(it.field, it.why);
            let causes: Vec<_> = found.into_iter().map(cause).collect();
            Status::invalid(resource, &replaced.key.name, &causes)
        })?;
        let whole = with_spec(&stored, &new, resized.write()["spec"].take());
        self.replace_spec(replaced, whole, effect)
    }

    /// Stores a Pod with another spec. Admission does not see what has changed: no other way of writing may change it.
    fn replace_spec(
        &mut self,
        replaced: Replaced,
        mut whole: Value,
        effect: Effect,
    ) -> Result<Arc<Value>, Status> {
        let Replaced { resource, key, old } = replaced;
        if old.value()["spec"] != whole["spec"] {
            whole["metadata"]["generation"] = (old.generation + 1).into();
        }
        let before = whole.clone();
        self.replace(&resource, key, &old, &before, whole, effect)
    }
}

/// A stored Pod with another spec, and the managed fields of what a client wrote.
fn with_spec(stored: &Value, new: &Value, spec: Value) -> Value {
    let mut whole = stored.clone();
    whole["spec"] = spec;
    set(
        &mut whole["metadata"],
        "managedFields",
        &new["metadata"]["managedFields"],
    );
    whole
}
