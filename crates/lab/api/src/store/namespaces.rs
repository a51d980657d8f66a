//! Namespaces: objects exist in existing namespaces only, and are deleted with them.

use std::ops::Bound;
use std::sync::Arc;

use serde_json::{Value, json};

use super::delete::has_finalizers;
use super::writer::{Chore, Writer};
use super::{Change, DeleteOptions};
use crate::history::{Event, now};
use crate::object::{Key, Object};
use crate::resource::Resource;
use crate::status::Status;

/// Namespaces that exist from the start and cannot be deleted.
const SYSTEM: [&str; 2] = ["default", "kube-system"];

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
        let why = format!(
            "unable to create new content in namespace {} because it is being terminated",
            key.namespace
        );
        Err(Status::forbidden(resource, &key.name, &why))
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
        let contents = self.contents(&namespace.key.name);
        if contents.is_empty() && !has_finalizers(&value) {
            self.remove(resource, namespace)?;
            return Ok(value);
        }
        let mut ending = Value::clone(&value);
        ending["status"]["phase"] = "Terminating".into();
        ending["metadata"]["deletionTimestamp"] = now().into();
        let key = namespace.key.clone();
        let ending = self.commit(resource, key, ending, Some(namespace.clone()))?;
        self.chores.extend(contents);
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
        let options = DeleteOptions::default();
        self.delete(resource, key, &options).map(|_| ())
    }

    /// After an object was removed: removes its namespace if that waited for it.
    pub(super) fn settle_namespace_of(&mut self, key: &Key) {
        if let Some(resource) = self.namespaces() {
            let key = Key::new("", &*key.namespace);
            self.chores.push_back(Chore::Settle(resource, key));
        }
    }

    pub(super) fn settle_namespace(
        &mut self,
        resource: &Arc<Resource>,
        namespace: &Arc<Object>,
    ) -> Result<(), Status> {
        let value = namespace.value();
        if self.is_empty(&namespace.key.name) && !has_finalizers(&value) {
            self.remove(resource, namespace)?;
        }
        Ok(())
    }

    /// The deletion of each object in a namespace.
    pub(super) fn contents(&self, namespace: &str) -> Vec<Chore> {
        let state = self.history.lock();
        let mut chores = Vec::new();
        for collection in state.collections.values() {
            let objects = collection.objects.range(Key::new(namespace, "")..);
            let objects = objects.take_while(|(key, _)| key.namespace == namespace);
            chores.extend(objects.map(|(key, it)| Chore::Delete(it.resource.clone(), key.clone())));
        }
        chores
    }

    fn is_empty(&self, namespace: &str) -> bool {
        let state = self.history.lock();
        state.collections.values().all(|it| {
            let from = (Bound::Included(Key::new(namespace, "")), Bound::Unbounded);
            let first = it.objects.range(from).next();
            first.is_none_or(|(key, _)| key.namespace != namespace)
        })
    }

    fn namespaces(&self) -> Option<Arc<Resource>> {
        self.history.of_kind("v1", "Namespace")
    }
}

/// Completes a Namespace (`registry/core/namespace/strategy.go`, `core/v1/defaults.go`). The
/// finalizer in `spec` is left out: no other controller cleans up.
pub(crate) fn complete(namespace: &mut Value) {
    let name = namespace["metadata"]["name"].clone();
    let labels = &mut namespace["metadata"]["labels"];
    if !labels.is_object() {
        *labels = json!({});
    }
    labels["kubernetes.io/metadata.name"] = name;
    namespace["status"] = json!({"phase": "Active"});
}
