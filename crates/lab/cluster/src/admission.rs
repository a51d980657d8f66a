//! Admission of the lab: allocations and validation of objects before they are stored.

mod accounts;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use ipnet::IpNet;
use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::networking::v1::IPAddress;
use serde_json::Value;
use sluice_api::{Cause, KINDS, Status};
use sluice_controller::workloads::{
    complete_job, complete_pod, validate_cron_job, validate_daemon_set, validate_deployment,
    validate_job, validate_pod, validate_replica_set, validate_stateful_set,
};
use sluice_controller::{
    Allocator, FieldError, Refusal, Typed, is_allocated, validate_service, validate_slice,
};

use accounts::Accounts;

use crate::names::{CLIENT, LAN};
use crate::nodes::MODE;
use crate::object::{key_of, typed};
use crate::reports::architecture;
use crate::zones;

mod cidrs;
#[cfg(test)]
mod tests;

/// Checks whether a data plane can run on this machine; the error says why not.
pub(crate) type CheckMode = Box<dyn Fn(&str) -> Result<(), String> + Send>;

/// Allocates addresses and ports, adds what kube-apiserver adds beside defaults, and validates.
pub(crate) struct Admission {
    allocator: Arc<Mutex<Allocator>>,
    /// The ranges of each ServiceCIDR, by its name, and whether it is being deleted.
    cidrs: BTreeMap<String, (Vec<IpNet>, bool)>,
    /// IPAddresses that no allocator wrote, by name.
    addresses: BTreeMap<String, IPAddress>,
    accounts: Accounts,
    check_mode: CheckMode,
}

impl Admission {
    /// `objects` are those of an earlier run: their ServiceCIDRs and IPAddresses are taken into account.
    pub(crate) fn new(
        allocator: Arc<Mutex<Allocator>>,
        objects: &[Value],
        check_mode: CheckMode,
    ) -> Self {
        let mut admission = Self {
            allocator,
            cidrs: BTreeMap::new(),
            addresses: BTreeMap::new(),
            accounts: Accounts::default(),
            check_mode,
        };
        for it in objects.iter().filter(|it| it["kind"] == "ServiceCIDR") {
            // It was admitted in an earlier run.
            let _ = admission.take_cidrs(Some(it), it);
        }
        for it in objects.iter().filter(|it| it["kind"] == "ServiceAccount") {
            // It was admitted in an earlier run.
            let _ = admission.accounts.set(it);
        }
        for it in objects.iter().filter(|it| it["kind"] == "IPAddress") {
            // It was admitted in an earlier run.
            let _ = admission.take_address(it);
        }
        admission
    }

    fn service(&mut self, old: Option<&Value>, new: &mut Value) -> Result<(), Status> {
        let before = old.map(typed::<Service>).transpose()?;
        let mut service: Service = typed(new)?;
        let completed = {
            let mut allocator = self.allocator.lock().expect("nobody panics with it");
            allocator.complete(&mut service, before.as_ref())
        };
        match completed {
            Ok(()) => {}
            Err(Refusal::Failed(why)) => return Err(Status::internal(why)),
            Err(Refusal::Fields(found)) => {
                checked(new, found.into_iter().map(|it| (it.field, it.why)))?;
            }
        }
        *new = service.write();
        let errors = validate_service(&service, before.as_ref()).into_iter();
        let valid = checked(new, errors.map(|it| (it.field, it.why)));
        if valid.is_err() {
            sluice_api::Admission::abandoned(self, old, new);
        }
        valid
    }

    fn take_cidrs(&mut self, old: Option<&Value>, new: &Value) -> Result<(), Status> {
        let ranges = match cidrs::read(old, new) {
            Ok(ranges) => ranges,
            Err(problems) => return checked(new, problems),
        };
        let is_ending = !new["metadata"]["deletionTimestamp"].is_null();
        let name = key_of(new).name.to_string();
        self.cidrs.insert(name, (ranges, is_ending));
        self.tell_cidrs();
        Ok(())
    }

