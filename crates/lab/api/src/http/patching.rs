//! PATCH.

use std::sync::Arc;

use hyper::StatusCode;
use serde_json::Value;

use super::Call;
use super::options::WriteOptions;
use super::writing::{Part, manager, with_warnings};
use crate::answer::Answer;
use crate::apply::{self, Conflicts, applied};
use crate::history::now;
use crate::patch::{PatchType, patched};
use crate::status::{Cause, Status};
use crate::validation;
use crate::yaml;

/// Attempts when another client writes the object at the same time (`handlers/patch.go`).
const ATTEMPTS: usize = 5;

impl Call<'_> {
    pub(super) fn patch(&self, name: &str, part: Part) -> Result<Answer, Status> {
        let options = self.options()?;
        let patch_type = PatchType::of(self.content_type)?;
        if self.resource.custom && patch_type == PatchType::Strategic {
            let kinds = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
            return Err(Status::unsupported_media_type(format!(
                "the body of the request was in an unknown format - accepted media types include: {kinds}"
            )));
        }
        for _ in 1..ATTEMPTS {
            match self.attempt(name, part, patch_type, &options) {
                Err(Refused::Outdated(_)) => {}
                other => return other.map_err(Refused::status),
            }
        }
        let last = self.attempt(name, part, patch_type, &options);
        last.map_err(Refused::status)
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
                Err(missing) if part == Part::Status => return Err(missing.into()),
                Err(_) => {
                    let (stored, warnings) = self.apply(name, None, part, options)?;
                    let mut answer = self.shown(&stored)?;
                    *answer.status_mut() = StatusCode::CREATED;
                    return Ok(with_warnings(answer, &warnings));
                }
            },
            _ => {
                let old = self.find(name)?;
                let mut new = patched(&self.resource.schema, &old, patch_type, self.body)?;
                self.fit(name, &mut new)?;
                let warnings = self.check(&mut new, options)?;
                let is_latest = version(&new) == version(&old);
                let stored = self.store(&old, new, part, options);
                (stored.map_err(|it| Refused::of(it, is_latest))?, warnings)
            }
        };
        Ok(with_warnings(self.shown(&stored)?, &warnings))
    }

    fn apply(
        &self,
        name: &str,
        old: Option<&Value>,
        part: Part,
        options: &WriteOptions,
    ) -> Result<(Arc<Value>, Vec<String>), Refused> {
        if !options.is_named {
            let cause = Cause {
                reason: "FieldValueRequired",
                field: "fieldManager".to_owned(),
                message: "Required value: is required for apply patch".to_owned(),
            };
            return Err(Status::invalid(&self.resource, name, &[cause]).into());
        }
        let mut config = yaml::read(self.body)?;
        self.fit(name, &mut config)?;
        if !config["metadata"]["managedFields"].is_null() {
            return Err(Status::bad_request("metadata.managedFields must be nil").into());
        }
        let unknown = validation::prune(&self.resource, &mut config)?;
        apply::all_declared(&self.resource, &config, &unknown)?;
        let warnings = self.strict(&config, &[], options)?;
        if let (Part::Status, Some(config)) = (part, config.as_object_mut()) {
            config.retain(|field, _| {
                ["apiVersion", "kind", "metadata", "status"].contains(&field.as_str())
            });
        }
        let conflicts = if options.force {
            Conflicts::Forced
        } else {
            Conflicts::Refused
        };
        let manager = manager(options, part);
        let new = applied(&self.resource, old, &config, &manager, conflicts, &now())?;
        let store = &self.api.store;
        let stored = match (old, part) {
            (None, _) => store.create_with(new, options.effect),
            (Some(_), Part::Whole | Part::Scale | Part::Finalizers) => {
                store.update_with(new, options.effect)
            }
            (Some(_), Part::Status) => store.update_status_with(new, options.effect),
        };
        let is_latest = config["metadata"]["resourceVersion"].is_null();
        Ok((stored.map_err(|it| Refused::of(it, is_latest))?, warnings))
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
