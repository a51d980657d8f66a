//! Writes the results of the controllers to the store. A refusal is logged and counted: the caller observes again.

use std::collections::BTreeMap;
use std::sync::Mutex;

use http::StatusCode;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;
use sluice_api::{DeleteOptions, Status, Store};
use sluice_controller::workloads::Write;
use sluice_controller::{Allocator, Change, Object, Typed, is_allocated};
use tracing::warn;

use super::cidrs;
use super::failures::{self, Failures};
use super::objects::Objects;
use crate::events::Events;
use crate::object::key_of;
use crate::own_service;

pub(super) struct Writes<'a> {
    pub(super) store: &'a Store,
    pub(super) events: &'a Events,
}

impl Writes<'_> {
    /// Writes EndpointSlices and Endpoints. Returns the number of refusals.
    pub(super) fn slices(&self, changes: Vec<Change>) -> usize {
        let write = |change: Change| match change {
            Change::Set(Object::EndpointSlice(it)) => self.put(&*it),
            Change::Set(Object::Endpoints(it)) => self.put(&*it),
            Change::Delete(Object::EndpointSlice(it)) => self.delete("EndpointSlice", &it.metadata),
            Change::Delete(Object::Endpoints(it)) => self.delete("Endpoints", &it.metadata),
            // The controller of EndpointSlices writes no other kind.
            _ => Ok(()),
        };
        count(changes.into_iter().map(write))
    }

    /// Keeps the Service `kubernetes`. Returns the number of refusals.
    pub(super) fn own_service(&self) -> usize {
        count([own_service::keep(self.store)].into_iter())
    }

    /// Carries out the writes of the workload controllers. Returns the number of refusals, but for objects that a
    /// controller creates: their owner waits alone.
    pub(super) fn workloads(&self, writes: Vec<Write>, failures: &mut Failures) -> usize {
        // The owner whose object was refused in this round: it creates no other, and there is no Event of a success.
        let mut failed = None;
        let write = |write: Write| match write {
            Write::Create(it) => {
                let object = it.write();
                let owner = controller(&object).and_then(|it| Some(it["uid"].as_str()?.to_owned()));
                if owner.is_some() && owner == failed {
                    return Ok(());
                }
                match self.store.create(object.clone()) {
                    Err(it) if it.is_namespace_terminating() => failed = owner,
                    // Owners of these wait for the next attempt; others would try again at once.
                    Err(it)
                        if it.code != StatusCode::CONFLICT
                            && owner.is_some()
                            && ["Pod", "Job"].iter().any(|kind| object["kind"] == *kind) =>
                    {
                        failed = failures::record(failures, &object, &it, self.events);
                    }
                    Err(it) => {
                        failed = owner;
                        return Err(it);
                    }
                    Ok(_) => {
                        failed = None;
                        owner.and_then(|it| failures.remove(&it));
                    }
                }
                Ok(())
            }
            Write::Event { about, reason, .. }
                if reason == "SuccessfulCreate" && failed.is_some() && about.uid == failed =>
            {
                Ok(())
            }
            other => self.workload(other),
        };
        count(writes.into_iter().map(write))
    }

    fn workload(&self, write: Write) -> Result<(), Status> {
        match write {
            Write::Create(it) => self.store.create(it.write()).map(drop),
            Write::Update(it) => {
                let object = it.write();
                if object["kind"] == "Pod" {
                    // The scheduler's binding: nodeName is in spec, the condition in status.
                    let stored = self.store.update(object.clone())?;
                    let mut status = (*stored).clone();
                    if status["status"] == object["status"] {
                        // A pod whose last finalizer was removed is gone.
                        return Ok(());
                    }
                    status["status"] = object["status"].clone();
                    return self.store.update_status(status).map(drop);
                }
                self.store.update(object).map(drop)
            }
            Write::UpdateStatus(it) => self.store.update_status(it.write()).map(drop),
            Write::Delete {
                kind,
                key,
                uid,
                grace,
            } => {
                let options = DeleteOptions {
                    grace,
                    uid: Some(uid),
                    ..DeleteOptions::default()
                };
                gone(self.store.delete(kind, &key.namespace, &key.name, options))
            }
            Write::Event {
                about,
                reason,
                message,
                warning,
            } => {
                self.events.tell(&about, reason, &message, warning);
                Ok(())
            }
        }
    }

    /// Writes load balancer addresses into the status of Services, the IPAddress objects of ClusterIPs, and which
    /// ServiceCIDRs are in use. Returns the number of refusals.
    pub(super) fn addresses(&self, objects: &Objects, allocator: &Mutex<Allocator>) -> usize {
        let mut wanted = BTreeMap::new();
        let mut statuses = Vec::new();
        {
            let mut allocator = allocator.lock().expect("nobody panics with it");
            for (key, service) in &objects.services {
                for it in allocator.ip_addresses_of(key) {
                    wanted.insert(it.metadata.name.clone().unwrap_or_default(), it);
                }
                let mut new = Service::clone(service);
                // The ClusterIPs are allocated already; only the address of the load balancer can be new.
                if allocator.complete(&mut new, Some(service)).is_ok()
                    && new.status != service.status
                {
                    statuses.push(new);
                }
            }
        }
        let addresses: Vec<_> = wanted.keys().filter_map(|it| it.parse().ok()).collect();
        let cidrs = cidrs::reconcile(self.store, &addresses);
        let statuses = statuses
            .into_iter()
            .map(|it| self.store.update_status(it.write()).map(drop));
        let mut refused = count(statuses.chain(cidrs));
        // Missing, or written by us for another Service. An IPAddress of another writer stays.
        let wrong = wanted.iter().filter(|(name, it)| {
            let held = objects.addresses.get(*name);
            held.is_none_or(|held| is_allocated(held) && held.spec != it.spec)
        });
        refused += count(wrong.map(|(name, it)| {
            if objects.addresses.contains_key(name) {
                // What an IPAddress refers to never changes.
                let options = DeleteOptions::default();
                gone(self.store.delete("IPAddress", "", name, options))?;
            }
            self.store.create(it.write()).map(drop)
        }));
        let stale = objects
            .addresses
            .iter()
            .filter(|(name, it)| !wanted.contains_key(*name) && is_allocated(it));
        refused
            + count(stale.map(|(name, _)| {
                let options = DeleteOptions::default();
                gone(self.store.delete("IPAddress", "", name, options))
            }))
    }

    fn delete(&self, kind: &str, metadata: &ObjectMeta) -> Result<(), Status> {
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let name = metadata.name.as_deref().unwrap_or_default();
        let options = DeleteOptions::default();
        gone(self.store.delete(kind, namespace, name, options))
    }

    /// Creates or replaces an object.
    fn put(&self, object: &impl Typed) -> Result<(), Status> {
        let object = object.write();
        let key = key_of(&object);
        let kind = object["kind"].as_str().unwrap_or_default();
        let written = match self.store.get(kind, &key.namespace, &key.name) {
            Some(_) => self.store.update(object),
            None => self.store.create(object),
        };
        written.map(drop)
    }
}