    /// Keeps the address of an IPAddress from Services. That of a Service has an IPAddress, or gets it soon.
    fn take_address(&mut self, new: &Value) -> Result<(), Status> {
        let address: IPAddress = typed(new)?;
        let name = address.metadata.name.clone().unwrap_or_default();
        if is_allocated(&address) {
            self.forget_address(&name);
            return Ok(());
        }
        let is_taken = name.parse().is_ok_and(|ip| {
            let allocator = self.allocator.lock().expect("nobody panics with it");
            allocator.has_given(ip)
        });
        if is_taken && !self.addresses.contains_key(&name) {
            let kind = KINDS.of_kind("networking.k8s.io/v1", "IPAddress");
            let kind = kind.ok_or_else(Status::no_resource)?;
            return Err(Status::already_exists(kind, &name));
        }
        self.addresses.insert(name, address);
        self.tell_addresses();
        Ok(())
    }

    fn forget_address(&mut self, name: &str) {
        if self.addresses.remove(name).is_some() {
            self.tell_addresses();
        }
    }

    fn tell_addresses(&self) {
        let mut allocator = self.allocator.lock().expect("nobody panics with it");
        // Whoever had an address before keeps it.
        drop(allocator.set_reserved(self.addresses.values()));
    }

    fn forget_cidrs(&mut self, object: &Value) {
        self.cidrs.remove(&*key_of(object).name);
        self.tell_cidrs();
    }

    /// Refuses names and data planes that no node of the lab can have. Adds the labels that kubelet sets.
    fn node(&self, old: Option<&Value>, new: &mut Value) -> Result<(), Status> {
        let mut node: Node = typed(new)?;
        let name = node.metadata.name.clone().unwrap_or_default();
        let mut causes = Vec::new();
        if [CLIENT, LAN].contains(&name.as_str()) || name.contains('.') || name.len() > 50 {
            let why = format!(
                "no dot, at most 50 characters, and not {CLIENT} or lan, which are machines"
            );
            causes.push(("metadata.name".to_owned(), why));
        }
        let mode = |it: &Value| {
            it["metadata"]["annotations"][MODE]
                .as_str()
                .map(str::to_owned)
        };
        // A Node keeps the mode that it has, so that its status can be written.
        if let Some(mode) = mode(new).filter(|it| old.and_then(mode).as_ref() != Some(it))
            && let Err(why) = (self.check_mode)(&mode)
        {
            causes.push((format!("metadata.annotations[{MODE}]"), why));
        }
        checked(new, causes)?;
        let labels = node.metadata.labels.get_or_insert_default();
        for (label, value) in [
            ("kubernetes.io/hostname", name.as_str()),
            ("kubernetes.io/os", "linux"),
            ("kubernetes.io/arch", architecture(std::env::consts::ARCH)),
        ] {
            labels
                .entry(label.to_owned())
                .or_insert_with(|| value.to_owned());
        }
        *new = node.write();
        Ok(())
    }

    fn tell_cidrs(&self) {
        let of = |ending: bool| {
            let all = self.cidrs.values().filter(|(_, it)| *it == ending);
            all.flat_map(|(ranges, _)| ranges).copied().collect()
        };
        let mut allocator = self.allocator.lock().expect("nobody panics with it");
        allocator.set_service_cidrs(of(false), of(true));
    }
}

impl sluice_api::Admission for Admission {
    fn admit(&mut self, old: Option<&Value>, new: &mut Value) -> Result<(), Status> {
        if old.is_some_and(|old| is_of_status(old, new)) {
            // Rules may be new since the rest was written, which a status cannot help.
            return Ok(());
        }
        match new["kind"].as_str().unwrap_or_default() {
            "Service" => self.service(old, new),
            "EndpointSlice" => check(old, new, validate_slice),
            "ServiceCIDR" => self.take_cidrs(old, new),
            "IPAddress" => self.take_address(new),
            "Pod" => {
                if old.is_none() {
                    self.accounts.admit(new)?;
                }
                complete(old, new, complete_pod, validate_pod)
            }
            "Node" => self.node(old, new),
            "ServiceAccount" => self.accounts.set(new),
            // Its selector is that of its creation.
            "Job" if old.is_some() => check(old, new, validate_job),
            "Job" => complete(old, new, complete_job, validate_job),
            "CronJob" => check(old, new, |it, old| {
                validate_cron_job(it, old, |name| zones::of(name).is_some())
            }),
            "Deployment" => check(old, new, validate_deployment),
            "ReplicaSet" => check(old, new, validate_replica_set),
            "StatefulSet" => check(old, new, validate_stateful_set),
            "DaemonSet" => check(old, new, validate_daemon_set),
            _ => Ok(()),
        }
    }

