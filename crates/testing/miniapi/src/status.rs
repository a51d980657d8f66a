//! `Status`: how Kubernetes says no.

use hyper::StatusCode;
use serde_json::{Value, json};

/// An error as the API server words it.
#[derive(Clone, Debug)]
pub(crate) struct Status {
    pub(crate) code: StatusCode,
    reason: &'static str,
    message: String,
    details: Value,
    /// Continue token for what is left of an expired list.
    resume: Option<String>,
    /// Seconds of the `Retry-After` header.
    pub(crate) retry_after: Option<u32>,
}

impl Status {
    /// A failure with a reason of the API conventions.
    pub(crate) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code: StatusCode::from_u16(code).expect("callers pass codes of HTTP"),
            reason,
            message: message.into(),
            details: Value::Null,
            resume: None,
            retry_after: None,
        }
    }

    /// The same with `Retry-After`, in the header and in the details.
    pub(crate) fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self.details = json!({ "retryAfterSeconds": seconds });
        self
    }

    /// The same with a token that goes on with an expired list.
    pub(crate) fn resume_with(mut self, token: String) -> Self {
        self.resume = Some(token);
        self
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    pub(crate) fn forbidden() -> Self {
        let message = "the server does not allow this request to this user";
        Self::new(403, "Forbidden", message)
    }

    /// No such path.
    pub(crate) fn no_resource() -> Self {
        let message = "the server could not find the requested resource";
        Self::new(404, "NotFound", message)
    }

    /// No such object.
    pub(crate) fn not_found(resource: &str, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{resource} {name:?} not found"))
    }

    pub(crate) fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(405, "MethodNotAllowed", message)
    }

    pub(crate) fn not_acceptable() -> Self {
        let message = "only application/json can be sent";
        Self::new(406, "NotAcceptable", message)
    }

    pub(crate) fn already_exists(resource: &str, name: &str) -> Self {
        let message = format!("{resource} {name:?} already exists");
        Self::new(409, "AlreadyExists", message)
    }

    /// A version that the history no longer reaches.
    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// Query parameters that contradict each other.
    pub(crate) fn invalid_options(field: &str, why: &str) -> Self {
        let message = format!("ListOptions.meta.k8s.io \"\" is invalid: {field}: {why}");
        let mut status = Self::new(422, "Invalid", message);
        status.details = json!({
            "group": "meta.k8s.io",
            "kind": "ListOptions",
            "causes": [{"reason": "FieldValueForbidden", "message": why, "field": field}],
        });
        status
    }

    pub(crate) fn too_many_requests(seconds: u32) -> Self {
        let message = "Too many requests, please try again later.";
        Self::new(429, "TooManyRequests", message).retry_after(seconds)
    }

    pub(crate) fn internal_error() -> Self {
        Self::new(500, "InternalError", "Internal error occurred: as asked")
    }

    pub(crate) fn unavailable() -> Self {
        Self::new(503, "ServiceUnavailable", "apiserver not ready")
    }

    /// A version that does not exist yet.
    pub(crate) fn too_large_version(wanted: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {wanted}, current: {current}");
        let mut status = Self::new(504, "Timeout", message).retry_after(1);
        let cause = json!({
            "reason": "ResourceVersionTooLarge",
            "message": "Too large resource version",
        });
        status.details["causes"] = json!([cause]);
        status
    }

    /// The object, as body of an answer or of an ERROR event.
    pub(crate) fn body(&self) -> Value {
        let mut body = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code.as_u16(),
        });
        if !self.details.is_null() {
            body["details"] = self.details.clone();
        }
        if let Some(token) = &self.resume {
            body["metadata"]["continue"] = token.clone().into();
        }
        body
    }

    /// The line that ends a watch with this error.
    pub(crate) fn event(&self) -> String {
        format!("{}\n", json!({"type": "ERROR", "object": self.body()}))
    }
}
