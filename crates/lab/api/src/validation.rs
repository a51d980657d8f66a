//! Validation of an object's name, and of its fields against its Kubernetes type.

use std::net::IpAddr;

use serde_json::Value;
use sluice_model::{is_label, is_subdomain};

use crate::resource::{NameRule, Resource};
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
        _ => return Ok(()),
    };
    let message = match name {
        "" => rule.to_owned(),
        _ => format!("Invalid value: {name:?}: {rule}"),
    };
    let cause = Cause::new("metadata.name", message);
    Err(Status::invalid(resource, name, &[cause]))
}

/// Removes the fields that the Kubernetes type of the object does not have, and fields that are
/// null. Returns the paths of the unknown fields: `spec.foo`.
///
/// # Errors
///
/// 400 with the field whose type is wrong.
pub(crate) fn conform(resource: &Resource, object: &mut Value) -> Result<Vec<String>, Status> {
    let typed = (resource.known)(object).map_err(|wrong| {
        let kind = &resource.kind;
        let (version, field) = (resource.api_version(), wrong.field);
        Status::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {kind}: {field}: {}",
            wrong.why
        ))
    })?;
    let mut unknown = Vec::new();
    prune(object, &typed, "", &mut unknown);
    Ok(unknown)
}

/// Removes from `given` the fields that `known` lacks.
fn prune(given: &mut Value, known: &Value, path: &str, unknown: &mut Vec<String>) {
    match (given, known) {
        (Value::Object(given), Value::Object(known)) => given.retain(|field, value| {
            let path = match path {
                "" => field.clone(),
                path => format!("{path}.{field}"),
            };
            match known.get(field) {
                _ if value.is_null() => return false,
                Some(known) => prune(value, known, &path, unknown),
                None => {
                    unknown.push(path);
                    return false;
                }
            }
            true
        }),
        (Value::Array(given), Value::Array(known)) => {
            let pairs = given.iter_mut().zip(known).enumerate();
            for (index, (given, known)) in pairs {
                prune(given, known, &format!("{path}[{index}]"), unknown);
            }
        }
        // Quantities may be written as numbers.
        (given @ Value::Number(_), Value::String(_)) => *given = known.clone(),
        _ => {}
    }
}
