//! PATCH: applies a patch to an object.

mod strategic;
#[cfg(test)]
mod tests;

use std::fmt::Display;

use json_patch::PatchOperation;
use serde_json::Value;

use crate::body::{json_type, syntax};
use crate::http::Verb;
use crate::schema::Schema;
use crate::status::Status;

/// Most operations of a JSON patch (`apiserver/pkg/endpoints/handlers/patch.go`).
const MOST_OPERATIONS: usize = 10_000;

/// Most bytes that the copies of one JSON patch may add, in all: each copy could double the object.
const MOST_COPIED: usize = 3 * 1024 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchType {
    /// RFC 6902.
    Json,
    /// RFC 7396.
    Merge,
    /// RFC 7396, and lists are merged by key where the types of Kubernetes say so.
    Strategic,
    Apply,
}

impl PatchType {
    /// What the options of the request are checked for.
    pub(crate) fn verb(self) -> Verb {
        match self {
            Self::Apply => Verb::Apply,
            _ => Verb::Patch,
        }
    }

    /// Reads the header `Content-Type`.
    pub(crate) fn of(content_type: Option<&str>) -> Result<Self, Status> {
        let given = content_type.unwrap_or_default();
        match given.split(';').next().unwrap_or_default().trim() {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/strategic-merge-patch+json" => Ok(Self::Strategic),
            "application/apply-patch+yaml" => Ok(Self::Apply),
            _ => Err(Status::unsupported_media_type(&[
                "application/json-patch+json",
                "application/merge-patch+json",
                "application/strategic-merge-patch+json",
                "application/apply-patch+yaml",
            ])),
        }
    }
}

/// The object after a patch of any type but [`PatchType::Apply`] (`applyJSPatch` and `strategicPatchObject` in
/// `apiserver/pkg/endpoints/handlers/patch.go`).
///
/// # Errors
///
/// 400: the patch cannot be read. 413: it has too many operations. 422: it does not fit the object.
pub(crate) fn patched(
    schema: &Schema,
    object: &Value,
    patch_type: PatchType,
    text: &[u8],
) -> Result<Value, Status> {
    let mut new = object.clone();
    let patch: Value = serde_json::from_slice(text)
        .map_err(|it| undecodable(syntax::problem(text).unwrap_or_else(|| it.to_string())))?;
    match patch_type {
        PatchType::Json => json(&mut new, patch)?,
        _ if !patch.is_object() => {
            return Err(undecodable(format!(
                "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                json_type(&patch)
            )));
        }
        PatchType::Merge => json_patch::merge(&mut new, &patch),
        PatchType::Strategic | PatchType::Apply => {
            strategic::merge(Some(schema), &mut new, patch)?;
        }
    }
    Ok(new)
}

/// A patch as the refusal of its outcome shows it: a strategic merge patch itself, as Go prints maps, and of the others
/// the object that they make.
pub(crate) fn shown(patch_type: PatchType, text: &[u8], new: &Value) -> String {
    match (patch_type, serde_json::from_slice(text)) {
        (PatchType::Strategic, Ok(patch)) => go(&patch),
        _ => new.to_string(),
    }
}

/// A value as Go's `%v` prints it.
fn go(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(go).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(map) => {
            let entries = map.iter().map(|(key, it)| format!("{key}:{}", go(it)));
            format!("map[{}]", entries.collect::<Vec<_>>().join(" "))
        }
        other => other.to_string(),
    }
}

fn json(object: &mut Value, patch: Value) -> Result<(), Status> {
    let operations = match patch {
        Value::Array(operations) => operations,
        other => {
            return Err(undecodable(format!(
                "json: cannot unmarshal {} into Go value of type []handlers.jsonPatchOp",
                json_type(&other)
            )));
        }
    };
    for operation in &operations {
        if !operation.is_object() {
            return Err(undecodable(format!(
                "json: cannot unmarshal {} into Go value of type handlers.jsonPatchOp",
                json_type(operation)
            )));
        }
        for field in ["op", "path", "from"] {
            let given = &operation[field];
            if !given.is_null() && !given.is_string() {
                return Err(undecodable(format!(
                    "json: cannot unmarshal {} into Go struct field jsonPatchOp.{field} of type string",
                    json_type(given)
                )));
            }
        }
    }
    if operations.len() > MOST_OPERATIONS {
        return Err(Status::too_large(format!(
            "The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {}",
            operations.len()
        )));
    }
    let mut copied = 0;
    for operation in operations {
        if is_test_of_nothing(object, &operation) {
            continue;
        }
        // kube-apiserver does not say which operation failed.
        let failed = Status::rejected;
        let operation = serde_json::from_value(operation).map_err(|_| failed())?;
        if let PatchOperation::Copy(copy) = &operation {
            let value = object.pointer(copy.from.as_str());
            copied += value.map_or(0, |it| it.to_string().len());
            if copied > MOST_COPIED {
                return Err(failed());
            }
        }
        json_patch::patch(object, &[operation]).map_err(|_| failed())?;
    }
    Ok(())
}

/// Whether the operation tests that a field of a map is missing, by the value `null`: kube-apiserver's library takes that
/// for true (`test` in `evanphx/json-patch`).
fn is_test_of_nothing(object: &Value, operation: &Value) -> bool {
    let path = operation["path"].as_str().unwrap_or_default();
    let parent = path.rsplit_once('/').map(|(parent, _)| parent);
    operation["op"] == "test"
        && operation["value"].is_null()
        && object.pointer(path).is_none()
        && parent
            .and_then(|it| object.pointer(it))
            .is_some_and(Value::is_object)
}

fn undecodable(why: impl Display) -> Status {
    Status::bad_request(format!("error decoding patch: {why}"))
}
