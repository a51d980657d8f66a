//! Objects of the store, as JSON and as types.

use serde_json::Value;
use sluice_api::Status;
use sluice_controller::Typed;
use sluice_model::NamespacedName;

/// Namespace and name of an object.
pub(crate) fn key_of(object: &Value) -> NamespacedName {
    let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    NamespacedName::new(text(&metadata["namespace"]), text(&metadata["name"]))
}

/// Reads an object as its type, which drops unknown fields.
pub(crate) fn typed<T: Typed>(value: &Value) -> Result<T, Status> {
    T::read(value).map_err(|it| Status::bad_request(it.to_string()))
}
