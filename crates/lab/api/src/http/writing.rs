//! POST and PUT.

use std::sync::Arc;

use hyper::header::{HeaderValue, WARNING};
use hyper::{Method, StatusCode};
use serde_json::Value;

use super::Call;
use super::options::{Unknown, Verb, WriteOptions};
use crate::answer::{Answer, json_value};
use crate::apply::{self, Manager};
use crate::body;
use crate::history::now;
use crate::object::version_of;
use crate::protobuf;
use crate::resource::{self, Resource, Subresource};
use crate::status::Status;
use crate::store::Effect;
use crate::validation;
use crate::yaml;

/// The part of an object that a request writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// All but the status, where status is a subresource.
    Whole,
    Status,
    /// The number of replicas.
    Scale,
    /// `spec.finalizers` of a Namespace.
    Finalizers,
    /// `spec.ephemeralContainers` of a Pod.
    Ephemeral,
    /// The resources of a Pod's containers.
    Resize,
    /// The status of a CertificateSigningRequest, whose conditions say who approved it.
    Approval,
}

impl Part {
    fn subresource(self) -> &'static str {
        match self {
            Self::Whole => "",
            Self::Status => "status",
            Self::Scale => "scale",
            Self::Finalizers => "finalize",
            Self::Ephemeral => "ephemeralcontainers",
            Self::Resize => "resize",
            Self::Approval => "approval",
        }
    }

    /// Whether only the status is written.
    pub(super) fn is_status(self) -> bool {
        matches!(self, Self::Status | Self::Approval)
    }

    /// Whether a client that writes this part can own the field of the object: the others are reset (`GetResetFields` of
    /// the kinds' strategies).
    pub(super) fn may_own(self, resource: &Resource, field: &str) -> bool {
        match (self, field) {
            (_, field) if self.is_status() => {
                ["apiVersion", "kind", "metadata", "status"].contains(&field)
            }
            (_, "status") => resource.status == Subresource::Absent,
            _ => true,
        }
    }
}

/// The subresource of Namespaces.
pub(crate) const OF_NAMESPACES: &[resource::Part] = &[resource::Part {
    name: "finalize",
    api_version: "",
    kind: "Namespace",
    verbs: &["update"],
    answer: |call, method, name| match *method {
        Method::PUT => call.replace(name, Part::Finalizers),
        _ => Err(Status::method_not_allowed()),
    },
}];

/// The subresource of CertificateSigningRequests.
pub(crate) const OF_REQUESTS: &[resource::Part] = &[resource::Part {
    name: "approval",
    api_version: "",
    kind: "CertificateSigningRequest",
    verbs: &["get", "patch", "update"],
    answer: |call, method, name| call.read_or_write(method, name, Part::Approval),
}];

