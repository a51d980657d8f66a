//! Owner references: the garbage collector of kube-controller-manager.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::writer::{Chore, Writer};
use super::{Change, DeleteOptions, Propagation};
use crate::object::{Key, Object};
use crate::resource::Resource;
use crate::status::Status;

/// The finalizer of an owner that is deleted after its dependents (`meta/v1/types.go`).
pub(super) const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of an object whose dependents stay.
pub(super) const ORPHAN: &str = "orphan";

/// The objects with an owner reference: by the uid of the owner, then by collection and key.
#[derive(Debug, Default)]
pub(super) struct Dependents(BTreeMap<String, BTreeMap<(String, Key), Arc<Resource>>>);

impl Dependents {
    /// Updates the index after a change.
    pub(super) fn follow(&mut self, resource: &Arc<Resource>, key: &Key, change: &Change) {
        let uids = |it: &Option<Arc<Value>>| {
            let object = it.as_deref();
            object.map(owner_uids).unwrap_or_default()
        };
        let (old, new) = (uids(&change.old), uids(&change.new));
        let entry = (resource.full_name(), key.clone());
        for uid in old.difference(&new) {
            if let Some(dependents) = self.0.get_mut(uid) {
                dependents.remove(&entry);
                if dependents.is_empty() {
                    self.0.remove(uid);
                }
            }
        }
        for uid in new.difference(&old) {
            let dependents = self.0.entry(uid.clone()).or_default();
            dependents.insert(entry.clone(), resource.clone());
        }
    }

    fn of(&self, uid: &str) -> Vec<(Arc<Resource>, Key)> {
        let found = self.0.get(uid).into_iter().flatten();
        found
            .map(|((_, key), resource)| (resource.clone(), key.clone()))
            .collect()
    }
}

fn owner_uids(object: &Value) -> BTreeSet<String> {
    let uids = owners(object).filter_map(|it| it["uid"].as_str());
    uids.map(str::to_owned).collect()
}

fn owners(object: &Value) -> impl Iterator<Item = &Value> {
    let owners = object["metadata"]["ownerReferences"].as_array();
    owners.into_iter().flatten()
}

impl Writer {
    /// The objects with an owner reference to `owner`.
    pub(super) fn dependents_of(&self, owner: &Object) -> Vec<(Arc<Resource>, Key)> {
        self.dependents.of(owner.uid.as_str().unwrap_or_default())
    }

    /// Queues what follows the removal of an object: its dependents, and owners that waited for it.
    pub(super) fn gone(&mut self, resource: &Arc<Resource>, old: &Object) {
        for (resource, key) in self.dependents_of(old) {
            self.chores.push_back(Chore::Collect(resource, key));
        }
        self.settle_owners(&old.value(), &old.key.namespace);
        if resource.namespaced {
            self.settle_namespace_of(&old.key);
        }
        if resource.custom {
            self.settle_definition_of(resource);
        }
    }

    /// Queues the owners of an object that no longer refers to them as it did: they may wait for it.
    pub(super) fn settle_owners(&mut self, old: &Value, namespace: &str) {
        for owner in owners(old) {
            if let Some((resource, owner)) = self.owner(owner, namespace) {
                self.chores
                    .push_back(Chore::Settle(resource, owner.key.clone()));
            }
        }
    }

    /// Whether a dependent has `blockOwnerDeletion` in its reference to `owner`.
    pub(super) fn is_blocked(&self, owner: &Object) -> bool {
        self.dependents_of(owner)
            .into_iter()
            .any(|(resource, key)| {
                let dependent = self.get(&resource, &key);
                dependent.is_some_and(|it| {
                    let value = it.value();
                    let mut own = owners(&value).filter(|it| it["uid"] == owner.uid);
                    own.any(|it| it["blockOwnerDeletion"] == true)
                })
            })
    }