    fn marked(&mut self, new: &Value) {
        if new["kind"] == "ServiceCIDR" {
            // It was admitted before.
            drop(self.take_cidrs(Some(new), new));
        }
    }

    fn abandoned(&mut self, old: Option<&Value>, new: &Value) {
        match new["kind"].as_str().unwrap_or_default() {
            "Service" => {
                let mut allocator = self.allocator.lock().expect("nobody panics with it");
                allocator.release(&key_of(new));
                let old = old.and_then(|it| typed::<Service>(it).ok());
                // The Service had these before, and nobody got them since.
                drop(allocator.recover(old.as_ref()));
            }
            "ServiceCIDR" => match old {
                // It was admitted before.
                Some(old) => drop(self.take_cidrs(Some(old), old)),
                None => self.forget_cidrs(new),
            },
            "IPAddress" => match old {
                // It was admitted before.
                Some(old) => drop(self.take_address(old)),
                None => self.forget_address(&key_of(new).name),
            },
            "ServiceAccount" => match old {
                // It was admitted before.
                Some(old) => drop(self.accounts.set(old)),
                None => self.accounts.remove(new),
            },
            _ => {}
        }
    }

    fn deleted(&mut self, old: &Value) {
        match old["kind"].as_str().unwrap_or_default() {
            "Service" => {
                let mut allocator = self.allocator.lock().expect("nobody panics with it");
                allocator.release(&key_of(old));
            }
            "ServiceCIDR" => self.forget_cidrs(old),
            "IPAddress" => self.forget_address(&key_of(old).name),
            "ServiceAccount" => self.accounts.remove(old),
            _ => {}
        }
    }
}

/// Whether a write changes nothing but the status.
fn is_of_status(old: &Value, new: &Value) -> bool {
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else {
        return false;
    };
    let rest = |it: &(&String, &Value)| !["status", "metadata"].contains(&it.0.as_str());
    let metadata = |it: &serde_json::Map<String, Value>| {
        let mut metadata = it.get("metadata").cloned().unwrap_or_default();
        if let Some(fields) = metadata.as_object_mut() {
            fields.remove("managedFields");
            fields.remove("resourceVersion");
        }
        metadata
    };
    old.get("status") != new.get("status")
        && old.iter().filter(rest).eq(new.iter().filter(rest))
        && metadata(old) == metadata(new)
}

/// Completes an object by what kube-apiserver adds beside the defaults, then validates it.
fn complete<T: Typed>(
    old: Option<&Value>,
    new: &mut Value,
    add: impl Fn(&mut T),
    validate: impl Fn(&T, Option<&T>) -> Vec<FieldError>,
) -> Result<(), Status> {
    let mut object: T = typed(new)?;
    add(&mut object);
    *new = object.write();
    check(old, new, validate)
}

/// Refuses an object that kube-apiserver would refuse.
fn check<T: Typed>(
    old: Option<&Value>,
    new: &Value,
    validate: impl Fn(&T, Option<&T>) -> Vec<FieldError>,
) -> Result<(), Status> {
    let old = old.map(typed::<T>).transpose()?;
    let errors = validate(&typed(new)?, old.as_ref()).into_iter();
    checked(new, errors.map(|it| (it.field, it.why)))
}

/// Refuses an object if there are any causes: field and reason.
fn checked(
    object: &Value,
    causes: impl IntoIterator<Item = (String, String)>,
) -> Result<(), Status> {
    let causes = causes.into_iter();
    let causes: Vec<Cause> = causes
        .map(|(field, message)| Cause::new(field, message))
        .collect();
    if causes.is_empty() {
        return Ok(());
    }
    let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
    let (kind, name) = (text(&object["kind"]), text(&object["metadata"]["name"]));
    Err(match KINDS.iter().find(|it| it.kind == kind) {
        Some(resource) => Status::invalid(resource, &name, &causes),
        None => Status::bad_request(format!("there is no kind {kind}")),
    })
}
