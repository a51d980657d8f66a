//! What the lab adds to objects before they are stored, and what it refuses.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use ipnet::IpNet;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::networking::v1::ServiceCIDR;
use k8s_openapi::serde::Serialize;
use k8s_openapi::serde::de::DeserializeOwned;
use serde_json::Value;
use sluice_api::{Cause, KINDS, Status};
use sluice_controller::workloads::{
    self, FieldError, default_daemon_set, default_deployment, default_pod, default_replica_set,
    default_stateful_set,
};
use sluice_controller::{Allocator, set_defaults};

use crate::control::key_of;
use crate::machines::{CLIENT, LAN};

/// Defaults, addresses and rules, as kube-apiserver has them.
pub(crate) struct Admission {
    allocator: Arc<Mutex<Allocator>>,
    /// By the name of their ServiceCIDR.
    cidrs: BTreeMap<String, Vec<IpNet>>,
}

impl Admission {
    /// `objects`: those of an earlier run, whose ServiceCIDRs count.
    pub(crate) fn new(allocator: Arc<Mutex<Allocator>>, objects: &[Value]) -> Self {
        let mut admission = Self {
            allocator,
            cidrs: BTreeMap::new(),
        };
        for it in objects.iter().filter(|it| it["kind"] == "ServiceCIDR") {
            // It was admitted once.
            let _ = admission.take_cidrs(it);
        }
        admission
    }

    fn service(&mut self, old: Option<&Value>, new: &mut Value) -> Result<(), Status> {
        let before = old.map(typed::<Service>).transpose()?;
        let mut service: Service = typed(new)?;
        set_defaults(&mut service);
        let completed = {
            let mut allocator = self.allocator.lock().expect("nobody panics with it");
            allocator.complete(&mut service, before.as_ref())
        };
        if let Err(refusals) = completed {
            let causes = refusals.iter().map(|it| (it.field.clone(), it.why.clone()));
            return Err(invalid(new, causes));
        }
        *new = untyped("v1", "Service", &service)?;
        let valid = validate(new);
        if valid.is_err() {
            sluice_api::Admission::abandoned(self, old, new);
        }
        valid
    }

    fn take_cidrs(&mut self, new: &Value) -> Result<(), Status> {
        let cidr: ServiceCIDR = typed(new)?;
        let texts = cidr.spec.and_then(|it| it.cidrs).unwrap_or_default();
        let parsed = texts.iter().map(|it| it.parse::<IpNet>());
        let Ok(parsed) = parsed.collect::<Result<Vec<_>, _>>() else {
            let why = "must be prefixes such as 10.96.0.0/16".to_owned();
            return Err(invalid(new, [("spec.cidrs".to_owned(), why)].into_iter()));
        };
        let name = cidr.metadata.name.unwrap_or_default();
        self.cidrs.insert(name, parsed);
        self.tell_cidrs();
        Ok(())
    }

    fn tell_cidrs(&self) {
        let all = self.cidrs.values().flatten().copied().collect();
        let mut allocator = self.allocator.lock().expect("nobody panics with it");
        allocator.set_service_cidrs(all);
    }
}

impl sluice_api::Admission for Admission {
    fn admit(&mut self, old: Option<&Value>, new: &mut Value) -> Result<(), Status> {
        match new["kind"].as_str().unwrap_or_default() {
            "Service" => self.service(old, new),
            "EndpointSlice" => validate(new),
            "ServiceCIDR" => self.take_cidrs(new),
            "Pod" => {
                unknown_probes(new)?;
                complete::<Pod>("v1", "Pod", old, new, default_pod, workloads::validate_pod)
            }
            "Node" => node(new),
            "Deployment" => complete::<Deployment>(
                "apps/v1",
                "Deployment",
                old,
                new,
                default_deployment,
                workloads::validate_deployment,
            ),
            "ReplicaSet" => complete::<ReplicaSet>(
                "apps/v1",
                "ReplicaSet",
                old,
                new,
                default_replica_set,
                workloads::validate_replica_set,
            ),
            "StatefulSet" => complete::<StatefulSet>(
                "apps/v1",
                "StatefulSet",
                old,
                new,
                default_stateful_set,
                workloads::validate_stateful_set,
            ),
            "DaemonSet" => complete::<DaemonSet>(
                "apps/v1",
                "DaemonSet",
                old,
                new,
                default_daemon_set,
                workloads::validate_daemon_set,
            ),
            _ => Ok(()),
        }
    }

