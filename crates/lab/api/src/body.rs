//! Request bodies.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper::body::Body;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::resource::Resource;
use crate::status::Status;
use crate::store::unknown_kind;

/// Largest body of a request in bytes (`MaxRequestBodyBytes` in `apiserver/pkg/server/config.go`): 3 MiB.
const LARGEST: usize = 3 * 1024 * 1024;

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
            Self::TooLarge => Ok(Status::too_large(format_args!("limit is {LARGEST}"))),
            Self::CutOff => Err(self),
        }
    }
}

/// Reads the body of a request.
///
/// # Errors
///
/// The body is larger than 3 MiB, or not complete after a minute.
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

/// Completes kind, `apiVersion` and namespace of `object` from the path of the request (`transformDecodeError` in
/// `endpoints/handlers/rest.go`, `EnsureObjectNamespaceMatchesRequestNamespace` in `registry/rest/meta.go`).
///
/// # Errors
///
/// 400: it is no object, or contradicts the path.
pub fn fit(resource: &Resource, namespace: Option<&str>, object: &mut Value) -> Result<(), Status> {
    let Some(fields) = object.as_object_mut() else {
        return Err(Status::bad_request("the body is no object"));
    };
    let given = |field: &str| {
        fields
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let (api_version, kind) = (given("apiVersion"), given("kind"));
    let real = resource.api_version();
    if !["", &*real].contains(&api_version) {
        return Err(Status::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({real})"
        )));
    }
    if !["", &*resource.kind].contains(&kind) {
        return Err(Status::bad_request(format!(
            "{kind} in version {:?} cannot be handled as a {}: {}",
            resource.version,
            resource.kind,
            unknown_kind(&real, kind)
        )));
    }
    fields.insert("apiVersion".to_owned(), real.into());
    fields.insert("kind".to_owned(), resource.kind.clone().into());
    let metadata = fields.entry("metadata").or_insert(Value::Null);
    if metadata.is_null() {
        *metadata = json!({});
    }
    let Some(metadata) = metadata.as_object_mut() else {
        return Err(Status::bad_request("metadata is no object"));
    };
    let Some(namespace) = namespace else {
        if !resource.namespaced {
            metadata.remove("namespace");
        }
        return Ok(());
    };
    let given = metadata.get("namespace").and_then(Value::as_str);
    if !["", namespace].contains(&given.unwrap_or_default()) {
        let why =
            "the namespace of the provided object does not match the namespace sent on the request";
        return Err(Status::bad_request(why));
    }
    metadata.insert("namespace".to_owned(), namespace.into());
    Ok(())
}

/// Parses a JSON body with an object of the kind `kind`.
///
/// # Errors
///
/// 400 (`SimpleMetaFactory.Interpret` in `runtime/serializer/json/meta.go`, `transformDecodeError` in
/// `endpoints/handlers/rest.go`).
pub fn json(kind: &str, body: &[u8]) -> Result<Value, Status> {
    let why = match serde_json::from_slice(body) {
        Ok(object @ Value::Object(_)) => return Ok(object),
        // Go decodes null into a struct without fields.
        Ok(Value::Null) => return Ok(json!({})),
        Ok(other) => format!(
            "json: cannot unmarshal {} into Go value of type {HEAD}",
            json_type(&other)
        ),
        Err(error) => syntax::problem(body).unwrap_or_else(|| error.to_string()),
    };
    Err(Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; json parse error: {why} ({})",
        summary(body)
    )))
}

/// The type that kind and version of an object are read into.
const HEAD: &str = "struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
                    \"json:\\\"kind,omitempty\\\"\" }";

/// The type of a value in the words of Go's decoder.
pub(crate) fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The begin of a body, as text if it may be an object (`summarizeData` in `endpoints/handlers/rest.go`).
fn summary(body: &[u8]) -> String {
    let begin = &body[..body.len().min(SHOWN)];
    let more = if begin.len() < body.len() { " ..." } else { "" };
    match begin.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(begin)),
        Some(_) => {
            let hex: String = begin.iter().map(|it| format!("{it:02x}")).collect();
            hex + more
        }
    }
}

/// Bytes of a body in the words of its refusal.
const SHOWN: usize = 30;

mod duplicates;
pub(crate) mod syntax;
#[cfg(test)]
mod tests;

pub(crate) use duplicates::duplicates;
