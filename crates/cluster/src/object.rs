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

/// Fields that the type does not have are left out.
pub(crate) fn typed<T: DeserializeOwned>(value: &Value) -> Result<T, Status> {
    serde_json::from_value(value.clone()).map_err(|it| Status::bad_request(it.to_string()))
}

/// An object of k8s-openapi carries its kind when it is written.
pub(crate) fn untyped(object: &impl Serialize) -> Result<Value, Status> {
    serde_json::to_value(object).map_err(|it| Status::bad_request(it.to_string()))
}
