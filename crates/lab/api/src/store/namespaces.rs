//! Namespaces: objects exist in existing namespaces only, and are deleted with them.

mod conditions;

use std::sync::Arc;

use serde_json::{Value, json};

use super::delete::has_finalizers;
use super::writer::{Chore, Writer};
use super::{Change, DeleteOptions, Propagation};
use crate::history::{Event, now};
use crate::object::{Key, Object};
use crate::resource::Resource;
use crate::status::Status;

/// Namespaces that exist from the start and cannot be deleted (`pkg/controlplane/controller/systemnamespaces`).
const SYSTEM: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// The finalizer in `spec` that goes when a namespace that is being deleted is empty.
const FINALIZER: &str = "kubernetes";

impl Writer {
    /// Creates the system namespaces that are missing. The journal gets them with the first other
    /// change.
    pub(super) fn make_system_namespaces(&mut self) {
        let Some(resource) = &self.namespaces() else {
            return;
        };
        for name in SYSTEM {
            let key = Key::new("", name);
            if self.get(resource, &key).is_some() {
                continue;
            }
            let revision = self.next_revision();
            let mut object = json!({"metadata": {
                "name": name,
                "uid": self.history.lock().next_uid(),
                "creationTimestamp": now(),
            }});
            complete(&mut object);
            // Nothing in it can have the wrong type.
            let _ = resource.schema.decode(&mut object);
            if let Value::Object(body) = object {
                let event = Event::put(revision, resource.clone(), key, body, None);
                self.unwritten.push(Change::of(&event));
                self.history.lock().record(event);
            }
        }
    }

    /// Refuses objects in namespaces that do not exist or are being deleted.
    pub(super) fn check_namespace(&self, resource: &Resource, key: &Key) -> Result<(), Status> {
        let Some(namespaces) = self.namespaces().filter(|_| resource.namespaced) else {
            return Ok(());
        };
        let namespace = self.find(&namespaces, &Key::new("", &*key.namespace))?;
        if namespace.value()["metadata"]["deletionTimestamp"].is_null() {
            return Ok(());
        }
        Err(Status::namespace_terminating(resource, key))
    }

    pub(super) fn check_namespace_may_go(
        &self,
        resource: &Resource,
        key: &Key,
    ) -> Result<(), Status> {
        if resource.is("", "Namespace") && SYSTEM.contains(&key.name.as_str()) {
            let why = "this namespace may not be deleted";
            return Err(Status::forbidden(resource, &key.name, why));
        }
        Ok(())
    }

    /// Starts the deletion of a namespace and its objects.
    pub(super) fn end_namespace(
        &mut self,
        resource: &Arc<Resource>,
        namespace: &Arc<Object>,
    ) -> Result<Arc<Value>, Status> {
        let value = namespace.value();
        if !value["metadata"]["deletionTimestamp"].is_null() {
            return Ok(value);
        }
        let mut ending = Value::clone(&value);
        ending["status"]["phase"] = "Terminating".into();
        ending["metadata"]["deletionTimestamp"] = now().into();
        let key = namespace.key.clone();
        let ending = self.commit(resource, key.clone(), ending, Some(namespace.clone()))?;
        self.chores.push_back(Chore::Settle(resource.clone(), key));
        Ok(ending.value())
    }

    /// Deletes one object of a namespace that is being deleted.
    pub(super) fn delete_in_namespace(
        &mut self,
        resource: &Arc<Resource>,
        key: &Key,
    ) -> Result<(), Status> {
        if self.get(resource, key).is_none() {
            return Ok(());
        }
        let options = DeleteOptions {
            propagation: Propagation::Background,
            ..DeleteOptions::default()
        };
        self.delete(resource, key, &options).map(|_| ())
    }

    /// After an object was removed: its namespace may wait for it.
    pub(super) fn settle_namespace_of(&mut self, key: &Key) {
        if let Some(resource) = self.namespaces() {
            let key = Key::new("", &*key.namespace);
            let is_next = match self.chores.back() {
                Some(Chore::Settle(other, it)) => *it == key && Arc::ptr_eq(other, &resource),
                _ => false,
            };
            if !is_next {
                self.chores.push_back(Chore::Settle(resource, key));
            }
        }
    }

