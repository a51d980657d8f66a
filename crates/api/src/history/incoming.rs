//! What somebody wants stored, before the server adds its share.

use serde_json::{Map, Value};

use crate::object::{Fingerprint, Key, Object};
use crate::resource::Resource;

/// An object that the server has no place for.
#[derive(Debug, thiserror::Error)]
#[error("store {object}: {why}")]
pub struct Misplaced {
    /// Kind and name as given.
    pub object: String,
    /// What is wrong with it.
    pub why: String,
}

/// An object whose place is known.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) resource: &'static Resource,
    pub(super) key: Key,
    body: Map<String, Value>,
}

impl Incoming {
    /// Finds the place of `value`. A namespaced object without namespace goes to `default`.
    pub(super) fn read(
        value: Value,
        of_kind: impl Fn(&str, &str) -> Option<&'static Resource>,
    ) -> Result<Self, Misplaced> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (kind, name) = (text(&value["kind"]), text(&value["metadata"]["name"]));
        let namespace = text(&value["metadata"]["namespace"]);
        let api_version = text(&value["apiVersion"]);
        let refuse = |why: String| Misplaced {
            object: format!("{kind:?} {name:?}"),
            why,
        };
        let Some(resource) = of_kind(&api_version, &kind) else {
            return Err(refuse(format!("no collection for {api_version:?}")));
        };
        if name.is_empty() {
            return Err(refuse("metadata.name is missing".to_owned()));
        }
        let namespace = match (resource.namespaced, namespace.as_str()) {
            (true, "") => "default".to_owned(),
            (true, _) => namespace,
            (false, "") => String::new(),
            (false, _) => return Err(refuse("metadata.namespace is set".to_owned())),
        };
        let Value::Object(mut body) = value else {
            return Err(refuse("it is no object".to_owned()));
        };
        body.remove("kind");
        body.remove("apiVersion");
        let metadata = body.get_mut("metadata").and_then(Value::as_object_mut);
        if let Some(metadata) = metadata {
            metadata.remove("resourceVersion");
            if resource.namespaced {
                metadata.insert("namespace".to_owned(), namespace.clone().into());
            }
        }
        let key = Key { namespace, name };
        Ok(Self {
            resource,
            key,
            body,
        })
    }

    /// The first version. Given uid, time and generation stand.
    pub(super) fn create(mut self, number: u64, revision: u64) -> Object {
        self.or_set("uid", uid(number, revision).into());
        self.or_set("creationTimestamp", now().into());
        self.or_set("generation", 1.into());
        Object::freeze(self.resource, self.key, revision, self.body)
    }

    /// The object as it stands, as the state of `revision`.
    pub(super) fn stand(self, revision: u64) -> Object {
        Object::freeze(self.resource, self.key, revision, self.body)
    }

    /// The version after `old`; `None` when nothing changes, which is no new version.
    pub(super) fn succeed(mut self, old: &Object, revision: u64) -> Option<Object> {
        self.or_set("uid", old.uid.clone());
        self.or_set("creationTimestamp", old.created.clone());
        self.body["metadata"]["generation"] = old.generation.into();
        let fingerprint = Fingerprint::of(&self.body);
        if fingerprint == old.fingerprint {
            return None;
        }
        if fingerprint.contents != old.fingerprint.contents {
            self.body["metadata"]["generation"] = (old.generation + 1).into();
        }
        Some(Object::freeze(self.resource, self.key, revision, self.body))
    }

    /// Sets a field of the metadata unless it is given.
    fn or_set(&mut self, field: &str, value: Value) {
        let slot = &mut self.body["metadata"][field];
        if slot.is_null() {
            *slot = value;
        }
    }
}

/// The uid of the object that was created as number `number`, with version `revision`.
pub(crate) fn uid(number: u64, revision: u64) -> String {
    format!("{number:08x}-5111-4ce0-8000-{revision:012x}")
}

/// The time as Kubernetes writes it.
pub(crate) fn now() -> String {
    seconds(jiff::Timestamp::now())
}

/// A time as Kubernetes writes it: in UTC, whole seconds.
pub(crate) fn seconds(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
