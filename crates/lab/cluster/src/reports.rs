//! Writes the reports of nodes and pods to the store.

use std::sync::Arc;

use http::StatusCode;
use k8s_openapi::api::core::v1::{ObjectReference, Pod, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};
use sluice_api::{Api, DeleteOptions, Status, Store, now};
use sluice_controller::workloads::account_of;
use sluice_controller::{Typed, pod_reference};
use tracing::warn;

use crate::events::Events;
use crate::machines::Addresses;
use crate::nodes::{self, Health};
use crate::pods;

/// The field manager of what kubelets write.
const KUBELET: &str = "kubelet";

/// The kubelet version in the status of Nodes.
const VERSION: &str = "v1.36.0";

/// The namespace of the nodes' Leases.
const LEASES: &str = "kube-node-lease";

pub(crate) struct Reports {
    pub(crate) api: Arc<Api>,
    pub(crate) store: Arc<Store>,
    pub(crate) events: Events,
}

impl pods::Report for Reports {
    fn status(&self, pod: &Pod, status: &PodStatus) -> bool {
        let (namespace, name) = names(&pod.metadata);
        let Some(stored) = self.store.get("Pod", namespace, name) else {
            return true;
        };
        if stored["metadata"]["uid"].as_str() != pod.metadata.uid.as_deref() {
            return true;
        }
        let is_foreign = |it: &&Value| {
            let kind = it["type"].as_str();
            kind.is_some_and(|it| !pods::CONDITIONS.contains(&it))
        };
        let conditions = stored["status"]["conditions"].as_array();
        let foreign: Vec<Value> = conditions
            .into_iter()
            .flatten()
            .filter(is_foreign)
            .cloned()
            .collect();
        let mut object = Value::clone(&stored);
        object["status"] = status.write();
        if let Some(all) = object["status"]["conditions"].as_array_mut() {
            all.extend(foreign);
        }
        told(self.store.by(KUBELET).update_status(object))
    }

    fn event(&self, pod: &Pod, reason: &str, message: &str, warning: bool) {
        let about = ObjectReference {
            api_version: Some("v1".to_owned()),
            resource_version: pod.metadata.resource_version.clone(),
            ..pod_reference(pod)
        };
        self.events.tell(&about, reason, message, warning);
    }

    fn finished(&self, pod: &Pod) -> bool {
        let (namespace, name) = names(&pod.metadata);
        let options = DeleteOptions {
            grace: Some(0),
            uid: pod.metadata.uid.clone(),
            ..DeleteOptions::default()
        };
        told(self.store.delete("Pod", namespace, name, options))
    }
}

impl pods::Read for Reports {
    fn get(&self, kind: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.store.get(kind, namespace, name)
    }

    fn list(&self, kind: &str) -> Vec<Arc<Value>> {
        self.store.list(kind)
    }

    fn token(&self, pod: &Pod, audience: Option<&str>, seconds: i64) -> Result<String, String> {
        let (namespace, name) = names(&pod.metadata);
        let request = json!({"spec": {
            "audiences": audience.filter(|it| !it.is_empty()).map(|it| [it]),
            "expirationSeconds": seconds,
            "boundObjectRef": {
                "kind": "Pod", "apiVersion": "v1", "name": name, "uid": pod.metadata.uid,
            },
        }});
        let answer = self.api.request_token(namespace, account_of(pod), &request);
        let answer = answer.map_err(|it| format!("failed to fetch token: {it}"))?;
        let token = answer["status"]["token"].as_str();
        Ok(token.unwrap_or_default().to_owned())
    }
}

