//! Create and update (`registry/generic/registry/store.go`, `registry/rest/{create,update}.go`).

use std::sync::Arc;

use serde_json::Value;

use super::custom::is_definition;
use super::delete::has_finalizers;
use super::writer::{Chore, Writer};
use super::{Effect, namespaces, unknown_kind};
use crate::history::now;
use crate::object::{Key, Object, version_of};
use crate::resource::{Resource, Subresource};
use crate::status::Status;
use crate::validation;

/// Metadata that only the server sets.
const OWN: [&str; 5] = [
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
];

/// A stored object that is to be replaced.
pub(super) struct Replaced {
    pub(super) resource: Arc<Resource>,
    pub(super) key: Key,
    pub(super) old: Arc<Object>,
}

impl Writer {
    pub(super) fn create(&mut self, mut new: Value, effect: Effect) -> Result<Arc<Value>, Status> {
        let resource = &self.place(&mut new)?;
        // What is no version counts for nothing (`store.Create` in `storage/etcd3/store.go`).
        if version_of(&new).is_ok_and(|it| it != 0) {
            let why = "resourceVersion should not be set on objects to be created";
            return Err(Status::failed(why));
        }
        let metadata = &mut new["metadata"];
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.retain(|field, _| !OWN.contains(&field.as_str()));
        }
        let prefix = metadata["generateName"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let mut key = key_of(&new);
        if key.name.is_empty() && !prefix.is_empty() {
            key.name = self.generate(resource, &key, &prefix);
            new["metadata"]["name"] = key.name.clone().into();
        }
        (resource.begin)(&mut new);
        self.check_namespace(resource, &key)?;
        if resource.custom {
            self.check_definition(resource)?;
        }
        // A Job's selector has its uid.
        new["metadata"]["uid"] = self.history.lock().next_uid().into();
        let completed = self.complete(resource, None, None, &mut new);
        if let Some(taken) = self.get(resource, &key) {
            // Addresses and ports that admission gave to this name belong to the object that has the name.
            self.abandon(resource, Some(&taken.value()), &new);
            completed?;
            return Err(Status::already_exists(resource, &key.name));
        }
        completed?;
        let metadata = &mut new["metadata"];
        metadata["creationTimestamp"] = now().into();
        if counts_generations(resource) {
            metadata["generation"] = 1.into();
        }
        let stored = self.finish(resource, key.clone(), new, None, effect)?;
        if effect == Effect::Stored {
            // Its owner may have been deleted meanwhile.
            self.chores.push_back(Chore::Collect(resource.clone(), key));
        }
        Ok(stored)
    }

    pub(super) fn update(&mut self, mut new: Value, effect: Effect) -> Result<Arc<Value>, Status> {
        let Replaced { resource, key, old } = self.replaced(&mut new)?;
        let stored = old.value();
        if resource.status == Subresource::Served {
            set(&mut new, "status", &stored["status"]);
        }
        if resource.is("", "Namespace") {
            *namespaces::finalizers(&mut new) =
                namespaces::finalizers(&mut Value::clone(&stored)).clone();
        }
        self.replace(&resource, key, &old, &stored, new, effect)
    }

    /// Replaces the finalizers of a Namespace, those in `spec` too.
    pub(super) fn finalize(
        &mut self,
        mut new: Value,
        effect: Effect,
    ) -> Result<Arc<Value>, Status> {
        let Replaced { resource, key, old } = self.replaced(&mut new)?;
        let stored = old.value();
        set(&mut new, "status", &stored["status"]);
        let causes = validation::metadata::of_namespace(&new["spec"]["finalizers"]);
        validation::refuse(&resource, &key.name, &causes)?;
        self.replace(&resource, key, &old, &stored, new, effect)
    }

    pub(super) fn update_status(
        &mut self,
        mut new: Value,
        effect: Effect,
    ) -> Result<Arc<Value>, Status> {
        let Replaced { resource, key, old } = self.replaced(&mut new)?;
        let stored = old.value();
        let mut whole = Value::clone(&stored);
        set(&mut whole, "status", &new["status"]);
        for field in resource.metadata_of_status() {
            set(&mut whole["metadata"], field, &new["metadata"][field]);
        }
        self.replace(&resource, key, &old, &stored, whole, effect)
    }

