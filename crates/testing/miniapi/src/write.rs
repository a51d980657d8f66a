//! POST to the collections that clients may write.

use std::sync::Arc;

use hyper::StatusCode;
use serde_json::Value;
use sluice_api::body::{fit, json};
use sluice_api::{History, Resource, Status, WriteError};

/// Stores the object of a request: only events can be written. The answer is the object as stored.
pub(crate) fn create(
    history: &History,
    resource: &'static Resource,
    namespace: Option<&str>,
    body: &[u8],
) -> Result<Arc<Value>, Status> {
    if resource.kind != "Event" {
        return Err(Status::method_not_allowed());
    }
    let mut object = json(body)?;
    fit(resource, namespace, &mut object)?;
    let name = object["metadata"]["name"].as_str();
    let name = name.unwrap_or_default().to_owned();
    match history.create(object) {
        Ok(stored) => Ok(stored.value()),
        Err(WriteError::Misplaced(error)) => Err(Status::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "Invalid",
            format!(
                "{} {name:?} is invalid: {}",
                resource.full_name(),
                error.why
            ),
        )),
        Err(WriteError::Exists) => Err(Status::already_exists(resource, &name)),
    }
}