impl nodes::Report for Reports {
    fn health(&self, node: &str, addresses: Addresses, cidrs: [String; 2], health: Health) -> bool {
        let Some(stored) = self.store.get("Node", "", node) else {
            return true;
        };
        let mut object = Value::clone(&stored);
        object["spec"]["podCIDR"] = cidrs[0].clone().into();
        object["spec"]["podCIDRs"] = json!(cidrs);
        let stored = match self.store.by(KUBELET).update(object) {
            Ok(it) => it,
            Err(status) => return told::<()>(Err(status)),
        };
        let (ready, reason, message) = match health {
            Health::Ready => ("True", "KubeletReady", "kubelet is posting ready status"),
            Health::Starting => ("False", "KubeletNotReady", "the agent starts"),
            Health::Silent => (
                "Unknown",
                "NodeStatusUnknown",
                "Kubelet stopped posting node status.",
            ),
        };
        let mut object = Value::clone(&stored);
        let status = &mut object["status"];
        let before = status["conditions"].as_array();
        let before = before.and_then(|it| it.iter().find(|it| it["type"] == "Ready").cloned());
        let since = match before {
            Some(it) if it["status"] == ready => it["lastTransitionTime"].clone(),
            _ => now().into(),
        };
        status["conditions"] = json!([{
            "type": "Ready", "status": ready, "reason": reason, "message": message,
            "lastHeartbeatTime": now(), "lastTransitionTime": since,
        }]);
        let internal = addresses.iter();
        let mut all: Vec<Value> = internal
            .map(|it| json!({"type": "InternalIP", "address": it.to_string()}))
            .collect();
        all.push(json!({"type": "Hostname", "address": node}));
        status["addresses"] = all.into();
        let room = json!({
            "cpu": pods::NODE_CPU, "memory": pods::NODE_MEMORY, "ephemeral-storage": "100Gi", "pods": "250",
        });
        status["capacity"] = room.clone();
        status["allocatable"] = room;
        status["nodeInfo"] = json!({
            "kubeletVersion": VERSION, "kubeProxyVersion": "", "osImage": "network namespace",
            "operatingSystem": "linux", "architecture": architecture(std::env::consts::ARCH),
            "containerRuntimeVersion": "sluice-lab://1", "kernelVersion": kernel(),
            "machineID": "", "systemUUID": "", "bootID": "",
        });
        told(self.store.by(KUBELET).update_status(object))
    }

    fn renew(&self, node: &str) {
        let Some(owner) = self.store.get("Node", "", node) else {
            return;
        };
        let now = jiff::Timestamp::now();
        let now = now.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
        let renewed = match self.store.get("Lease", LEASES, node) {
            Some(held) => {
                let mut lease = Value::clone(&held);
                lease["spec"]["renewTime"] = now.into();
                self.store.by(KUBELET).update(lease)
            }
            None => self.store.by(KUBELET).create(json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {
                    "namespace": LEASES, "name": node,
                    "ownerReferences": [{
                        "apiVersion": "v1", "kind": "Node", "name": node, "uid": owner["metadata"]["uid"],
                    }],
                },
                "spec": {"holderIdentity": node, "leaseDurationSeconds": 40, "renewTime": now},
            })),
        };
        told(renewed);
    }

    fn event(&self, node: &str, reason: &str, message: &str, warning: bool) {
        let about = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            namespace: Some(String::new()),
            name: Some(node.to_owned()),
            uid: Some(node.to_owned()),
            ..ObjectReference::default()
        };
        self.events.tell(&about, reason, message, warning);
    }
}

fn names(metadata: &ObjectMeta) -> (&str, &str) {
    (
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default(),
    )
}

/// Whether nothing is left to write. A deleted object needs no status; a conflict is retried.
fn told<T>(written: Result<T, Status>) -> bool {
    let Err(status) = written else {
        return true;
    };
    if ![StatusCode::NOT_FOUND, StatusCode::CONFLICT].contains(&status.code) {
        warn!(%status, "what a kubelet reports cannot be written");
    }
    status.code == StatusCode::NOT_FOUND
}

/// The name of an architecture of Rust's in Go, which Kubernetes and images use (`runtime.GOARCH`).
pub(crate) fn architecture(rust: &str) -> &str {
    match rust {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn kernel() -> String {
    let name = nix::sys::utsname::uname();
    let release = name
        .ok()
        .map(|it| it.release().to_string_lossy().into_owned());
    release.unwrap_or_default()
}
