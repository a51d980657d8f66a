//! What somebody wants stored, before the server adds its share.

use serde_json::{Map, Value};

use crate::error::Error;
use crate::object::{Key, Object};
use crate::resource::{self, Resource};

/// An object whose place is known.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) resource: &'static Resource,
    pub(super) key: Key,
    body: Map<String, Value>,
}

impl Incoming {
    /// Finds the place of `value`. A namespaced object without namespace goes to `default`.
    pub(super) fn read(value: Value) -> Result<Self, Error> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (kind, name) = (text(&value["kind"]), text(&value["metadata"]["name"]));
        let namespace = text(&value["metadata"]["namespace"]);
        let api_version = text(&value["apiVersion"]);
        let refuse = |why: String| Error::Object {
            object: format!("{kind:?} {name:?}"),
            why,
        };
        let Some(resource) = resource::of_kind(&api_version, &kind) else {
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
        if resource.namespaced {
            body["metadata"]["namespace"] = namespace.clone().into();
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
        let uid = format!("{number:08x}-5111-4ce0-8000-{revision:012x}");
        self.or_set("uid", uid.into());
        let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ");
        self.or_set("creationTimestamp", now.to_string().into());
        self.or_set("generation", 1.into());
        Object::freeze(self.resource, self.key, revision, self.body)
    }

    /// The version after `old`; `None` when nothing changes, which is no new version.
    pub(super) fn succeed(mut self, old: &Object, revision: u64) -> Option<Object> {
        let before = old.body();
        let metadata = &before["metadata"];
        for field in ["uid", "creationTimestamp"] {
            self.or_set(field, metadata[field].clone());
        }
        let same = contents(&before).eq(contents(&self.body));
        let generation = metadata["generation"].as_u64().unwrap_or_default();
        self.or_set("generation", (generation + u64::from(!same)).into());
        self.body["metadata"]["resourceVersion"] = metadata["resourceVersion"].clone();
        if self.body == before {
            return None;
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

/// The fields whose change is a new generation.
fn contents(body: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    let outside = ["metadata", "status"];
    body.iter()
        .filter(move |(field, _)| !outside.contains(&field.as_str()))
}
