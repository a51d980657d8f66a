//! An object as a client wrote it, before the server completes its metadata.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::object::Key;
use crate::resource::Resource;

/// An object that cannot be stored: its kind is not served, or its metadata is wrong.
#[derive(Debug, thiserror::Error)]
#[error("store {object}: {why}")]
pub struct Misplaced {
    /// Kind and name, as given.
    pub object: String,
    pub why: String,
}

/// An object with its collection and its key.
#[derive(Debug)]
pub struct Incoming {
    pub resource: Arc<Resource>,
    pub key: Key,
    /// The object without `kind`, `apiVersion` and `resourceVersion`.
    pub body: Map<String, Value>,
}

impl Incoming {
    /// Finds the collection and the key of `value`. The namespace `default` is the default.
    pub(super) fn read(
        value: Value,
        of_kind: impl Fn(&str, &str) -> Option<Arc<Resource>>,
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
}

/// The present time: RFC 3339, UTC, whole seconds.
pub fn now() -> String {
    seconds(jiff::Timestamp::now())
}

/// A time as Kubernetes writes it: RFC 3339, UTC, whole seconds.
pub(crate) fn seconds(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
