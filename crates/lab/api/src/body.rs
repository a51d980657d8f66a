//! Request bodies.

use bytes::{Bytes, BytesMut};
use hyper::body::{Body, Incoming};
use serde_json::Value;

use crate::resource::Resource;
use crate::status::Status;

/// Largest body of a request in bytes: etcd's limit of an object, 1.5 MiB.
const LARGEST: usize = 3 * 1024 * 1024 / 2;

/// The body is too large, or the client closed the connection.
#[derive(Debug, thiserror::Error)]
#[error("the request is cut off or too large")]
pub struct Unreadable;

/// Reads the body of a request.
///
/// # Errors
///
/// The client closed the connection, or the body is larger than 1.5 MiB.
pub async fn collect(mut body: Incoming) -> Result<Bytes, Unreadable> {
    let mut bytes = BytesMut::new();
    while let Some(frame) =
        std::future::poll_fn(|it| std::pin::Pin::new(&mut body).poll_frame(it)).await
    {
        let frame = frame.map_err(|_| Unreadable)?;
        bytes.extend_from_slice(frame.data_ref().map_or(&[], |it| it));
        if bytes.len() > LARGEST {
            return Err(Unreadable);
        }
    }
    Ok(bytes.freeze())
}

/// Completes kind, `apiVersion` and namespace of `object` from the path of the request.
///
/// # Errors
///
/// The object has no metadata, or contradicts the path.
pub fn fit(resource: &Resource, namespace: Option<&str>, object: &mut Value) -> Result<(), Status> {
    if !object.is_object() || !object["metadata"].is_object() {
        return Err(Status::bad_request("the body is no object with metadata"));
    }
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
    Ok(())
}

/// Parses a JSON body.
///
/// # Errors
///
/// 400.
pub fn json(body: &[u8]) -> Result<Value, Status> {
    let wrong = |it| Status::bad_request(format!("the body is no JSON object: {it}"));
    serde_json::from_slice(body).map_err(wrong)
}
