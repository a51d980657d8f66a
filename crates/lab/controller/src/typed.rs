//! Objects of the API between JSON and their types.
//!
//! k8s-openapi's code for one type is generic over the format, and large. [`Typed`] is the only way, and this crate has the
//! only instance for each type.

use k8s_openapi::api::apps::v1::{
    ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet,
};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{
    ConfigMap, Endpoints, Event, Namespace, Node, PersistentVolumeClaim, Pod, PodStatus,
    PodTemplateSpec, Secret, Service, ServiceAccount,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::events::v1 as events;
use k8s_openapi::api::networking::v1::{IPAddress, ServiceCIDR};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::FieldError;

/// A type of the API.
pub trait Typed: Sized {
    /// Reads a value. Fields that the type does not have are dropped.
    ///
    /// # Errors
    ///
    /// The first field whose value has the wrong type.
    fn read(value: &Value) -> Result<Self, FieldError>;

    /// The value; that of an object has `kind` and `apiVersion`.
    fn write(&self) -> Value;
}

macro_rules! typed {
    ($($type:ty)*) => {
        $(impl Typed for $type {
            fn read(value: &Value) -> Result<Self, FieldError> {
                read(value)
            }

            fn write(&self) -> Value {
                let mut value =
                    serde_json::to_value(self).expect("maps with texts as keys become JSON");
                exchange_times(&mut value, &NEVER.into(), &Value::Null);
                value
            }
        })*
    };
}

typed! {
    ConfigMap ControllerRevision CronJob DaemonSet Deployment EndpointSlice Endpoints Event IPAddress Job Namespace Node
    PersistentVolumeClaim Pod PodStatus PodTemplateSpec ReplicaSet Secret Service ServiceAccount ServiceCIDR StatefulSet events::Event
}

fn read<T: DeserializeOwned>(value: &Value) -> Result<T, FieldError> {
    let error = match T::deserialize(value) {
        Ok(read) => return Ok(read),
        Err(error) => error,
    };
    let mut timed = value.clone();
    exchange_times(&mut timed, &Value::Null, &NEVER.into());
    T::deserialize(&timed).map_err(|_| FieldError {
        field: wrong_field(value, &|it| T::deserialize(it).is_err())
            .trim_start_matches('.')
            .to_owned(),
        why: error.to_string(),
    })
}

/// Go's zero time. Kubernetes writes it as null (`Time.MarshalJSON` in `apis/meta/v1/time.go`): a condition whose time nobody
/// gave has it. k8s-openapi reads no null there.
const NEVER: &str = "0001-01-01T00:00:00Z";

/// Replaces `from` by `to` where it is the time of a condition.
fn exchange_times(value: &mut Value, from: &Value, to: &Value) {
    match value {
        Value::Object(fields) => {
            for (name, it) in fields {
                if name == "lastTransitionTime" && it == from {
                    it.clone_from(to);
                } else {
                    exchange_times(it, from, to);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|it| exchange_times(it, from, to)),
        _ => {}
    }
}

/// The path below `value` to the first field that cannot be read. `is_wrong` reads the whole with another value in the
/// place of `value`: only the wrong field is wrong without its siblings, because each field has a default.
fn wrong_field(value: &Value, is_wrong: &dyn Fn(&Value) -> bool) -> String {
    let below = |step: String, child: &Value, alone: &dyn Fn(&Value) -> bool| {
        alone(child).then(|| format!("{step}{}", wrong_field(child, alone)))
    };
    let found = match value {
        Value::Object(fields) if !is_wrong(&json!({})) => {
            fields.iter().find_map(|(name, child)| {
                below(format!(".{name}"), child, &|it| {
                    is_wrong(&json!({name: it}))
                })
            })
        }
        Value::Array(items) if !is_wrong(&json!([])) => {
            let mut items = items.iter().enumerate();
            items.find_map(|(at, child)| {
                below(format!("[{at}]"), child, &|it| is_wrong(&json!([it])))
            })
        }
        _ => None,
    };
    found.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pod: &Value, expect: &str) {
        let error = Pod::read(pod).unwrap_err();
        assert_eq!(error.to_string(), expect);
    }

    #[test]
    fn an_error_names_the_field() {
        let container = |port: Value| json!({"name": "c", "ports": [{}, {"containerPort": port}]});
        assert!(Pod::read(&json!({"spec": {"containers": [container(80.into())]}})).is_ok());
        check(
            &json!({"spec": {"containers": [{}, container("80".into())], "hostname": "b"}}),
            "spec.containers[1].ports[1].containerPort: invalid type: string \"80\", expected i32",
        );
        check(
            &json!({"spec": {"containers": {"name": "c"}}}),
            "spec.containers: invalid type: map, expected a sequence",
        );
        check(
            &json!({"metadata": {"labels": {"a": "b", "c": 1}}}),
            "metadata.labels.c: invalid type: integer `1`, expected a string",
        );
    }

    #[test]
    fn a_condition_needs_no_time() {
        let condition = json!({"type": "Ready", "status": "True", "lastTransitionTime": null});
        let service = json!({"status": {"conditions": [condition]}});
        let read = Service::read(&service).unwrap();
        // Who writes the whole status back changes nothing of it.
        let time = "/status/conditions/0/lastTransitionTime";
        assert_eq!(read.write().pointer(time), Some(&Value::Null));
    }
}
