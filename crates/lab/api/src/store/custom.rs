//! Kinds of CustomResourceDefinitions come and go with their definitions.

use std::sync::Arc;

use hyper::StatusCode;
use serde_json::Value;

use super::writer::{Chore, Writer};
use crate::custom::{self, CLEANUP};
use crate::history::{Event, History, now};
use crate::object::{Key, Object};
use crate::resource::Resource;
use crate::status::Status;

/// Most bytes of all definitions as JSON: 1,000 of the usual ones take half of it. In memory they take thirty times as
/// much, as values and as schemas.
const MOST: usize = 64 << 20;

/// Whether a kind is the definition of kinds.
pub(super) fn is_definition(resource: &Resource) -> bool {
    resource.is("apiextensions.k8s.io", "CustomResourceDefinition")
}

/// Serves what a changed definition says, or no longer.
pub(super) fn follow(history: &History, event: &Event) {
    if !is_definition(event.resource()) {
        return;
    }
    let parts = |it: &Arc<Object>| {
        let it = it.value();
        let is_served = custom::is_established(&it);
        (
            it["spec"].clone(),
            it["status"]["acceptedNames"].clone(),
            is_served,
        )
    };
    let new = event.current();
    if new.map(parts) == event.previous.as_ref().map(parts) {
        return;
    }
    match new {
        Some(definition) => serve(history, &definition.value()),
        None => {
            let registry = history.registry();
            let gone = |it: &&Arc<Resource>| it.custom && it.full_name() == event.key().name;
            if let Some(gone) = registry.all().find(gone) {
                history.serve(registry.without(gone));
            }
        }
    }
}

/// Serves the kinds of a definition whose names are accepted.
pub(super) fn serve(history: &History, definition: &Value) {
    let versions = custom::versions(definition);
    if custom::is_established(definition) && !versions.is_empty() {
        history.serve(history.registry().with(versions));
    }
}

impl Writer {
    /// Starts the deletion of a definition and its objects.
    pub(super) fn end_definition(
        &mut self,
        resource: &Arc<Resource>,
        definition: &Arc<Object>,
    ) -> Result<Arc<Value>, Status> {
        let value = definition.value();
        if !value["metadata"]["deletionTimestamp"].is_null() {
            return Ok(value);
        }
        let mut ending = Value::clone(&value);
        ending["metadata"]["deletionTimestamp"] = now().into();
        let message =
            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
        let (status, reason) = (&mut ending["status"], "InstanceDeletionPending");
        custom::set(status, "Terminating", "True", reason, message);
        let key = definition.key.clone();
        let ending = self.commit(resource, key.clone(), ending, Some(definition.clone()))?;
        let objects = self.objects_of(&key.name);
        self.chores.extend(objects);
        self.chores.push_back(Chore::Settle(resource.clone(), key));
        Ok(ending.value())
    }

    /// Lets a definition that is being deleted go when it has no objects.
    pub(super) fn settle_definition(
        &mut self,
        resource: &Arc<Resource>,
        definition: &Arc<Object>,
    ) -> Result<(), Status> {
        if !self.is_unused(&definition.key.name) {
            return Ok(());
        }
        let mut new = Value::clone(&definition.value());
        let finalizers = new["metadata"]["finalizers"].as_array_mut();
        let is_last = finalizers.is_none_or(|all| {
            all.retain(|it| it != CLEANUP);
            all.is_empty()
        });
        if is_last {
            return self.remove(resource, definition);
        }
        let key = definition.key.clone();
        self.commit(resource, key, new, Some(definition.clone()))?;
        Ok(())
    }

    /// The deletion of each object of a definition.
    pub(super) fn objects_of(&self, definition: &str) -> Vec<Chore> {
        let state = self.history.lock();
        let collection = state.collections.get(definition).into_iter();
        let objects = collection.flat_map(|it| it.objects.values());
        let objects = objects.filter(|it| it.resource.custom);
        objects
            .map(|it| Chore::Delete(it.resource.clone(), it.key.clone()))
            .collect()
    }

    pub(super) fn is_unused(&self, definition: &str) -> bool {
        self.objects_of(definition).is_empty()
    }

    /// After an object was removed: removes its definition if that waited for it.
    pub(super) fn settle_definition_of(&mut self, resource: &Resource) {
        if let Some(definitions) = self.definitions() {
            let key = Key::new("", resource.full_name());
            self.chores.push_back(Chore::Settle(definitions, key));
        }
    }

    /// Refuses new objects of a definition that is being deleted.
    pub(super) fn check_definition(&self, resource: &Resource) -> Result<(), Status> {
        let key = Key::new("", resource.full_name());
        let definition = self.definitions().and_then(|it| self.get(&it, &key));
        match definition {
            Some(it) if !it.value()["metadata"]["deletionTimestamp"].is_null() => Err(Status::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "MethodNotAllowed",
                "create not allowed while custom resource definition is terminating",
            )),
            _ => Ok(()),
        }
    }

    /// Refuses a definition that leaves no space for others.
    pub(super) fn check_space(
        &self,
        resource: &Resource,
        old: Option<&Value>,
        new: &Value,
    ) -> Result<(), Status> {
        let size = |it: &Value| it.to_string().len();
        let (new, old) = (size(new), old.map_or(0, size));
        let state = self.history.lock();
        let all = state.collection(resource).objects.values();
        let all: usize = all.map(|it| it.bare.len()).sum();
        if new > old && all + new - old > MOST {
            return Err(Status::failed("etcdserver: mvcc: database space exceeded"));
        }
        Ok(())
    }

    fn definitions(&self) -> Option<Arc<Resource>> {
        let kind = "CustomResourceDefinition";
        self.history.of_kind("apiextensions.k8s.io/v1", kind)
    }
}
