//! Writes the results of the controllers to the store. A refused write waits alone.

use std::collections::BTreeMap;
use std::sync::Mutex;

use http::StatusCode;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;
use sluice_api::{DeleteOptions, Effect, Status, Store};
use sluice_controller::workloads::Write;
use sluice_controller::{Allocator, Change, Object, Typed, is_allocated};
use sluice_model::NamespacedName;

use super::cidrs;
use super::failures::Failures;
use super::objects::Objects;
use super::refusals::{Refusals, id, id_of};
use crate::events::Events;
use crate::object::key_of;
use crate::own_service;

/// The field manager of what the controllers write.
pub(super) const MANAGER: &str = "kube-controller-manager";

pub(super) struct Writes<'a> {
    pub(super) store: &'a Store,
    pub(super) events: &'a Events,
}

impl Writes<'_> {
    /// Writes EndpointSlices and Endpoints. Returns those that are not written.
    pub(super) fn slices(&self, changes: Vec<Change>, refusals: &mut Refusals) -> Vec<Change> {
        let left = |it: &Change| match it {
            Change::Set(Object::EndpointSlice(it)) => !self.put(&**it, refusals),
            Change::Set(Object::Endpoints(it)) => !self.put(&**it, refusals),
            Change::Delete(Object::EndpointSlice(it)) => {
                !self.delete("EndpointSlice", &it.metadata, refusals)
            }
            Change::Delete(Object::Endpoints(it)) => {
                !self.delete("Endpoints", &it.metadata, refusals)
            }
            // The controller of EndpointSlices writes no other kind.
            _ => false,
        };
        changes.into_iter().filter(left).collect()
    }

    /// Keeps the Service `kubernetes`.
    pub(super) fn own_service(&self, refusals: &mut Refusals) {
        let name = "keep Service kubernetes".to_owned();
        refusals.attempt(name, || own_service::keep(self.store));
    }

    /// Carries out the writes of the workload controllers. A refused Pod or Job lets its owner wait.
    pub(super) fn workloads(
        &self,
        writes: Vec<Write>,
        failures: &mut Failures,
        refusals: &mut Refusals,
    ) {
        // The owner whose object was refused in this round: it creates no other, and there is no Event of a success.
        let mut failed = None;
        for write in writes {
            match write {
                Write::Create(it) => {
                    let object = it.write();
                    let owner = controller(&object).and_then(|it| it["uid"].as_str());
                    let owner = owner.map(str::to_owned);
                    if owner.is_none() || owner != failed {
                        failed = self.create(&object, owner, failures, refusals);
                    }
                }
                Write::Event { about, reason, .. }
                    if reason == "SuccessfulCreate" && failed.is_some() && about.uid == failed => {}
                other => self.workload(other, refusals),
            }
        }
    }

    /// Creates an object. Returns the owner, if it is refused.
    fn create(
        &self,
        object: &Value,
        owner: Option<String>,
        failures: &mut Failures,
        refusals: &mut Refusals,
    ) -> Option<String> {
        let name = id_of("create", object);
        if refusals.waits(&name) {
            return owner;
        }
        let is_told = ["Pod", "Job"].iter().any(|it| object["kind"] == *it);
        match self.store.by(MANAGER).create(object.clone()) {
            Ok(_) => {
                if let Some(owner) = owner {
                    failures.forget(&owner);
                }
                refusals.record(name, Ok(()));
                None
            }
            // Owners of these wait for the next attempt; others would try again at once.
            Err(it)
                if is_told
                    && owner.is_some()
                    && it.code != StatusCode::CONFLICT
                    && !it.is_namespace_terminating() =>
            {
                failures.record(object, &it, self.events)
            }
            Err(it) => {
                refusals.record(name, Err(it));
                owner
            }
        }
    }

    fn workload(&self, write: Write, refusals: &mut Refusals) {
        match write {
            // Needs its owner: see `workloads`.
            Write::Create(_) => {}
            Write::Update(it) => {
                let object = it.write();
                refusals.attempt(id_of("update", &object), || self.update(object));
            }
            Write::UpdateStatus(it) => self.update_status(it.write(), refusals),
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
                refusals.attempt(id("delete", kind, &key), || {
                    gone(self.store.delete(kind, &key.namespace, &key.name, options))
                });
            }
            Write::Event {
                about,
                reason,
                message,
                warning,
            } => self.events.tell(&about, reason, &message, warning),
        }
    }

    fn update(&self, object: Value) -> Result<(), Status> {
        if object["kind"] != "Pod" {
            return self.store.by(MANAGER).update(object).map(drop);
        }
        let metadata = &object["metadata"];
        let text = |field: &str| metadata[field].as_str().unwrap_or_default();
        let before = self.store.get("Pod", text("namespace"), text("name"));
        if before.is_some_and(|it| it["spec"]["nodeName"] != object["spec"]["nodeName"]) {
            // The scheduler's work.
            return self.store.bind(object, Effect::Stored).map(drop);
        }
        let stored = self.store.by(MANAGER).update(object.clone())?;
        let mut status = (*stored).clone();
        if status["status"] == object["status"] {
            // A pod whose last finalizer was removed is gone.
            return Ok(());
        }
        status["status"] = object["status"].clone();
        self.store.by(MANAGER).update_status(status).map(drop)
    }

    fn update_status(&self, object: Value, refusals: &mut Refusals) {
        let name = id_of("update the status of", &object);
        refusals.attempt(name, || {
            self.store.by(MANAGER).update_status(object).map(drop)
        });
    }

    /// Writes load balancer addresses into the status of Services, the IPAddress objects of ClusterIPs, and which
    /// ServiceCIDRs are in use.
    pub(super) fn addresses(
        &self,
        objects: &Objects,
        allocator: &Mutex<Allocator>,
        refusals: &mut Refusals,
    ) {
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
        for it in statuses {
            self.update_status(it.write(), refusals);
        }
        cidrs::reconcile(self.store, &addresses, refusals);
        // Missing, or written by us for another Service. An IPAddress of another writer stays.
        let wrong = wanted.iter().filter(|(name, it)| {
            let held = objects.addresses.get(*name);
            held.is_none_or(|held| is_allocated(held) && held.spec != it.spec)
        });
        for (name, it) in wrong {
            let key = NamespacedName::new("", name.as_str());
            refusals.attempt(id("write", "IPAddress", &key), || {
                if objects.addresses.contains_key(name) {
                    // What an IPAddress refers to never changes.
                    let options = DeleteOptions::default();
                    gone(self.store.delete("IPAddress", "", name, options))?;
                }
                self.store.by(MANAGER).create(it.write()).map(drop)
            });
        }
        let stale = objects
            .addresses
            .iter()
            .filter(|(name, it)| !wanted.contains_key(*name) && is_allocated(it));
        for (_, it) in stale {
            self.delete("IPAddress", &it.metadata, refusals);
        }
    }

    /// Deletes an object. Returns whether nothing is left to do.
    fn delete(&self, kind: &str, metadata: &ObjectMeta, refusals: &mut Refusals) -> bool {
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let name = metadata.name.as_deref().unwrap_or_default();
        let key = NamespacedName::new(namespace, name);
        refusals.attempt(id("delete", kind, &key), || {
            let options = DeleteOptions::default();
            gone(self.store.delete(kind, namespace, name, options))
        })
    }

    /// Creates or replaces an object. Returns whether nothing is left to do.
    fn put(&self, object: &impl Typed, refusals: &mut Refusals) -> bool {
        let object = object.write();
        refusals.attempt(id_of("write", &object), || {
            let key = key_of(&object);
            let kind = object["kind"].as_str().unwrap_or_default();
            let written = match self.store.get(kind, &key.namespace, &key.name) {
                Some(_) => self.store.by(MANAGER).update(object),
                None => self.store.by(MANAGER).create(object),
            };
            written.map(drop)
        })
    }
}

