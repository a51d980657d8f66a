//! PATCH.

use std::sync::Arc;

use hyper::StatusCode;
use serde_json::Value;

use super::Call;
use super::options::WriteOptions;
use super::writing::{Part, manager, with_warnings};
use crate::answer::Answer;
use crate::apply::{self, Conflicts, applied};
use crate::body;
use crate::history::now;
use crate::patch::{PatchType, patched, shown};
use crate::resource::Resource;
use crate::status::{Cause, Status};
use crate::validation;
use crate::yaml;

/// Attempts when another client writes the object at the same time (`handlers/patch.go`).
const ATTEMPTS: usize = 5;

impl Call<'_> {
    pub(super) fn patch(&self, name: &str, part: Part) -> Result<Answer, Status> {
        let patch_type = self.patch_type()?;
        let options = self.options(patch_type.verb())?;
        for _ in 1..ATTEMPTS {
            match self.attempt(name, part, patch_type, &options) {
                Err(Refused::Outdated(_)) => {}
                other => return other.map_err(Refused::status),
            }
        }
        let last = self.attempt(name, part, patch_type, &options);
        last.map_err(Refused::status)
    }

    /// The type of the patch, which the kind must know.
    pub(super) fn patch_type(&self) -> Result<PatchType, Status> {
        let patch_type = PatchType::of(self.content_type)?;
        if self.resource.custom && patch_type == PatchType::Strategic {
            return Err(Status::unsupported_media_type(&[
                "application/json-patch+json",
                "application/merge-patch+json",
                "application/apply-patch+yaml",
            ]));
        }
        Ok(patch_type)
    }

    fn attempt(
        &self,
        name: &str,
        part: Part,
        patch_type: PatchType,
        options: &WriteOptions,
    ) -> Result<Answer, Refused> {
        let (stored, warnings) = match patch_type {
            PatchType::Apply => match self.find(name) {
                Ok(old) => self.apply(name, Some(&old), part, options)?,
                Err(missing) if part.is_status() => return Err(missing.into()),
                Err(_) => {
                    let (stored, warnings) = self.apply(name, None, part, options)?;
                    let mut answer = self.shown(&stored)?;
                    *answer.status_mut() = StatusCode::CREATED;
                    return Ok(with_warnings(answer, &warnings));
                }
            },
            _ => {
                let old = self.find(name)?;
                let (new, warnings) =
                    self.patched(&self.resource, &old, name, patch_type, options)?;
                self.keeps_uid(name, &old, &new)?;
                let is_latest = version(&new) == version(&old);
                let stored = self.store(&old, new, part, options);
                (stored.map_err(|it| Refused::of(it, is_latest))?, warnings)
            }
        };
        Ok(with_warnings(self.shown(&stored)?, &warnings))
    }

    /// Refuses a patch of the uid (`ValidateObjectMetaAccessorUpdate`). Of a PUT it is a precondition.
    fn keeps_uid(&self, name: &str, old: &Value, new: &Value) -> Result<(), Status> {
        let uid = &new["metadata"]["uid"];
        if uid.is_null() || *uid == "" || *uid == old["metadata"]["uid"] {
            return Ok(());
        }
        let why = format!("Invalid value: {uid}: field is immutable");
        validation::refuse(&self.resource, name, &[Cause::new("metadata.uid", why)])
    }

    /// The object, which is of the kind `kind`, after the patch, and what the client is told.
    pub(super) fn patched(
        &self,
        kind: &Resource,
        old: &Value,
        name: &str,
        patch_type: PatchType,
        options: &WriteOptions,
    ) -> Result<(Value, Vec<String>), Status> {
        let schema = &kind.schema;
        let mut new = patched(schema, old, patch_type, self.body)?;
        let refused = |why: &str| match patched(schema, old, patch_type, self.body) {
            Ok(new) => Status::invalid_patch(&shown(patch_type, self.body, &new), why),
            Err(status) => status,
        };
        // What the patch makes is decoded before anything else is asked about it.
        for (field, own) in [
            ("apiVersion", kind.api_version()),
            ("kind", kind.kind.clone()),
        ] {
            let given = &new[field];
            if !given.is_string() || *given == *own {
                continue;
            }
            if kind.custom {
                let why = format!("Invalid value: {given}: must be {own}");
                return Err(Status::invalid(kind, name, &[Cause::new(field, why)]));
            }
            let text = |field: &str| new[field].as_str().unwrap_or_default();
            let (named, version) = (text("kind"), text("apiVersion"));
            let why = format!("no kind {named:?} is registered for version {version:?}");
            return Err(refused(&why));
        }
        apply::keep_reset(&mut new);
        let decoded = schema.decode(&mut new);
        let unknown = decoded.map_err(|it| refused(&it.to_string()))?;
        let warnings = self.strict(&new, &unknown, options, refused)?;
        self.fit(kind, name, &mut new)?;
        Ok((new, warnings))
    }

    fn apply(
        &self,
        name: &str,
        old: Option<&Value>,
        part: Part,
        options: &WriteOptions,
    ) -> Result<(Arc<Value>, Vec<String>), Refused> {
        let mut config = self.config(&self.resource.api_version(), &self.resource.kind)?;
        body::fit(&self.resource, self.namespace.as_deref(), &mut config)?;
        if old.is_some() && config["metadata"]["name"].is_null() {
            config["metadata"]["name"] = name.into();
        }
        self.fit(&self.resource, name, &mut config)?;
        match old {
            Some(old) => self.keeps_uid(name, old, &config)?,
            None => {
                let uid = config["metadata"]["uid"].as_str().unwrap_or_default();
                if !uid.is_empty() {
                    let why = format!(
                        "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                    );
                    return Err(Status::conflict(&self.resource, name, &why).into());
                }
                // A version that is too old is found where the object is: here is none.
                if let Some(metadata) = config["metadata"].as_object_mut() {
                    metadata.remove("resourceVersion");
                }
            }
        }
        let unknown = validation::prune(&self.resource, &mut config)?;
        apply::all_fit(&self.resource, &config, &unknown)?;
        let warnings = self.strict(&config, &[], options, |it| Status::bad_request(it))?;
        if let Some(config) = config.as_object_mut() {
            config.retain(|field, _| part.may_own(&self.resource, field));
        }
        let conflicts = conflicts(options);
        let manager = manager(options, part);
        let new = applied(&self.resource, old, &config, &manager, conflicts, &now())?;
        self.check_version(old, &new)?;
        let stored = match old {
            None => self.api.store.create_with(new, options.effect),
            Some(_) => self.store_part(new, part, options.effect),
        };
        let is_latest = config["metadata"]["resourceVersion"].is_null();
        Ok((stored.map_err(|it| Refused::of(it, is_latest))?, warnings))
    }

    /// The configuration that the body applies to an object of this version and kind (`managedfields/internal`).
    pub(super) fn config(&self, api_version: &str, kind: &str) -> Result<Value, Status> {
        let config = yaml::read(self.body)?;
        let given = |field: &str| config[field].as_str().unwrap_or_default();
        if given("apiVersion") != api_version {
            return Err(Status::bad_request(format!(
                "Incorrect version specified in apply patch. Specified patch version: {}, expected: {api_version}",
                given("apiVersion")
            )));
        }
        if !config["metadata"]["managedFields"].is_null() {
            return Err(Status::bad_request("metadata.managedFields must be nil"));
        }
        if given("kind").is_empty() {
            let group = if api_version.contains('/') { "" } else { "/" };
            let none = format!("no corresponding type for {group}{api_version}, Kind=");
            return Err(apply::untyped(&config, &none));
        }
        if given("kind") != kind {
            return Err(Status::bad_request(format!(
                "{} in version {api_version:?} cannot be handled as a {kind}",
                given("kind")
            )));
        }
        Ok(config)
    }
}

pub(super) fn conflicts(options: &WriteOptions) -> Conflicts {
    if options.force {
        Conflicts::Forced
    } else {
        Conflicts::Refused
    }
}

/// Why an attempt failed.
enum Refused {
    /// Another client wrote the object since it was read.
    Outdated(Status),
    Finally(Status),
}

impl Refused {
    fn of(status: Status, is_latest: bool) -> Self {
        match status.reason() {
            "Conflict" | "AlreadyExists" if is_latest => Self::Outdated(status),
            _ => Self::Finally(status),
        }
    }

    fn status(self) -> Status {
        match self {
            Self::Outdated(status) | Self::Finally(status) => status,
        }
    }
}

impl From<Status> for Refused {
    fn from(status: Status) -> Self {
        Self::Finally(status)
    }
}

fn version(object: &Value) -> &Value {
    &object["metadata"]["resourceVersion"]
}
