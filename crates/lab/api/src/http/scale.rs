//! `scale`: the number of replicas of a workload as an object of its own.

use std::sync::Arc;

use hyper::Method;
use serde_json::{Value, json};

use super::Call;
use super::writing::Part;
use crate::answer::{Answer, json_value};
use crate::patch::{PatchType, patched};
use crate::resource::Scale;
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
                let patch_type = PatchType::of(self.content_type)?;
                let schema = of_kind("autoscaling/v1", "Scale").ok_or_else(Status::no_resource)?;
                patched(schema, &scale, patch_type, self.body)?
            }
            _ => return Err(Status::method_not_allowed()),
        };
        let stored = self.set_replicas(of, name, &workload, &wanted)?;
        Ok(json_value(&scale_of(of, &self.resource.show(stored))))
    }

    fn set_replicas(
        &self,
        of: &Scale,
        name: &str,
        workload: &Arc<Value>,
        scale: &Value,
    ) -> Result<Arc<Value>, Status> {
        let replicas = match &scale["spec"]["replicas"] {
            Value::Null => Some(0),
            given => given
                .as_i64()
                .filter(|it| (0..=i64::from(i32::MAX)).contains(it)),
        };
        let Some(replicas) = replicas else {
            let message = format!(
                "Invalid value: {}: must be greater than or equal to 0",
                scale["spec"]["replicas"]
            );
            let cause = Cause::new("spec.replicas", message);
            return Err(Status::invalid(&self.resource, name, &[cause]));
        };
        let mut new = Value::clone(workload);
        *slot(&mut new, &of.replicas) = replicas.into();
        if let Some(version) = scale["metadata"]["resourceVersion"].as_str() {
            new["metadata"]["resourceVersion"] = version.into();
        }
        self.store(workload, new, Part::Scale, &self.options()?)
    }
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
