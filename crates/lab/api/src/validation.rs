//! Validation of an object's name, and of its fields against its Kubernetes type.

use std::fmt;
use std::net::IpAddr;

use serde_json::Value;
use sluice_model::{is_label, is_subdomain};

use crate::resource::{NameRule, Resource};
use crate::schema::Shape;
use crate::status::{Cause, Status};

pub(crate) fn check_name(resource: &Resource, name: &str) -> Result<(), Status> {
    let rule = match resource.name {
        _ if name.is_empty() => "Required value: name or generateName is required",
        NameRule::Label if !is_label(name) => {
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', \
             and must start and end with an alphanumeric character, at most 63 of them"
        }
        NameRule::Label1035
            if !is_label(name) || !name.starts_with(|it: char| it.is_ascii_lowercase()) =>
        {
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with \
             an alphabetic character, and end with an alphanumeric character, at most 63 of them"
        }
        NameRule::Subdomain if !is_subdomain(name) => {
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' \
             or '.', and must start and end with an alphanumeric character, at most 253 of them"
        }
        NameRule::Address
            if !name
                .parse::<IpAddr>()
                .is_ok_and(|it| it.to_string() == name) =>
        {
            "must be an IP address in its shortest form"
        }
        NameRule::Path if [".", ".."].contains(&name) || name.contains(['/', '%']) => {
            "may not be '.' or '..', and may not contain '/' or '%'"
        }
        _ => return Ok(()),
    };
    let message = match name {
        "" => rule.to_owned(),
        _ => format!("Invalid value: {name:?}: {rule}"),
    };
    let cause = Cause::new("metadata.name", message);
    Err(Status::invalid(resource, name, &[cause]))
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
/// As [`conform`].
pub(crate) fn prune(resource: &Resource, object: &mut Value) -> Result<Vec<String>, Status> {
    let pruned = resource.schema.prune(object);
    pruned.map_err(|it| undecodable(resource, &it))
}

/// 400: the body is no object of its kind.
pub(crate) fn undecodable(resource: &Resource, why: &impl fmt::Display) -> Status {
    let (kind, version) = (&resource.kind, resource.api_version());
    Status::bad_request(format!(
        "{kind} in version {version:?} cannot be handled as a {kind}: {why}"
    ))
}

/// Refuses what the rules of the schema do not allow, in fields that differ from those of `old`: an object that an
/// earlier version accepted can still be written. Metadata and status of Kubernetes' own kinds have rules elsewhere.
///
/// # Errors
///
/// 422 with all fields that are wrong.
pub(crate) fn check(resource: &Resource, old: Option<&Value>, new: &Value) -> Result<(), Status> {
    let is_new = |cause: &Cause| {
        let field = cause.field.split(['.', '[']).next().unwrap_or_default();
        let is_own = matches!(resource.schema.shape, Shape::Named(_));
        !(is_own && ["metadata", "status"].contains(&field))
            && old.is_none_or(|old| old[field] != new[field])
    };
    let mut causes = resource.schema.check("", new);
    causes.retain(is_new);
    if causes.is_empty() {
        return Ok(());
    }
    let name = new["metadata"]["name"].as_str().unwrap_or_default();
    Err(Status::invalid(resource, name, &causes))
}
