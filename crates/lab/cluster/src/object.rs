//! Objects of the store, as JSON and as types.

use k8s_openapi::serde::Serialize;
use k8s_openapi::serde::de::DeserializeOwned;
use serde_json::Value;
use sluice_api::Status;
use sluice_model::NamespacedName;

/// Namespace and name of an object.
pub(crate) fn key_of(object: &Value) -> NamespacedName {
    let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    NamespacedName::new(text(&metadata["namespace"]), text(&metadata["name"]))
}

/// Reads an object as its type, which drops unknown fields.
pub(crate) fn typed<T: DeserializeOwned>(value: &Value) -> Result<T, Status> {
    serde_json::from_value(value.clone()).map_err(|it| Status::bad_request(it.to_string()))
}

/// An object as JSON. Types of k8s-openapi include kind and `apiVersion`.
pub(crate) fn untyped(object: &impl Serialize) -> Result<Value, Status> {
    serde_json::to_value(object).map_err(|it| Status::bad_request(it.to_string()))
}
