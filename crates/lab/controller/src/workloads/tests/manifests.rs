//! Manifests of the tests.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("an object of the API")
}

/// Sets the fields of `from`; lists are replaced.
pub(super) fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

fn template(name: &str, version: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "main", "image": format!("image:{version}")}]},
    })
}

fn workload<T: DeserializeOwned>(kind: &str, name: &str, version: &str, spec: &Value) -> T {
    let mut object = json!({
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": template(name, version)},
    });
    merge(&mut object["spec"], spec);
    read(object)
}

pub(super) fn deployment(name: &str, version: &str, spec: &Value) -> Deployment {
    workload("Deployment", name, version, spec)
}

pub(super) fn replica_set(name: &str, spec: &Value) -> ReplicaSet {
    workload("ReplicaSet", name, "1", spec)
}

pub(super) fn stateful_set(name: &str, version: &str, spec: &Value) -> StatefulSet {
    workload("StatefulSet", name, version, spec)
}

pub(super) fn daemon_set(name: &str, version: &str, spec: &Value) -> DaemonSet {
    workload("DaemonSet", name, version, spec)
}

pub(super) fn pod(name: &str, spec: &Value) -> Pod {
    let mut object = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"containers": [{"name": "main", "image": "image:1"}]},
    });
    merge(&mut object["spec"], spec);
    read(object)
}

/// A pod of another controller, with the labels of a workload of ours.
pub(super) fn foreign_pod(name: &str, app: &str, node: &str) -> Pod {
    let mut pod = pod(name, &json!({"nodeName": node}));
    let owner = json!({"apiVersion": "example.com/v1", "kind": "Foreign", "name": "x", "uid": "foreign", "controller": true});
    pod.metadata.labels = Some([("app".to_owned(), app.to_owned())].into());
    pod.metadata.owner_references = Some(vec![read(owner)]);
    pod
}

pub(super) fn node(name: &str) -> Node {
    read(json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }))
}
