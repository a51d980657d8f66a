//! One version of an object. Its JSON is written once and shared by every answer.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::query::unsigned;
use crate::resource::Resource;
use crate::status::Status;

/// Namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Empty for cluster-wide objects.
    pub namespace: String,
    pub name: String,
}

impl Key {
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

/// The version that an object names; 0: none (`ObjectResourceVersion` in `apiserver/pkg/storage/api_object_versioner.go`).
///
/// # Errors
///
/// 500: it is no number.
pub(crate) fn version_of(object: &Value) -> Result<u64, Status> {
    match object["metadata"]["resourceVersion"].as_str() {
        None | Some("") => Ok(0),
        Some(text) => unsigned(text).map_err(Status::failed),
    }
}

/// A stored object, which never changes: a write makes a new one.
#[derive(Debug)]
pub struct Object {
    pub key: Key,
    /// `metadata.labels`.
    pub(crate) labels: BTreeMap<String, String>,
    /// The values of the fields that a field selector may name ([`Resource::fields`]), in their order.
    pub(crate) fields: Vec<String>,
    /// JSON without `kind` and `apiVersion`.
    pub(crate) bare: Bytes,
    /// `metadata.uid`, by which owner references name the object.
    pub(crate) uid: Value,
    /// `metadata.generation`.
    pub(crate) generation: u64,
    pub(crate) revision: u64,
    pub resource: Arc<Resource>,
    /// The object as a value, made when it is first needed.
    value: OnceLock<Arc<Value>>,
}

impl Object {
    /// Makes the version `revision` of an object. `body` has no `kind` and `apiVersion`.
    pub(crate) fn freeze(
        resource: Arc<Resource>,
        key: Key,
        revision: u64,
        mut body: Map<String, Value>,
    ) -> Self {
        let metadata = body.entry("metadata").or_insert_with(|| Map::new().into());
        let uid = metadata["uid"].clone();
        let generation = metadata["generation"].as_u64().unwrap_or_default();
        metadata["resourceVersion"] = revision.to_string().into();
        let labels = metadata["labels"].as_object();
        let labels = labels.into_iter().flatten().filter_map(|(key, value)| {
            let value = value.as_str()?;
            Some((key.clone(), value.to_owned()))
        });
        let labels = labels.collect();
        let value = Value::Object(body);
        let fields = resource.fields.iter().map(|path| field(&value, path));
        Self {
            key,
            labels,
            fields: fields.collect(),
            bare: serde_json::to_vec(&value)
                .expect("values have string keys")
                .into(),
            uid,
            generation,
            revision,
            resource,
            value: OnceLock::new(),
        }
    }

    /// The fields but `kind` and `apiVersion`.
    pub fn body(&self) -> Map<String, Value> {
        serde_json::from_slice(&self.bare).expect("it was written by serde_json")
    }

    /// The same object with a later version, as a deletion reports it.
    pub(crate) fn at(&self, revision: u64) -> Self {
        Self::freeze(
            self.resource.clone(),
            self.key.clone(),
            revision,
            self.body(),
        )
    }

    /// The whole JSON in the version `asked`, as in an answer to GET and in a watch event.
    pub fn typed(&self, asked: &Resource) -> Bytes {
        let mut text = asked.opening().into_bytes();
        text.extend_from_slice(&self.item(asked)[1..]);
        text.into()
    }

    /// The JSON without `kind` and `apiVersion` in the version `asked`, as in the items of a list.
    pub(crate) fn item(&self, asked: &Resource) -> Bytes {
        let is_same =
            asked.conversion.is_none() || asked.api_version() == self.resource.api_version();
        if is_same && !asked.custom {
            return self.bare.clone();
        }
        let mut object = Value::clone(&asked.show(self.value()));
        // An item without types of Go says its kind.
        if !asked.custom
            && let Some(fields) = object.as_object_mut()
        {
            fields.retain(|it, _| !["kind", "apiVersion"].contains(&it.as_str()));
        }
        object.to_string().into()
    }

    /// The whole object in the version in which it is stored.
    pub fn value(&self) -> Arc<Value> {
        let value = self.value.get_or_init(|| {
            let mut body = self.body();
            body.insert("apiVersion".to_owned(), self.resource.api_version().into());
            body.insert("kind".to_owned(), self.resource.kind.clone().into());
            Arc::new(body.into())
        });
        value.clone()
    }
}

/// The value of a dotted field as field selectors compare it; empty when the field is missing. Some fields are computed
/// (`ToSelectableFields` in `pkg/registry/*/*/strategy.go`).
fn field(value: &Value, path: &str) -> String {
    let at = |path: &str| {
        let mut names = path.split('.');
        let found = names.try_fold(value, |value, name| value.get(name));
        found.filter(|it| !it.is_null())
    };
    let found = match path {
        "status.successful" => at("status.succeeded"),
        // No Pod has a value for it: the addresses are a list.
        "status.podIPs" => None,
        "source" => {
            let component = at("source.component").filter(|it| *it != "");
            component.or_else(|| at("reportingComponent"))
        }
        path => at(path),
    };
    // Go's zero value stands for a missing one.
    let zero = match path {
        "spec.unschedulable" | "spec.hostNetwork" => "false",
        "status.successful" | "status.replicas" => "0",
        _ => "",
    };
    match found {
        None => zero.to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}