impl Call<'_> {
    /// Answers a request for a part that can be read with the object, replaced and patched.
    pub(super) fn read_or_write(
        &self,
        method: &Method,
        name: &str,
        part: Part,
    ) -> Result<Answer, Status> {
        match *method {
            Method::GET => self.read(Some(name)),
            Method::PUT => self.replace(name, part),
            Method::PATCH => self.patch(name, part),
            _ => Err(Status::method_not_allowed()),
        }
    }

    pub(super) fn create(&self) -> Result<Answer, Status> {
        if self.resource.namespaced && self.namespace.is_none() {
            return Err(Status::method_not_allowed());
        }
        let options = self.options(Verb::Create)?;
        let mut object = self.content()?;
        body::fit(&self.resource, self.namespace.as_deref(), &mut object)?;
        let warnings = self.check(&self.resource, &mut object, &options)?;
        Ok(with_warnings(self.make(object, &options)?, &warnings))
    }

    /// Checks the rules of this version, if objects are stored in another one, which has rules of its own.
    pub(super) fn check_version(&self, old: Option<&Value>, new: &Value) -> Result<(), Status> {
        match self.resource.conversion {
            Some(_) => validation::check(&self.resource, old, new),
            None => Ok(()),
        }
    }

    /// Stores a new object and records the field manager.
    fn make(&self, mut object: Value, options: &WriteOptions) -> Result<Answer, Status> {
        self.check_version(None, &object)?;
        let manager = manager(options, Part::Whole);
        apply::created(&self.resource, &mut object, &manager, &now());
        let stored = self.api.store.create_with(object, options.effect)?;
        let mut answer = self.shown(&stored)?;
        *answer.status_mut() = StatusCode::CREATED;
        Ok(answer)
    }

    pub(super) fn replace(&self, name: &str, part: Part) -> Result<Answer, Status> {
        let options = self.options(Verb::Update)?;
        let mut object = self.content()?;
        self.fit(&self.resource, name, &mut object)?;
        let warnings = self.check(&self.resource, &mut object, &options)?;
        let answer = match self.find(name) {
            Ok(stored) => self.shown(&self.store(&stored, object, part, &options)?)?,
            Err(_) if part == Part::Whole && self.resource.creates_by_put => {
                match self.make_by_put(name, object, &options) {
                    // Another client was first: the object can be replaced.
                    Err(status) if status.reason() == "AlreadyExists" => {
                        return self.replace(name, part);
                    }
                    made => made?,
                }
            }
            Err(missing) => return Err(missing),
        };
        Ok(with_warnings(answer, &warnings))
    }

    /// Creates the object of a PUT. Its version, if it is one, counts for nothing, and a uid must be that of an object
    /// (`Store.Update` in `registry/generic/registry/store.go`).
    fn make_by_put(
        &self,
        name: &str,
        mut object: Value,
        options: &WriteOptions,
    ) -> Result<Answer, Status> {
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        if !uid.is_empty() {
            return Err(Status::other_uid(&self.resource, &self.key(name), uid, ""));
        }
        version_of(&object)?;
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("resourceVersion");
        }
        self.make(object, options)
    }

    /// Writes `new` in place of `old` and records the field manager.
    pub(super) fn store(
        &self,
        old: &Value,
        mut new: Value,
        part: Part,
        options: &WriteOptions,
    ) -> Result<Arc<Value>, Status> {
        let manager = manager(options, part);
        if self.resource.versioned && version_of(&new)? == 0 {
            let name = new["metadata"]["name"].as_str().unwrap_or_default();
            return Err(Status::unversioned(&self.resource, name));
        }
        if part.is_status() {
            new = apply::status_replaced(&self.resource, old, new, &manager, &now());
        } else {
            self.check_version(Some(old), &new)?;
            apply::replaced(&self.resource, old, &mut new, &manager, &now());
        }
        self.store_part(new, part, options.effect)
    }

    /// Stores a part of `new`.
    pub(super) fn store_part(
        &self,
        new: Value,
        part: Part,
        effect: Effect,
    ) -> Result<Arc<Value>, Status> {
        let store = &self.api.store;
        match part {
            Part::Whole | Part::Scale => store.update_with(new, effect),
            Part::Status | Part::Approval => store.update_status_with(new, effect),
            Part::Finalizers => store.finalize(new, effect),
            Part::Ephemeral => store.add_containers(new, effect),
            Part::Resize => store.resize(new, effect),
        }
    }

    pub(super) fn find(&self, name: &str) -> Result<Arc<Value>, Status> {
        let found = self.api.store.object(&self.resource, &self.key(name));
        let found = found.ok_or_else(|| Status::not_found(&self.resource, name))?;
        Ok(self.resource.show(found.value()))
    }

    /// Completes `object`, which is of the kind `kind`, from the path, see [`body::fit`](crate::body::fit).
    pub(super) fn fit(
        &self,
        kind: &Resource,
        name: &str,
        object: &mut Value,
    ) -> Result<(), Status> {
        body::fit(kind, self.namespace.as_deref(), object)?;
        let why = match object["metadata"]["name"].as_str().unwrap_or_default() {
            "" => format!(
                "the name of the object ({name} based on URL) was undeterminable: name must be provided"
            ),
            given if given != name => {
                format!(
                    "the name of the object ({given}) does not match the name on the URL ({name})"
                )
            }
            _ => return Ok(()),
        };
        Err(Status::bad_request(why))
    }

    /// Parses the body: JSON, YAML or protobuf. A custom resource says its kind, which other objects get from the path
    /// (`UnstructuredJSONScheme` in `apis/meta/v1/unstructured`).
    pub(super) fn content(&self) -> Result<Value, Status> {
        let object = content(&self.resource.kind, self.content_type, self.body)?;
        if self.resource.custom && object["kind"].as_str().is_none_or(str::is_empty) {
            let body = String::from_utf8_lossy(self.body);
            let why = format!("Object 'Kind' is missing in '{body}'");
            return Err(validation::undecodable(&self.resource, &why));
        }
        Ok(object)
    }

    /// Checks the types of all fields. Returns a warning for each field that the kind does not
    /// have.
    pub(super) fn check(
        &self,
        kind: &Resource,
        object: &mut Value,
        options: &WriteOptions,
    ) -> Result<Vec<String>, Status> {
        apply::keep_reset(object);
        let unknown = validation::conform(kind, object)?;
        self.strict(object, &unknown, options, |it| {
            validation::undecodable(kind, &it)
        })
    }

    /// What the client is told: what the kind has to say, and what `fieldValidation` makes of unknown fields and of
    /// fields that the body gives twice, which is an error at worst, made by `refused` (`endpoints/handlers/{rest,patch}.go`).
    pub(super) fn strict(
        &self,
        object: &Value,
        unknown: &[String],
        options: &WriteOptions,
        refused: impl Fn(&str) -> Status,
    ) -> Result<Vec<String>, Status> {
        let told = self.resource.warnings.map(|it| it(&self.resource, object));
        let mut told = told.unwrap_or_default();
        let unknown = unknown.iter().map(|it| format!("unknown field {it:?}"));
        match (options.unknown, media_type(self.content_type)) {
            (Unknown::Ignored, _) => {}
            (Unknown::Warned, _) => told.extend(unknown.chain(self.twice())),
            (Unknown::Refused, APPLY) => {
                if let Some(wrong) = yaml::unmarshal_error(&self.twice()) {
                    let why = format!(
                        "error strict decoding YAML: error converting YAML to JSON: {wrong}"
                    );
                    return Err(Status::bad_request(why));
                }
            }
            (Unknown::Refused, media_type) => {
                let twice = self.twice();
                let named: Vec<_> = match media_type {
                    YAML => yaml::unmarshal_error(&twice)
                        .into_iter()
                        .chain(unknown)
                        .collect(),
                    _ => unknown.chain(twice).collect(),
                };
                if !named.is_empty() {
                    let why = format!("strict decoding error: {}", named.join(", "));
                    return Err(refused(&why));
                }
            }
        }
        Ok(told)
    }

    /// The warnings for fields that the body gives twice.
    fn twice(&self) -> Vec<String> {
        match media_type(self.content_type) {
            YAML | APPLY => yaml::duplicates(self.body),
            _ => {
                let twice = body::duplicates(self.body).into_iter();
                twice.map(|it| format!("duplicate field {it:?}")).collect()
            }
        }
    }

    /// The object in the form that the client accepts.
    pub(super) fn shown(&self, object: &Arc<Value>) -> Result<Answer, Status> {
        Ok(json_value(&self.format()?.object(&self.resource, object)))
    }
}

