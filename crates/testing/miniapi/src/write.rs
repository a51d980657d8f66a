//! POST to the collections that clients may write.

use serde_json::Value;

use crate::error::Error;
use crate::resource::Resource;
use crate::status::Status;
use crate::store::{Store, WriteError};

/// Stores the object of a request. The answer is the object as stored.
pub(crate) fn create(
    store: &Store,
    resource: &'static Resource,
    namespace: Option<&str>,
    body: &[u8],
) -> Result<Value, Status> {
    if !resource.writable {
        return Err(Status::method_not_allowed());
    }
    let wrong = |it| Status::bad_request(format!("the body is no JSON object: {it}"));
    let mut object: Value = serde_json::from_slice(body).map_err(wrong)?;
    if !object.is_object() || !object["metadata"].is_object() {
        return Err(Status::bad_request("the body is no object with metadata"));
    }
    // Clients may leave the type to the path.
    for (field, real) in [
        ("kind", resource.kind.to_owned()),
        ("apiVersion", resource.api_version()),
    ] {
        if object[field].as_str().unwrap_or(&real) != real {
            let message = format!("{field} {} does not fit the path", object[field]);
            return Err(Status::bad_request(message));
        }
        object[field] = real.into();
    }
    if let Some(namespace) = namespace {
        let slot = &mut object["metadata"]["namespace"];
        if slot.as_str().unwrap_or(namespace) != namespace {
            let message = format!("metadata.namespace {slot} does not fit the path");
            return Err(Status::bad_request(message));
        }
        *slot = namespace.into();
    }
    let name = object["metadata"]["name"].as_str();
    let (full, name) = (resource.full_name(), name.unwrap_or_default().to_owned());
    match store.create(object) {
        Ok(stored) => Ok(stored.value()),
        Err(WriteError::Object(Error::Object { why, .. })) => Err(Status::new(
            422,
            "Invalid",
            format!("{full} {name:?} is invalid: {why}"),
        )),
        Err(WriteError::Object(other)) => Err(Status::bad_request(other.to_string())),
        Err(WriteError::Exists) => Err(Status::already_exists(&full, &name)),
    }
}
