//! Writes of this process.

use std::sync::Arc;

use serde_json::Value;

use super::Store;
use crate::apply::{self, Manager};
use crate::history::now;
use crate::object::{Key, Object};
use crate::resource::Resource;
use crate::status::Status;
use crate::validation;

/// A part of the control plane that writes to the store and is recorded in `metadata.managedFields`, as it is when it writes
/// over HTTP.
#[derive(Clone, Copy)]
pub struct Author<'a> {
    pub(super) store: &'a Store,
    pub(super) manager: &'static str,
}

impl Author<'_> {
    /// As [`Store::create`].
    ///
    /// # Errors
    ///
    /// See [`Store::create`].
    pub fn create(&self, mut object: Value) -> Result<Arc<Value>, Status> {
        if let Some(resource) = self.resource(&object) {
            validation::conform(&resource, &mut object)?;
            apply::created(&resource, &mut object, &self.manager(""), &now());
        }
        self.store.create(object)
    }

    /// As [`Store::update`].
    ///
    /// # Errors
    ///
    /// See [`Store::update`].
    pub fn update(&self, mut object: Value) -> Result<Arc<Value>, Status> {
        if let Some((resource, old)) = self.stored(&object) {
            validation::conform(&resource, &mut object)?;
            let old = old.value();
            apply::replaced(&resource, &old, &mut object, &self.manager(""), &now());
        }
        self.store.update(object)
    }

    /// As [`Store::update_status`].
    ///
    /// # Errors
    ///
    /// See [`Store::update_status`].
    pub fn update_status(&self, mut object: Value) -> Result<Arc<Value>, Status> {
        if let Some((resource, old)) = self.stored(&object) {
            validation::conform(&resource, &mut object)?;
            let old = old.value();
            let manager = self.manager("status");
            object = apply::status_replaced(&resource, &old, object, &manager, &now());
        }
        self.store.update_status(object)
    }

    fn manager(&self, subresource: &str) -> Manager {
        Manager {
            name: self.manager.to_owned(),
            subresource: subresource.to_owned(),
        }
    }

    /// The kind of an object, if it is in the version in which it is stored. What is unknown the store refuses.
    fn resource(&self, object: &Value) -> Option<Arc<Resource>> {
        let text = |field: &str| object[field].as_str().unwrap_or_default();
        let resource = self
            .store
            .history
            .of_kind(text("apiVersion"), text("kind"))?;
        object["metadata"].is_object().then_some(resource)
    }

    fn stored(&self, object: &Value) -> Option<(Arc<Resource>, Arc<Object>)> {
        let resource = self.resource(object)?;
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        let namespace = match (resource.namespaced, text("namespace")) {
            (true, "") => "default",
            (_, given) => given,
        };
        let object = self
            .store
            .object(&resource, &Key::new(namespace, text("name")))?;
        Some((resource, object))
    }
}
