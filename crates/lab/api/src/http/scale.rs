//! `scale`: the number of replicas of a workload as an object of its own.

use std::sync::Arc;

use hyper::Method;
use serde_json::{Value, json};

use super::Call;
use super::writing::Part;
use crate::answer::{Answer, json_value};
use crate::patch::{PatchType, patched};
use crate::selector::selector_text;
use crate::status::{Cause, Status};

impl Call<'_> {
    pub(super) fn scale(&self, method: &Method, name: &str) -> Result<Answer, Status> {
        let workload = self.find(name)?;
        let scale = scale_of(&workload);
        let wanted = match *method {
            Method::GET => return Ok(json_value(&scale)),
            Method::PUT => self.content()?,
            Method::PATCH => {
                let patch_type = PatchType::of(self.content_type)?;
                patched(&self.resource, &scale, patch_type, self.body)?
            }
            _ => return Err(Status::method_not_allowed()),
        };
        let stored = self.set_replicas(name, &workload, &wanted)?;
        Ok(json_value(&scale_of(&stored)))
    }

    fn set_replicas(
        &self,
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
            let cause = Cause::invalid("spec.replicas", message);
            return Err(Status::invalid(&self.resource, name, &[cause]));
        };
        let mut new = Value::clone(workload);
        new["spec"]["replicas"] = replicas.into();
        if let Some(version) = scale["metadata"]["resourceVersion"].as_str() {
            new["metadata"]["resourceVersion"] = version.into();
        }
        self.store(workload, new, Part::Whole, &self.options()?)
    }
}

fn scale_of(workload: &Value) -> Value {
    let (metadata, status) = (&workload["metadata"], &workload["status"]);
    let selector = selector_text(&workload["spec"]["selector"]);
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
        "spec": {"replicas": workload["spec"]["replicas"].as_i64().unwrap_or(1)},
        "status": {
            "replicas": status["replicas"].as_i64().unwrap_or_default(),
            "selector": selector,
        },
    })
}