    fn abandoned(&mut self, old: Option<&Value>, new: &Value) {
        if new["kind"] == "Service" {
            let mut allocator = self.allocator.lock().expect("nobody panics with it");
            allocator.release(&key_of(new));
            let old = old.and_then(|it| typed::<Service>(it).ok());
            // It had these before: nobody else has them.
            drop(allocator.recover(old.as_ref()));
        }
    }

    fn deleted(&mut self, old: &Value) {
        match old["kind"].as_str().unwrap_or_default() {
            "Service" => {
                let mut allocator = self.allocator.lock().expect("nobody panics with it");
                allocator.release(&key_of(old));
            }
            "ServiceCIDR" => {
                self.cidrs.remove(&*key_of(old).name);
                self.tell_cidrs();
            }
            _ => {}
        }
    }
}

/// Refuses what the agents would.
fn validate(object: &Value) -> Result<(), Status> {
    let read = sluice_source::parse("object.json", object.to_string().as_bytes());
    // One without field is about another object: a slice may be there before its Service.
    let mut causes = read.problems.into_iter().filter(|it| !it.field.is_empty());
    match causes.next() {
        None => Ok(()),
        Some(first) => {
            let causes = std::iter::once(first).chain(causes);
            Err(invalid(object, causes.map(|it| (it.field, it.message))))
        }
    }
}

/// Fills in defaults, then checks.
fn complete<T: DeserializeOwned + Serialize>(
    api_version: &str,
    kind: &str,
    old: Option<&Value>,
    new: &mut Value,
    default: impl Fn(&mut T),
    validate: impl Fn(&T, Option<&T>) -> Vec<FieldError>,
) -> Result<(), Status> {
    let old = old.map(typed::<T>).transpose()?;
    let mut object: T = typed(new)?;
    default(&mut object);
    let errors = validate(&object, old.as_ref());
    if !errors.is_empty() {
        let causes = errors.iter().map(|it| (it.field.clone(), it.message()));
        return Err(invalid(new, causes));
    }
    *new = untyped(api_version, kind, &object)?;
    Ok(())
}

/// Refuses probes that the lab's kubelets cannot ask.
fn unknown_probes(pod: &Value) -> Result<(), Status> {
    let mut causes = Vec::new();
    let containers = pod["spec"]["containers"].as_array();
    for (position, container) in containers.into_iter().flatten().enumerate() {
        for kind in ["startupProbe", "livenessProbe", "readinessProbe"] {
            let field = format!("spec.containers[{position}].{kind}");
            let why = "the lab asks over HTTP, TCP and by a command".to_owned();
            let probe = &container[kind];
            if probe["grpc"].is_object() || probe["httpGet"]["scheme"] == "HTTPS" {
                causes.push((field, why));
            }
        }
    }
    match causes.is_empty() {
        true => Ok(()),
        false => Err(invalid(pod, causes.into_iter())),
    }
}

/// The labels that kubelet gives its Node.
fn node(new: &mut Value) -> Result<(), Status> {
    let mut node: Node = typed(new)?;
    let name = node.metadata.name.clone().unwrap_or_default();
    if [CLIENT, LAN].contains(&name.as_str()) || name.contains('.') || name.len() > 50 {
        let why =
            format!("no dot, at most 50 characters, and not {CLIENT} or lan, which are machines");
        return Err(invalid(
            new,
            [("metadata.name".to_owned(), why)].into_iter(),
        ));
    }
    let labels = node.metadata.labels.get_or_insert_default();
    for (label, value) in [
        ("kubernetes.io/hostname", name.as_str()),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", std::env::consts::ARCH),
    ] {
        labels
            .entry(label.to_owned())
            .or_insert_with(|| value.to_owned());
    }
    *new = untyped("v1", "Node", &node)?;
    Ok(())
}

pub(crate) fn typed<T: DeserializeOwned>(value: &Value) -> Result<T, Status> {
    serde_json::from_value(value.clone()).map_err(|it| Status::bad_request(it.to_string()))
}

fn untyped(api_version: &str, kind: &str, object: &impl Serialize) -> Result<Value, Status> {
    let value = serde_json::to_value(object);
    let mut value = value.map_err(|it| Status::bad_request(it.to_string()))?;
    value["apiVersion"] = api_version.into();
    value["kind"] = kind.into();
    Ok(value)
}

fn invalid(object: &Value, causes: impl Iterator<Item = (String, String)>) -> Status {
    let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
    let (kind, name) = (text(&object["kind"]), text(&object["metadata"]["name"]));
    let causes: Vec<Cause> = causes
        .map(|(field, message)| Cause::invalid(field, message))
        .collect();
    match KINDS.iter().find(|it| it.kind == kind) {
        Some(resource) => Status::invalid(resource, &name, &causes),
        None => Status::bad_request(format!("there is no kind {kind}")),
    }
}
