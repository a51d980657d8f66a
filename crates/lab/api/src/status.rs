//! `Status` of `meta.k8s.io/v1`: the errors of the API.

use std::fmt;

use hyper::StatusCode;
use serde_json::{Value, json};

use crate::object::Key;
use crate::resource::Resource;

/// The reason of a cause (`NamespaceTerminatingCause` in `core/v1/types.go`).
const TERMINATING: &str = "NamespaceTerminating";

/// An error in kube-apiserver's words.
#[derive(Clone, Debug)]
pub struct Status {
    /// The HTTP code.
    pub code: StatusCode,
    reason: &'static str,
    message: String,
    details: Value,
    /// The continue token for the rest of an expired list.
    resume: Option<String>,
    /// Seconds of the `Retry-After` header.
    pub(crate) retry_after: Option<u32>,
}

/// One of the reasons why an object is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The reason of the API conventions: `FieldValueInvalid`.
    pub reason: &'static str,
    /// `spec.ports[0].port`.
    pub field: String,
    pub message: String,
}

impl Cause {
    /// What is wrong with a field. The first words of `message` tell the reason
    /// (`apimachinery/pkg/util/validation/field/errors.go`).
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        let message = message.into();
        let reasons = [
            ("Required value", "FieldValueRequired"),
            ("Not found", "FieldValueNotFound"),
            ("Duplicate value", "FieldValueDuplicate"),
            ("Unsupported value", "FieldValueNotSupported"),
            ("Forbidden", "FieldValueForbidden"),
            ("Too long", "FieldValueTooLong"),
            ("Too many", "FieldValueTooMany"),
        ];
        let found = reasons.iter().find(|(words, _)| message.starts_with(words));
        Self {
            reason: found.map_or("FieldValueInvalid", |(_, reason)| reason),
            field: field.into(),
            message,
        }
    }
}

