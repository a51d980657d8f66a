//! `scale`: the number of replicas of a workload as an object of its own.

use std::sync::Arc;

use hyper::Method;
use serde_json::{Value, json};

use super::Call;
use super::options::Verb;
use super::patching::conflicts;
use super::writing::{Part, manager};
use crate::answer::{Answer, json_value};
use crate::apply::applied;
use crate::history::now;
use crate::patch::{PatchType, patched};
use crate::resource::{Resource, Scale};
use crate::schema::of_kind;
use crate::selector::selector_text;
use crate::status::{Cause, Status};

impl Call<'_> {
    pub(super) fn scale(&self, of: &Scale, method: &Method, name: &str) -> Result<Answer, Status> {
        let workload = self.find(name)?;
        let scale = scale_of(of, &workload);
        let wanted = match *method {
            Method::GET => return Ok(json_value(&scale)),
            Method::PUT => self.content()?,
            Method::PATCH => {
                let patch_type = self.patch_type()?;
                if patch_type == PatchType::Apply {
                    return self.apply_scale(of, name, &workload);
                }
                let schema = of_kind("autoscaling/v1", "Scale").ok_or_else(Status::no_resource)?;
                patched(schema, &scale, patch_type, self.body)?
            }
            _ => return Err(Status::method_not_allowed()),
        };
        let stored = self.set_replicas(of, name, &workload, &wanted)?;
        Ok(json_value(&scale_of(of, &self.resource.show(stored))))
    }

    /// Server-side apply of the number of replicas, which the manager then owns in the workload
    /// (`managedfields/scalehandler.go`).
    fn apply_scale(&self, of: &Scale, name: &str, workload: &Value) -> Result<Answer, Status> {
        let options = self.options(Verb::Apply)?;
        let config = self.config("autoscaling/v1", "Scale")?;
        let mut wanted = json!({});
        if !config["spec"]["replicas"].is_null() {
            *slot(&mut wanted, &of.replicas) = replicas_of(&self.resource, name, &config)?.into();
        }
        wanted["metadata"] = json!({"name": name});
        let manager = manager(&options, Part::Scale);
        let conflicts = conflicts(&options);
        let mut new = applied(
            &self.resource,
            Some(workload),
            &wanted,
            &manager,
            conflicts,
            &now(),
        )?;
        if let Some(version) = config["metadata"]["resourceVersion"].as_str() {
            new["metadata"]["resourceVersion"] = version.into();
        }
        let stored = self.api.store.update_with(new, options.effect)?;
        Ok(json_value(&scale_of(of, &self.resource.show(stored))))
    }

    fn set_replicas(
        &self,
        of: &Scale,
        name: &str,
        workload: &Arc<Value>,
        scale: &Value,
    ) -> Result<Arc<Value>, Status> {
        let replicas = replicas_of(&self.resource, name, scale)?;
        let mut new = Value::clone(workload);
        *slot(&mut new, &of.replicas) = replicas.into();
        if let Some(version) = scale["metadata"]["resourceVersion"].as_str() {
            new["metadata"]["resourceVersion"] = version.into();
        }
        self.store(workload, new, Part::Scale, &self.options(Verb::Update)?)
    }
}

/// The wanted number in a `Scale`; a missing one is 0.
fn replicas_of(resource: &Resource, name: &str, scale: &Value) -> Result<i64, Status> {
    let replicas = match &scale["spec"]["replicas"] {
        Value::Null => Some(0),
        given => given
            .as_i64()
            .filter(|it| (0..=i64::from(i32::MAX)).contains(it)),
    };
    replicas.ok_or_else(|| {
        let message = format!(
            "Invalid value: {}: must be greater than or equal to 0",
            scale["spec"]["replicas"]
        );
        let cause = Cause::new("spec.replicas", message);
        Status::invalid(resource, name, &[cause])
    })
}

/// The value at a pointer, whose missing fields are made.
fn slot<'a>(value: &'a mut Value, pointer: &str) -> &'a mut Value {
    let fields = pointer.split('/').skip(1);
    fields.fold(value, |value, field| {
        if !value.is_object() {
            *value = json!({});
        }
        &mut value[field]
    })
}

fn scale_of(of: &Scale, workload: &Value) -> Value {
    let metadata = &workload["metadata"];
    let number = |pointer: &str| workload.pointer(pointer).and_then(Value::as_i64);
    let selector = match workload
        .pointer(&of.selector)
        .filter(|_| !of.selector.is_empty())
    {
        None => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(it) if it["matchLabels"].is_object() || it["matchExpressions"].is_array() => {
            selector_text(it)
        }
        Some(labels) => selector_text(&json!({"matchLabels": labels})),
    };
    json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
            "creationTimestamp": metadata["creationTimestamp"],
        },
        "spec": {"replicas": number(&of.replicas).unwrap_or(1)},
        "status": {
            "replicas": number(&of.current).unwrap_or_default(),
            "selector": selector,
        },
    })
}