const YAML: &str = "application/yaml";
const APPLY: &str = "application/apply-patch+yaml";

/// The header `Content-Type` without parameters.
fn media_type(content_type: Option<&str>) -> &str {
    let given = content_type.unwrap_or("application/json");
    given.split(';').next().unwrap_or_default().trim()
}

/// Parses a body with an object of the kind `kind`: JSON, YAML or protobuf.
pub(super) fn content(
    kind: &str,
    content_type: Option<&str>,
    body: &[u8],
) -> Result<Value, Status> {
    match media_type(content_type) {
        "application/json" | "" => body::json(kind, body),
        YAML => yaml::read(body),
        "application/vnd.kubernetes.protobuf" => protobuf::read(body),
        _ => Err(Status::unsupported_media_type(&[
            "application/json",
            YAML,
            "application/vnd.kubernetes.protobuf",
        ])),
    }
}

pub(super) fn manager(options: &WriteOptions, part: Part) -> Manager {
    Manager {
        name: options.manager.clone(),
        subresource: part.subresource().to_owned(),
    }
}

/// Adds a header `Warning` for each text.
pub(super) fn with_warnings(mut answer: Answer, warnings: &[String]) -> Answer {
    for warning in warnings {
        let quoted = serde_json::json!(warning).to_string();
        if let Ok(value) = HeaderValue::from_str(&format!("299 - {quoted}")) {
            answer.headers_mut().append(WARNING, value);
        }
    }
    answer
}