impl Status {
    /// A failure with a reason of the API conventions.
    pub fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: Value::Null,
            resume: None,
            retry_after: None,
        }
    }

    /// Adds `Retry-After` to the header and to the details.
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self.details = json!({ "retryAfterSeconds": seconds });
        self
    }

    /// Adds the continue token for the rest of an expired list.
    pub fn resume_with(mut self, token: String) -> Self {
        self.resume = Some(token);
        self
    }

    /// Adds the object that the error is about.
    fn about(mut self, resource: &Resource, name: &str) -> Self {
        self.details = details(resource, name);
        self
    }

    /// Adds the causes.
    fn because(mut self, causes: &[Cause]) -> Self {
        let causes = causes
            .iter()
            .map(|it| json!({"reason": it.reason, "message": it.message, "field": it.field}));
        self.details["causes"] = causes.collect();
        self
    }

    /// 400: the request cannot be read.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    /// 401: credentials are missing or wrong.
    pub fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
    }

    /// 403: the object does not allow this.
    pub fn forbidden(resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!("{} {name:?} is forbidden: {why}", resource.full_name());
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message).about(resource, name)
    }

    /// 403: no object can be created in a namespace that is being deleted
    /// (`plugin/namespace/lifecycle/admission.go`).
    pub fn namespace_terminating(resource: &Resource, key: &Key) -> Self {
        let namespace = &key.namespace;
        let why = format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        );
        let cause = Cause {
            reason: TERMINATING,
            field: "metadata.namespace".to_owned(),
            message: format!("namespace {namespace} is being terminated"),
        };
        Self::forbidden(resource, &key.name, &why).because(&[cause])
    }

    /// Whether the namespace of the object is being deleted: a controller does not try again.
    pub fn is_namespace_terminating(&self) -> bool {
        let causes = self.details["causes"].as_array();
        let mut causes = causes.into_iter().flatten();
        causes.any(|it| it["reason"] == TERMINATING)
    }

    /// 404: the path does not exist.
    pub fn no_resource() -> Self {
        let message = "the server could not find the requested resource";
        let mut status = Self::new(StatusCode::NOT_FOUND, "NotFound", message);
        // `kubectl debug` reads the name in the details without a look whether there are any.
        status.details = json!({});
        status
    }

    /// 404: the object does not exist.
    pub fn not_found(resource: &Resource, name: &str) -> Self {
        let message = format!("{} {name:?} not found", resource.full_name());
        Self::new(StatusCode::NOT_FOUND, "NotFound", message).about(resource, name)
    }

    /// 405: the path does not support the method.
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message)
    }

    /// 406: what the client accepts is not served.
    pub fn not_acceptable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    /// 409: an object of this name exists.
    pub fn already_exists(resource: &Resource, name: &str) -> Self {
        let message = format!("{} {name:?} already exists", resource.full_name());
        Self::new(StatusCode::CONFLICT, "AlreadyExists", message).about(resource, name)
    }

    /// 409: the object has another version than the client expects.
    pub fn conflict(resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} {name:?}: {why}",
            resource.full_name()
        );
        Self::new(StatusCode::CONFLICT, "Conflict", message).about(resource, name)
    }

    /// 409: the object with this name has another uid than the client expects (`Preconditions.Check` in
    /// `apiserver/pkg/storage/interfaces.go`).
    pub(crate) fn other_uid(resource: &Resource, key: &Key, wanted: &str, real: &str) -> Self {
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: \
             UID in precondition: {wanted}, UID in object meta: {real}",
            resource.storage_key(key)
        );
        Self::conflict(resource, &key.name, &why)
    }

    /// 422: an update does not name the version that it replaces.
    pub(crate) fn unversioned(resource: &Resource, name: &str) -> Self {
        // Kubernetes has the plural where other refusals have the kind.
        let resource = Resource {
            kind: resource.plural.clone(),
            ..resource.clone()
        };
        let why = "Invalid value: 0: must be specified for an update";
        let cause = Cause::new("metadata.resourceVersion", why);
        Self::invalid(&resource, name, &[cause])
    }

    /// 409: other managers own the fields (server-side apply).
    pub fn apply_conflict(message: String, causes: &[Cause]) -> Self {
        let mut status = Self::new(StatusCode::CONFLICT, "Conflict", message);
        status.details = json!({});
        status.because(causes)
    }

    /// 410: the version is older than the history.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "Expired", message)
    }

    /// 413: the request asks for too much.
    pub fn too_large(why: impl fmt::Display) -> Self {
        let message = format!("Request entity too large: {why}");
        let code = StatusCode::PAYLOAD_TOO_LARGE;
        Self::new(code, "RequestEntityTooLarge", message)
    }

    /// 500 without a reason: kube-apiserver's answer to an error that has no status of its own (`ErrorToAPIStatus` in
    /// `endpoints/handlers/responsewriters/status.go`).
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "", message)
    }

    /// 500: an object is larger than etcd stores.
    pub(crate) fn too_large_to_store() -> Self {
        Self::failed("etcdserver: request is too large")
    }

    /// 415: the content type is not one of these.
    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        let code = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        Self::new(code, "UnsupportedMediaType", message)
    }

    /// 422: the request can be read, but not carried out (`NewGenericServerResponse` in `api/errors/errors.go`).
    pub fn rejected() -> Self {
        let message = "the server rejected our request due to an error in our request";
        let mut status = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message);
        status.details = json!({});
        status
    }

    /// 422: a patch makes an object that cannot be read. `patch` is what the refusal shows.
    pub(crate) fn invalid_patch(patch: &str, why: &str) -> Self {
        let cause = Cause::new("patch", format!("Invalid value: {patch:?}: {why}"));
        let causes = [cause];
        let message = format!(" \"\" is invalid: {}", each(&causes));
        let status = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message);
        status.because(&causes)
    }

    /// 422: parameters contradict each other, or have values that do not exist. `kind` is `ListOptions`, `PatchOptions`
    /// and so on.
    pub fn invalid_options(kind: &str, causes: &[Cause]) -> Self {
        Self::invalid_of("meta.k8s.io", kind, causes)
    }

    /// 422: an object without a name, which is never stored, is wrong.
    pub(crate) fn invalid_of(group: &str, kind: &str, causes: &[Cause]) -> Self {
        let message = format!("{kind}.{group} \"\" is invalid: {}", each(causes));
        let mut status = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message);
        status.details = json!({"group": group, "kind": kind});
        status.because(causes)
    }

    /// 422: the options of a deletion contradict each other, or have a value that does not exist.
    pub fn invalid_delete_options(field: &str, why: &str) -> Self {
        Self::invalid_options("DeleteOptions", &[Cause::new(field, why)])
    }

    /// 422: fields of the object are invalid.
    pub fn invalid(resource: &Resource, name: &str, causes: &[Cause]) -> Self {
        let kind = match resource.group.as_str() {
            "" => resource.kind.clone(),
            group => format!("{}.{group}", resource.kind),
        };
        let message = format!("{kind} {name:?} is invalid: {}", each(causes));
        let status = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message);
        let mut status = status.about(resource, name).because(causes);
        status.details["kind"] = resource.kind.clone().into();
        status
    }

    /// What is wrong with the object; `None` unless the error is that its fields are invalid.
    pub(crate) fn causes(&self) -> Option<Vec<Cause>> {
        let causes = self.details["causes"].as_array().into_iter().flatten();
        let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
        let causes = causes.map(|it| Cause::new(text(&it["field"]), text(&it["message"])));
        (self.reason == "Invalid").then(|| causes.collect())
    }

    /// 500: a failure of the server (`NewInternalError` in `apimachinery/pkg/api/errors/errors.go`).
    pub fn internal(why: impl fmt::Display) -> Self {
        let message = format!("Internal error occurred: {why}");
        let mut status = Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message);
        status.details = json!({"causes": [{"message": why.to_string()}]});
        status
    }

    /// 504: the version is in the future.
    pub fn too_large_version(wanted: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {wanted}, current: {current}");
        let status = Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message);
        let mut status = status.retry_after(1);
        let cause = json!({
            "reason": "ResourceVersionTooLarge",
            "message": "Too large resource version",
        });
        status.details["causes"] = json!([cause]);
        status
    }

    /// The reason: `NotFound`, `Conflict`.
    pub fn reason(&self) -> &'static str {
        self.reason
    }

    /// The `Status` object: the body of an answer or the object of an ERROR event.
    pub fn body(&self) -> Value {
        let mut body = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code.as_u16(),
        });
        if !self.reason.is_empty() {
            body["reason"] = self.reason.into();
        }
        if !self.details.is_null() {
            body["details"] = self.details.clone();
        }
        if let Some(token) = &self.resume {
            body["metadata"]["continue"] = token.clone().into();
        }
        body
    }

    /// The ERROR event as a line, which ends a watch.
    pub fn event(&self) -> String {
        format!("{}\n", json!({"type": "ERROR", "object": self.body()}))
    }
}

/// The causes as the message of a refusal lists them.
pub(crate) fn each(causes: &[Cause]) -> String {
    let each = causes
        .iter()
        .map(|it| format!("{}: {}", it.field, it.message));
    match each.collect::<Vec<_>>() {
        one if one.len() == 1 => one.concat(),
        many => format!("[{}]", many.join(", ")),
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Status {}

/// What a Status says about its object. The core group has no name.
pub(crate) fn details(resource: &Resource, name: &str) -> Value {
    let mut details = json!({"name": name, "kind": resource.plural});
    if !resource.group.is_empty() {
        details["group"] = resource.group.clone().into();
    }
    details
}