    /// What `new` is to replace. `new` gets the metadata that only the server sets.
    pub(super) fn replaced(&self, new: &mut Value) -> Result<Replaced, Status> {
        let resource = self.place(new)?;
        let key = key_of(new);
        let old = self.find(&resource, &key)?;
        carry_over(&resource, &key, &old.value(), new)?;
        Ok(Replaced { resource, key, old })
    }

    /// Decodes, completes and validates an object. `before` is what admission compares it with.
    fn complete(
        &mut self,
        resource: &Resource,
        old: Option<&Value>,
        before: Option<&Value>,
        new: &mut Value,
    ) -> Result<(), Status> {
        validation::conform(resource, new)?;
        resource.complete(new);
        if let Err(refusal) = self.admit(resource, before, new) {
            return Err(validation::with_causes(resource, old, new, refusal));
        }
        // Admission may have changed the object: it is conformed once more.
        let valid =
            validation::conform(resource, new).and_then(|_| validation::check(resource, old, new));
        if valid.is_err() {
            self.abandon(resource, old, new);
        }
        valid
    }

    /// Stores `new` in place of `old`, unless they are equal. `before` is what admission
    /// compares `new` with: `old`, but for changes that only this way of writing may make.
    pub(super) fn replace(
        &mut self,
        resource: &Arc<Resource>,
        key: Key,
        old: &Arc<Object>,
        before: &Value,
        mut new: Value,
        effect: Effect,
    ) -> Result<Arc<Value>, Status> {
        let stored = old.value();
        self.complete(resource, Some(&stored), Some(before), &mut new)?;
        new["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"].clone();
        if *stored == new {
            return Ok(stored);
        }
        let is_over = !new["metadata"]["deletionTimestamp"].is_null()
            && new["metadata"]["deletionGracePeriodSeconds"]
                .as_u64()
                .unwrap_or_default()
                == 0
            && !has_finalizers(&new);
        if is_over && effect == Effect::Stored && self.may_go(resource, &key, &new) {
            if let Err(error) = self.remove(resource, old) {
                self.abandon(resource, Some(&stored), &new);
                return Err(error);
            }
            return Ok(Arc::new(new));
        }
        if counts_generations(resource) && differs(resource, before, &new) {
            new["metadata"]["generation"] = (old.generation + 1).into();
        }
        self.finish(resource, key, new, Some(old.clone()), effect)
    }

    /// Completes and checks an object by the rules of its kind, then by those of the cluster.
    fn admit(
        &mut self,
        resource: &Resource,
        old: Option<&Value>,
        new: &mut Value,
    ) -> Result<(), Status> {
        if is_definition(resource) {
            self.check_space(resource, old, new)?;
        }
        if let Some(admit) = resource.admit {
            admit(resource, &self.history.registry(), old, new)?;
        }
        if resource.custom {
            return Ok(());
        }
        self.admission.admit(old, new)
    }

    /// An admitted write was not stored.
    fn abandon(&mut self, resource: &Resource, old: Option<&Value>, new: &Value) {
        if !resource.custom {
            self.admission.abandoned(old, new);
        }
    }

    /// Whether a deleted object without finalizers in its metadata can be removed. A namespace has others, and a
    /// definition must have no objects.
    fn may_go(&self, resource: &Resource, key: &Key, new: &Value) -> bool {
        (!resource.is("", "Namespace") || new["spec"]["finalizers"].is_null())
            && (!is_definition(resource) || self.is_unused(&key.name))
    }