/// The owner reference to the controller of an object.
pub(super) fn controller(object: &Value) -> Option<&Value> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    owners.iter().find(|it| it["controller"] == true)
}

/// The result of a deletion; an object that does not exist is a success.
fn gone<T>(deleted: Result<T, Status>) -> Result<(), Status> {
    match deleted {
        Err(status) if status.code == StatusCode::NOT_FOUND => Ok(()),
        other => other.map(drop),
    }
}

fn count(results: impl Iterator<Item = Result<(), Status>>) -> usize {
    let refused = results.filter_map(Result::err);
    // The object goes with its namespace.
    let refused = refused.filter(|it| !it.is_namespace_terminating());
    let refused = refused.map(|status| {
        // Another client wrote the object meanwhile: the next round reads its version.
        if status.code != StatusCode::CONFLICT {
            warn!(%status, "a controller's write was refused");
        }
    });
    refused.count()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::apps::v1::ReplicaSet;
    use k8s_openapi::api::core::v1::{ObjectReference, Pod};
    use serde_json::json;
    use sluice_api::Settings;
    use sluice_controller::Pools;

    use super::*;

    /// What is written is what is read: a difference in form would be written again and again.
    #[test]
    fn addresses_of_services_are_written_once() {
        let store = Store::new(Settings::default());
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"},
            "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
        });
        let allocator = Mutex::new(Allocator::new(Pools {
            service_cidrs: vec!["10.96.0.0/16".parse().unwrap()],
            node_ports: 30000..=32767,
            load_balancers: vec!["192.168.100.208/28".parse().unwrap()],
        }));
        let mut service = crate::object::typed::<Service>(&service).unwrap();
        allocator
            .lock()
            .unwrap()
            .complete(&mut service, None)
            .unwrap();
        store.create(service.write()).unwrap();
        let events = Events::new(Arc::clone(&store));
        let writes = Writes {
            store: &store,
            events: &events,
        };
        let round = || {
            let mut objects = Objects::default();
            for it in ["Service", "IPAddress"]
                .iter()
                .flat_map(|it| store.list(it))
            {
                objects.absorb(&it, true).unwrap();
            }
            assert_eq!(writes.addresses(&objects, &allocator), 0);
            store.revision()
        };
        round();
        assert_eq!(store.list("IPAddress").len(), 1);
        assert_eq!(round(), round());
    }

    /// Refuses every Pod.
    struct NoPods;

    impl sluice_api::Admission for NoPods {
        fn admit(&mut self, _: Option<&Value>, new: &mut Value) -> Result<(), Status> {
            match new["kind"].as_str() {
                Some("Pod") => Err(Status::bad_request("no pods here")),
                _ => Ok(()),
            }
        }

        fn deleted(&mut self, _: &Value) {}
    }

    #[test]
    fn a_refused_pod_is_told_once_and_delays_its_owner_only() {
        let store = Store::new(Settings {
            admission: Box::new(NoPods),
            ..Settings::default()
        });
        let events = Events::new(Arc::clone(&store));
        let writes = Writes {
            store: &store,
            events: &events,
        };
        let owner = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1", "controller": true,
        });
        let pod = |name: &str| {
            let pod = json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": name, "namespace": "default", "ownerReferences": [owner]},
                "spec": {"containers": [{"name": "a", "image": "i"}]},
            });
            Write::Create(crate::object::typed::<Pod>(&pod).unwrap().into())
        };
        let created = || Write::Event {
            about: ObjectReference {
                uid: Some("1".to_owned()),
                ..ObjectReference::default()
            },
            reason: "SuccessfulCreate",
            message: "Created pod: web-1".to_owned(),
            warning: false,
        };
        let mut failures = Failures::new();
        let round = vec![pod("web-1"), created(), pod("web-2"), created()];
        assert_eq!(writes.workloads(round, &mut failures), 0);
        assert_eq!(failures["1"].message, "no pods here");
        let first = failures["1"].wait;
        assert_eq!(writes.workloads(vec![pod("web-3")], &mut failures), 0);
        assert!(failures["1"].wait > first);
        // A refusal of another kind lets all controllers wait.
        let set = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"name": "A b", "namespace": "default", "ownerReferences": [owner]},
        });
        let set = crate::object::typed::<ReplicaSet>(&set).unwrap();
        let set = Write::Create(set.into());
        assert_eq!(writes.workloads(vec![set], &mut failures), 1);
        let events = store.list("Event");
        let said: Vec<_> = events
            .iter()
            .map(|it| {
                (
                    it["reason"].clone(),
                    it["message"].clone(),
                    it["count"].clone(),
                )
            })
            .collect();
        let wanted = (
            "FailedCreate".into(),
            "Error creating: no pods here".into(),
            2.into(),
        );
        assert_eq!(said, [wanted]);
    }
}