/// The owner reference to the controller of an object.
pub(super) fn controller(object: &Value) -> Option<&Value> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    owners.iter().find(|it| it["controller"] == true)
}

/// The result of a deletion; an object that does not exist is a success.
pub(super) fn gone<T>(deleted: Result<T, Status>) -> Result<(), Status> {
    match deleted {
        Err(status) if status.code == StatusCode::NOT_FOUND => Ok(()),
        other => other.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use jiff::{SignedDuration, Timestamp};
    use k8s_openapi::api::apps::v1::ReplicaSet;
    use k8s_openapi::api::core::v1::{ObjectReference, Pod};
    use serde_json::json;
    use sluice_api::Settings;
    use sluice_controller::{Controller, Pools};

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
        let mut refusals = Refusals::default();
        let mut round = || {
            let mut objects = Objects::default();
            for it in ["Service", "IPAddress"]
                .iter()
                .flat_map(|it| store.list(it))
            {
                objects.absorb(&it, true).unwrap();
            }
            writes.addresses(&objects, &allocator, &mut refusals);
            assert_eq!(refusals.end(), None);
            store.revision()
        };
        round();
        let [address] = &store.list("IPAddress")[..] else {
            panic!("one address");
        };
        assert_eq!(address["metadata"]["managedFields"][0]["manager"], MANAGER);
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
        let (mut failures, mut refusals) = (Failures::default(), Refusals::default());
        let round = vec![pod("web-1"), created(), pod("web-2"), created()];
        writes.workloads(round, &mut failures, &mut refusals);
        let first = failures.all().remove("1").unwrap();
        assert_eq!(first.message, "no pods here");
        writes.workloads(vec![pod("web-3")], &mut failures, &mut refusals);
        let later = failures.all().remove("1").unwrap().until;
        let later = later.duration_since(first.until);
        assert!(later.as_millis() >= 100, "{later}");
        assert_eq!(refusals.end(), None);
        // An object of another kind waits itself.
        let set = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"name": "A b", "namespace": "default", "ownerReferences": [owner]},
        });
        let set = crate::object::typed::<ReplicaSet>(&set).unwrap();
        let set = Write::Create(set.into());
        writes.workloads(vec![set], &mut failures, &mut refusals);
        assert!(refusals.end().is_some() && !refusals.is_stale());
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
        // `kubectl events --for` looks for it.
        assert_eq!(events[0]["involvedObject"]["apiVersion"], "apps/v1");
    }

    /// Refuses the slices of the Service `bad`, and counts the refusals.
    struct NoSlices(Arc<AtomicUsize>);

    impl sluice_api::Admission for NoSlices {
        fn admit(&mut self, _: Option<&Value>, new: &mut Value) -> Result<(), Status> {
            if new["kind"] == "EndpointSlice"
                && new["metadata"]["labels"]["kubernetes.io/service-name"] == "bad"
            {
                self.0.fetch_add(1, Ordering::Relaxed);
                return Err(Status::bad_request("no slices here"));
            }
            Ok(())
        }

        fn deleted(&mut self, _: &Value) {}
    }

    #[test]
    fn a_refused_slice_waits_longer_and_longer_and_alone() {
        let refused = Arc::new(AtomicUsize::new(0));
        let store = Store::new(Settings {
            admission: Box::new(NoSlices(Arc::clone(&refused))),
            ..Settings::default()
        });
        let events = Events::new(Arc::clone(&store));
        let writes = Writes {
            store: &store,
            events: &events,
        };
        let (mut slices, mut refusals) = (Controller::default(), Refusals::default());
        let service = |name: &str| {
            let service = json!({
                "apiVersion": "v1", "kind": "Service",
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"selector": {"app": name}, "ipFamilies": ["IPv4"], "ports": [{"port": 80}]},
            });
            let service = store.create(service).unwrap();
            Object::Service(Arc::new(crate::object::typed::<Service>(&service).unwrap()))
        };
        let start = Timestamp::from_second(1_000_000).unwrap();
        let bad = service("bad");
        slices.absorb(Change::Set(bad.clone()), start);
        // One round at a time, in milliseconds after the start; returns when the next one is due.
        let mut round = |slices: &mut Controller, at: i64| {
            let now = start + SignedDuration::from_millis(at);
            refusals.begin(now);
            for it in writes.slices(slices.changes(), &mut refusals) {
                slices.ask_again(&it, now);
            }
            assert!(!refusals.is_stale());
            let due = refusals.end();
            due.map(|it| it.duration_since(start).as_millis())
        };
        assert_eq!(round(&mut slices, 0), Some(20));
        // Another Service does not wait, and its change is no attempt of the first.
        slices.absorb(Change::Set(service("good")), start);
        assert_eq!(round(&mut slices, 10), Some(20));
        assert_eq!(store.list("EndpointSlice").len(), 1);
        assert_eq!(refused.load(Ordering::Relaxed), 1);
        for (at, next) in [(20, 60), (60, 140), (100_000, 100_160)] {
            assert_eq!(round(&mut slices, at), Some(next));
        }
        assert_eq!(refused.load(Ordering::Relaxed), 4);
        // What is no longer needed is no longer tried.
        slices.absorb(Change::Delete(bad), start);
        assert_eq!(round(&mut slices, 200_000), None);
        assert_eq!(refused.load(Ordering::Relaxed), 4);
    }
}
