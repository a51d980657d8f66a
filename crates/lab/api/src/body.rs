//! Request bodies.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper::StatusCode;
use hyper::body::Body;
use serde_json::Value;
use tokio::time::timeout;

use crate::resource::Resource;
use crate::status::Status;

/// Largest body of a request in bytes: etcd's limit of an object, 1.5 MiB.
const LARGEST: usize = 3 * 1024 * 1024 / 2;

/// Bytes of a body over the limit that are read and thrown away: a client that writes to a closed connection never reads
/// the answer.
const DISCARDED: usize = 64 * 1024 * 1024;

/// Timeout of a body: the timeout of a whole request in kube-apiserver (`--request-timeout`).
const TIMEOUT: Duration = Duration::from_secs(60);

/// Why the body of a request is not known.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// Answered with 413.
    #[error("the body is larger than {LARGEST} bytes")]
    TooLarge,
    /// The client closed the connection, or was silent for a minute: the connection ends.
    #[error("the request is cut off")]
    CutOff,
}

impl Unreadable {
    /// The answer, if the client can still get one (`NewRequestEntityTooLargeError` in
    /// `apimachinery/pkg/api/errors/errors.go`).
    ///
    /// # Errors
    ///
    /// The connection must end.
    pub fn status(self) -> Result<Status, Self> {
        match self {
            Self::TooLarge => Ok(Status::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "RequestEntityTooLarge",
                format!("Request entity too large: limit is {LARGEST}"),
            )),
            Self::CutOff => Err(self),
        }
    }
}

/// Reads the body of a request.
///
/// # Errors
///
/// The body is larger than 1.5 MiB, or not complete after a minute.
pub async fn collect(body: impl Body<Data = Bytes> + Unpin) -> Result<Bytes, Unreadable> {
    let read = timeout(TIMEOUT, read(body)).await;
    read.unwrap_or(Err(Unreadable::CutOff))
}

async fn read(mut body: impl Body<Data = Bytes> + Unpin) -> Result<Bytes, Unreadable> {
    let (mut bytes, mut size) = (BytesMut::new(), 0);
    while let Some(frame) = poll_fn(|it| Pin::new(&mut body).poll_frame(it)).await {
        let frame = frame.map_err(|_| Unreadable::CutOff)?;
        let piece = frame.data_ref().map_or(&[][..], |it| it);
        size += piece.len();
        if size > LARGEST + DISCARDED {
            return Err(Unreadable::CutOff);
        }
        if size <= LARGEST {
            bytes.extend_from_slice(piece);
        }
    }
    if size > LARGEST {
        return Err(Unreadable::TooLarge);
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
        ("kind", resource.kind.clone()),
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

mod duplicates;
#[cfg(test)]
mod tests;

pub(crate) use duplicates::duplicates;
