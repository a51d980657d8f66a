//! Validation of an object's name, and of its fields against its Kubernetes type.

pub(crate) mod data;
pub(crate) mod metadata;

use std::fmt;

use serde_json::Value;

use crate::resource::{KINDS, Resource};
use crate::schema::Shape;
use crate::status::{Cause, Status};
use crate::store::unknown_kind;

/// What is wrong with the name of a new object (`ValidateObjectMeta` in `api/validation/objectmeta.go`).
fn of_name(resource: &Resource, metadata: &Value) -> Vec<Cause> {
    let text = |field: &str| metadata[field].as_str().unwrap_or_default();
    let problems = |field: &str, given: &str, name: &str| -> Vec<Cause> {
        let field = format!("metadata.{field}");
        let problems = resource.name.problems(name).into_iter();
        let message = |why| format!("Invalid value: {given:?}: {why}");
        problems
            .map(|it| Cause::new(&*field, message(it)))
            .collect()
    };
    let (prefix, name) = (text("generateName"), text("name"));
    let mut causes = Vec::new();
    if !prefix.is_empty() {
        // What is appended may follow a dash.
        let begin = match prefix.strip_suffix('-') {
            Some(begin) if !begin.is_empty() => {
                format!("{}a", &begin[..begin.floor_char_boundary(begin.len() - 1)])
            }
            _ => prefix.to_owned(),
        };
        causes.extend(problems("generateName", prefix, &begin));
    }
    match name {
        "" if prefix.is_empty() => causes.push(Cause::new("metadata.name", metadata::UNNAMED)),
        "" => {}
        name => causes.extend(problems("name", name, name)),
    }
    causes
}

/// 422 if there are causes.
pub(crate) fn refuse(resource: &Resource, name: &str, causes: &[Cause]) -> Result<(), Status> {
    match causes {
        [] => Ok(()),
        causes => Err(Status::invalid(resource, name, causes)),
    }
}

/// Brings the object into its one form. Returns the paths of unknown fields, which go: `spec.foo`.
///
/// # Errors
///
/// 400 with the field whose type is wrong.
pub(crate) fn conform(resource: &Resource, object: &mut Value) -> Result<Vec<String>, Status> {
    let decoded = resource.schema.decode(object);
    decoded.map_err(|it| undecodable(resource, &it))
}

/// Removes unknown fields and nulls, as [`conform`] does, and leaves all else as it was given: a configuration that is
/// applied owns no field that it does not set.
///
/// # Errors
///
/// The same as of [`conform`].
pub(crate) fn prune(resource: &Resource, object: &mut Value) -> Result<Vec<String>, Status> {
    let pruned = resource.schema.prune(object);
    pruned.map_err(|it| undecodable(resource, &it))
}

/// 400: the body is no object of its kind.
pub(crate) fn undecodable(resource: &Resource, why: &impl fmt::Display) -> Status {
    let (kind, version) = (&resource.kind, &resource.version);
    Status::bad_request(format!(
        "{kind} in version {version:?} cannot be handled as a {kind}: {why}"
    ))
}

/// Refuses what the rules of the schema and those of metadata do not allow, in fields that differ from those of `old`: an
/// object that an earlier version accepted can still be written. The status of Kubernetes' own kinds has no rules but
/// those of load balancers.
///
/// # Errors
///
/// 422 with all fields that are wrong.
pub(crate) fn check(resource: &Resource, old: Option<&Value>, new: &Value) -> Result<(), Status> {
    let name = new["metadata"]["name"].as_str().unwrap_or_default();
    refuse(resource, name, &causes(resource, old, new))
}

/// A refusal by admission with what [`check`] would refuse, too, in other fields: the client is told all that is wrong.
pub(crate) fn with_causes(
    resource: &Resource,
    old: Option<&Value>,
    new: &mut Value,
    refusal: Status,
) -> Status {
    let Some(mut all) = refusal.causes() else {
        return refusal;
    };
    if conform(resource, new).is_err() {
        return refusal;
    }
    let more = causes(resource, old, new).into_iter();
    let more: Vec<_> = more
        .filter(|more| all.iter().all(|it| it.field != more.field))
        .collect();
    all.extend(more);
    // Metadata come first.
    all.sort_by_key(|it| !it.field.starts_with("metadata."));
    let name = new["metadata"]["name"].as_str().unwrap_or_default();
    Status::invalid(resource, name, &all)
}

/// Brings an object of a built-in kind into its one form, sets the defaults that are facts of its types, and says what the
/// rules of its types refuse; `old` is the object that it replaces. Without what a cluster's admission does.
///
/// # Errors
///
/// 400: the kind is not known, or a value has the wrong type.
pub fn complete(old: Option<&Value>, new: &mut Value) -> Result<Vec<Cause>, Status> {
    let text = |field: &str| new[field].as_str().unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    let resource = KINDS.of_kind(version, kind);
    let resource = resource.ok_or_else(|| unknown_kind(version, kind))?;
    conform(resource, new)?;
    resource.complete(new);
    Ok(causes(resource, old, new))
}

fn causes(resource: &Resource, old: Option<&Value>, new: &Value) -> Vec<Cause> {
    let is_own = matches!(resource.schema.shape, Shape::Named(_));
    let is_new = |cause: &Cause| {
        let mut parts = cause.field.split(['.', '[']);
        let (first, second) = (
            parts.next().unwrap_or_default(),
            parts.next().unwrap_or_default(),
        );
        let differs = |field: &str| old.is_none_or(|old| old[field] != new[field]);
        match first {
            "metadata" if ["labels", "annotations"].contains(&second) => {
                old.is_none_or(|old| old[first][second] != new[first][second])
            }
            // Of Kubernetes' own rules.
            "metadata" => old.is_none() && ["", "name"].contains(&second),
            // Not all was looked at.
            "" => true,
            // The only one of theirs that has rules here.
            "status" => (!is_own || second == "loadBalancer") && differs(first),
            // The refusals of an Event name fields as the core group does, whatever the version.
            _ => differs(first) || resource.schema.field(first).is_none(),
        }
    };
    // Groups that stand beside the core have their own validation of metadata.
    let beside = ["apiextensions.k8s.io", "apiregistration.k8s.io"];
    let is_core = is_own && !beside.contains(&&*resource.group);
    let mut causes = Vec::new();
    if old.is_none() && resource.computed.is_none() {
        causes.extend(of_name(resource, &new["metadata"]));
    }
    let before = old.map(|it| &it["metadata"]);
    causes.extend(metadata::check(before, &new["metadata"], is_core));
    causes.extend(
        resource
            .schema
            .check("", new, old)
            .into_iter()
            .filter(is_new),
    );
    causes
}