    /// Goes on with the deletion of a namespace: its Pods go first, then all else, then the namespace itself
    /// (`deleteAllContent` in `pkg/controller/namespace/deletion/namespaced_resources_deleter.go`).
    pub(super) fn settle_namespace(
        &mut self,
        resource: &Arc<Resource>,
        namespace: &Arc<Object>,
    ) -> Result<(), Status> {
        let value = namespace.value();
        let mut new = Value::clone(&value);
        if finalizers(&mut new).iter().any(|it| it == FINALIZER) {
            let all = self.contents(&namespace.key.name);
            let pods = all.iter().filter(|it| it.resource.is("", "Pod"));
            let pods: Vec<_> = pods.cloned().collect();
            let first = if pods.is_empty() { &all } else { &pods };
            let is_live = |it: &&Arc<Object>| it.value()["metadata"]["deletionTimestamp"].is_null();
            let live: Vec<_> = first.iter().filter(is_live).collect();
            if !live.is_empty() {
                let deletion =
                    |it: &Arc<Object>| Chore::Delete(it.resource.clone(), it.key.clone());
                self.chores.extend(live.into_iter().map(deletion));
                let chore = Chore::Settle(resource.clone(), namespace.key.clone());
                self.chores.push_back(chore);
                return Ok(());
            }
            // While there are Pods, the conditions say nothing about the rest.
            conditions::report(&mut new["status"], if pods.is_empty() { &all } else { &[] });
            if all.is_empty() {
                finalizers(&mut new).retain(|it| it != FINALIZER);
            }
        }
        if finalizers(&mut new).is_empty() && !has_finalizers(&new) {
            return self.remove(resource, namespace);
        }
        // The one form has no empty list.
        let _ = resource.schema.decode(&mut new);
        if new != *value {
            self.commit(
                resource,
                namespace.key.clone(),
                new,
                Some(namespace.clone()),
            )?;
        }
        Ok(())
    }

    /// The objects in a namespace.
    fn contents(&self, namespace: &str) -> Vec<Arc<Object>> {
        let state = self.history.lock();
        let collections = state.collections.values();
        let objects = collections.flat_map(|it| {
            let objects = it.objects.range(Key::new(namespace, "")..);
            objects.take_while(|(key, _)| key.namespace == namespace)
        });
        objects.map(|(_, it)| it.clone()).collect()
    }

    fn namespaces(&self) -> Option<Arc<Resource>> {
        self.history.of_kind("v1", "Namespace")
    }
}

/// The finalizers in `spec`, which only the subresource `finalize` changes.
pub(super) fn finalizers(namespace: &mut Value) -> &mut Vec<Value> {
    let list = &mut namespace["spec"]["finalizers"];
    if !list.is_array() {
        *list = json!([]);
    }
    list.as_array_mut().expect("it is one now")
}

/// An earlier version stored namespaces without the finalizer.
pub(super) fn adopt(resource: &Resource, object: &mut Value) {
    if resource.is("", "Namespace") && object["spec"]["finalizers"].is_null() {
        finalizers(object).push(FINALIZER.into());
    }
}

/// The label by which policies select one namespace has its name, whatever a client writes (`Canonicalize` in
/// `pkg/registry/core/namespace`). A name that is to be generated is not known yet.
pub(crate) fn name_in_label(namespace: &mut Value) {
    let name = namespace["metadata"]["name"].clone();
    if name.as_str().is_none_or(str::is_empty) {
        return;
    }
    let labels = &mut namespace["metadata"]["labels"];
    if !labels.is_object() {
        *labels = json!({});
    }
    labels["kubernetes.io/metadata.name"] = name;
}

/// Completes a Namespace (`registry/core/namespace/strategy.go`, `core/v1/defaults.go`).
pub(crate) fn complete(namespace: &mut Value) {
    name_in_label(namespace);
    let finalizers = finalizers(namespace);
    if !finalizers.iter().any(|it| it == FINALIZER) {
        finalizers.push(FINALIZER.into());
    }
    namespace["status"] = json!({"phase": "Active"});
}
