//! POST to the collections that clients may write.

use std::sync::Arc;

use hyper::StatusCode;
use serde_json::Value;
use sluice_api::body::{fit, json};
use sluice_api::{History, Resource, Status};

use crate::store;

/// Stores the object of a request: only events can be written. The answer is the object as stored.
pub(crate) fn create(
    history: &History,
    resource: &Resource,
    namespace: Option<&str>,
    body: &[u8],
) -> Result<Arc<Value>, Status> {
    if resource.kind != "Event" {
        return Err(Status::method_not_allowed());
    }
    let mut object = json(&resource.kind, body)?;
    fit(resource, namespace, &mut object)?;
    let name = object["metadata"]["name"].as_str();
    let name = name.unwrap_or_default().to_owned();
    let object = history.read(object).map_err(|error| {
        Status::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "Invalid",
            format!(
                "{} {name:?} is invalid: {}",
                resource.full_name(),
                error.why
            ),
        )
    })?;
    let key = object.key.clone();
    let mut state = history.lock();
    if state.collection(resource).get(&key).is_some() {
        return Err(Status::already_exists(resource, &name));
    }
    store::put(&mut state, object);
    let stored = state.collection(resource).get(&key).cloned();
    drop(state);
    history.wake();
    Ok(stored.expect("it was just put").value())
}