    /// Deletes an object whose owners are all gone, or wait for it (`attemptToDeleteItem` in
    /// `pkg/controller/garbagecollector/garbagecollector.go`). When an owner remains, only the references to the others
    /// are removed.
    pub(super) fn collect(&mut self, resource: &Arc<Resource>, key: &Key) -> Result<(), Status> {
        let Some(object) = self.get(resource, key) else {
            return Ok(());
        };
        let value = object.value();
        if !value["metadata"]["deletionTimestamp"].is_null() {
            return Ok(());
        }
        let is_there = |it: &&Value| match self.owner(it, &key.namespace) {
            Some((_, owner)) => !is_waiting(&owner.value()),
            // An owner of a kind that is not served counts as existing.
            None => !self.serves(it),
        };
        let left: Vec<_> = owners(&value).filter(is_there).cloned().collect();
        if left.len() == owners(&value).count() {
            return Ok(());
        }
        if left.is_empty() {
            let mut named = owners(&value).filter_map(|it| self.owner(it, &key.namespace));
            // An owner waits: so does this object, or the owner would be gone before what is below.
            let is_awaited = named.any(|(_, it)| is_waiting(&it.value()));
            if is_awaited {
                self.unblock(&object)?;
            }
            let options = DeleteOptions {
                propagation: if is_awaited {
                    Propagation::Foreground
                } else {
                    Propagation::Unspecified
                },
                ..DeleteOptions::default()
            };
            return self.delete(resource, key, &options).map(|_| ());
        }
        self.set_owners(resource, &object, left)
    }

    /// Clears `blockOwnerDeletion` in dependents of `owner` that wait themselves: two objects that own each other would
    /// wait forever.
    fn unblock(&mut self, owner: &Object) -> Result<(), Status> {
        for (resource, key) in self.dependents_of(owner) {
            let Some(object) = self.get(&resource, &key) else {
                continue;
            };
            let value = object.value();
            if is_waiting(&value) {
                let mut owners: Vec<_> = owners(&value).cloned().collect();
                for it in owners.iter_mut().filter(|it| it["uid"] == owner.uid) {
                    it["blockOwnerDeletion"] = false.into();
                }
                self.set_owners(&resource, &object, owners)?;
            }
        }
        Ok(())
    }

    /// Removes the references to `owner` from its dependents.
    pub(super) fn orphan_dependents(&mut self, owner: &Object) -> Result<(), Status> {
        for (resource, key) in self.dependents_of(owner) {
            if let Some(object) = self.get(&resource, &key) {
                let value = object.value();
                let others = owners(&value).filter(|it| it["uid"] != owner.uid);
                self.set_owners(&resource, &object, others.cloned().collect())?;
            }
        }
        Ok(())
    }

    fn set_owners(
        &mut self,
        resource: &Arc<Resource>,
        object: &Arc<Object>,
        owners: Vec<Value>,
    ) -> Result<(), Status> {
        let mut value = Value::clone(&object.value());
        if let Some(metadata) = value["metadata"].as_object_mut() {
            match owners.as_slice() {
                [] => metadata.remove("ownerReferences"),
                _ => metadata.insert("ownerReferences".to_owned(), owners.into()),
            };
        }
        self.commit(resource, object.key.clone(), value, Some(object.clone()))?;
        Ok(())
    }

    fn serves(&self, reference: &Value) -> bool {
        let text = |field: &str| reference[field].as_str().unwrap_or_default();
        self.history
            .of_kind(text("apiVersion"), text("kind"))
            .is_some()
    }

    /// The object of an owner reference, if it exists.
    fn owner(&self, reference: &Value, namespace: &str) -> Option<(Arc<Resource>, Arc<Object>)> {
        let text = |field: &str| reference[field].as_str().unwrap_or_default();
        let resource = self.history.of_kind(text("apiVersion"), text("kind"))?;
        let namespace = if resource.namespaced { namespace } else { "" };
        let key = Key::new(namespace, text("name"));
        let owner = self.get(&resource, &key)?;
        (owner.uid == reference["uid"]).then_some((resource, owner))
    }
}

/// Whether an owner is being deleted after its dependents.
pub(super) fn is_waiting(owner: &Value) -> bool {
    !owner["metadata"]["deletionTimestamp"].is_null() && has_finalizer(owner, FOREGROUND)
}

pub(super) fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    let finalizers = object["metadata"]["finalizers"].as_array();
    finalizers.is_some_and(|all| all.iter().any(|it| it == finalizer))
}