    fn finish(
        &mut self,
        resource: &Arc<Resource>,
        key: Key,
        new: Value,
        old: Option<Arc<Object>>,
        effect: Effect,
    ) -> Result<Arc<Value>, Status> {
        let before = old.as_ref().map(|it| it.value());
        if effect == Effect::DryRun {
            self.abandon(resource, before.as_deref(), &new);
            return Ok(Arc::new(new));
        }
        match self.commit(resource, key, new.clone(), old) {
            Ok(stored) => Ok(stored.value()),
            Err(error) => {
                self.abandon(resource, before.as_deref(), &new);
                Err(error)
            }
        }
    }

    /// The collection of an object, which gets the version in which that is stored. Fills in its namespace.
    fn place(&self, object: &mut Value) -> Result<Arc<Resource>, Status> {
        let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
        if !object.is_object() || !object["metadata"].is_object() {
            return Err(Status::bad_request("the object has no metadata"));
        }
        let (api_version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        let registry = self.history.registry();
        let given = registry.of_kind(&api_version, &kind);
        let given = given.ok_or_else(|| unknown_kind(&api_version, &kind))?;
        let resource = registry.stored_as(given).unwrap_or(given).clone();
        if !Arc::ptr_eq(&resource, given) {
            object["apiVersion"] = resource.api_version().into();
            if let Some(conversion) = given.conversion {
                (conversion.store)(object);
            }
        }
        let namespace = text(&object["metadata"]["namespace"]);
        match (resource.namespaced, namespace.as_str()) {
            (true, "") => object["metadata"]["namespace"] = "default".into(),
            (false, "") => {
                if let Some(metadata) = object["metadata"].as_object_mut() {
                    metadata.remove("namespace");
                }
            }
            (true, _) => {}
            (false, _) => {
                let message = format!("a {kind} has no namespace, yet metadata.namespace is set");
                return Err(Status::bad_request(message));
            }
        }
        Ok(resource)
    }
}

fn key_of(object: &Value) -> Key {
    let metadata = &object["metadata"];
    let text = |field: &str| metadata[field].as_str().unwrap_or_default();
    Key::new(text("namespace"), text("name"))
}

/// Checks that `new` is a version of the stored object, and copies the metadata that only the
/// server sets. What `new` says of its deletion stays where validation refuses it (`rest.BeforeUpdate`).
fn carry_over(
    resource: &Resource,
    key: &Key,
    stored: &Value,
    new: &mut Value,
) -> Result<(), Status> {
    let old = &stored["metadata"];
    let uid = new["metadata"]["uid"].as_str().unwrap_or_default();
    if !uid.is_empty() && old["uid"] != *uid {
        let real = old["uid"].as_str().unwrap_or_default();
        return Err(Status::other_uid(resource, key, uid, real));
    }
    let version = version_of(new)?;
    if version != 0 && version != version_of(stored)? {
        let why = "the object has been modified; please apply your changes to the latest version \
                   and try again";
        return Err(Status::conflict(resource, &key.name, why));
    }
    let metadata = &mut new["metadata"];
    for field in OWN {
        let is_checked = match field {
            "deletionTimestamp" => old[field].is_null(),
            "deletionGracePeriodSeconds" => !metadata[field].is_null(),
            _ => false,
        };
        if !is_checked {
            set(metadata, field, &old[field]);
        }
    }
    Ok(())
}

/// Sets a field; `Null` removes it.
pub(super) fn set(object: &mut Value, field: &str, value: &Value) {
    if let Some(object) = object.as_object_mut() {
        match value {
            Value::Null => object.remove(field),
            value => object.insert(field.to_owned(), value.clone()),
        };
    }
}

fn counts_generations(resource: &Resource) -> bool {
    let own = resource.schema.object();
    own.is_some_and(|it| it.counts_generations)
}

/// Whether a change increments the generation: any change but of metadata and of a status that is a subresource.
fn differs(resource: &Resource, old: &Value, new: &Value) -> bool {
    let is_apart = !resource.custom || resource.status == Subresource::Served;
    let contents = |it: &Value| {
        let mut fields = it.as_object().cloned().unwrap_or_default();
        fields.retain(|field, _| field != "metadata" && !(is_apart && field == "status"));
        fields
    };
    contents(old) != contents(new)
}
