//! PATCH: applies a patch to an object.

mod strategic;
#[cfg(test)]
mod tests;

use json_patch::{Patch, PatchOperation};
use serde_json::Value;

use crate::body;
use crate::schema::{Schema, Shape};
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
    /// Reads the header `Content-Type`.
    pub(crate) fn of(content_type: Option<&str>) -> Result<Self, Status> {
        let given = content_type.unwrap_or_default();
        match given.split(';').next().unwrap_or_default().trim() {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/strategic-merge-patch+json" => Ok(Self::Strategic),
            "application/apply-patch+yaml" => Ok(Self::Apply),
            other => Err(Self::unsupported(other)),
        }
    }

    /// 415.
    fn unsupported(given: &str) -> Status {
        Status::unsupported_media_type(format!(
            "the body of the request was in an unknown format - accepted media types include: \
             application/json-patch+json, application/merge-patch+json, \
             application/strategic-merge-patch+json, application/apply-patch+yaml; not {given:?}"
        ))
    }
}

/// The object after a patch of any type but [`PatchType::Apply`].
///
/// # Errors
///
/// The patch cannot be read, or does not fit the object.
pub(crate) fn patched(
    schema: &Schema,
    object: &Value,
    patch_type: PatchType,
    text: &[u8],
) -> Result<Value, Status> {
    let mut new = object.clone();
    let patch = body::json(text)?;
    match patch_type {
        PatchType::Json => json(&mut new, patch)?,
        _ if !patch.is_object() => {
            return Err(Status::bad_request("the patch is no JSON object"));
        }
        PatchType::Merge => json_patch::merge(&mut new, &patch),
        PatchType::Strategic if matches!(schema.shape, Shape::Object(_)) => {
            return Err(PatchType::unsupported(
                "application/strategic-merge-patch+json",
            ));
        }
        PatchType::Strategic | PatchType::Apply => {
            strategic::merge(Some(schema), &mut new, patch)?;
        }
    }
    Ok(new)
}

fn json(object: &mut Value, patch: Value) -> Result<(), Status> {
    let patch: Patch = serde_json::from_value(patch)
        .map_err(|it| Status::bad_request(format!("the JSON patch cannot be read: {it}")))?;
    if patch.0.len() > MOST_OPERATIONS {
        let message = format!("a JSON patch has at most {MOST_OPERATIONS} operations");
        return Err(Status::bad_request(message));
    }
    let mut copied = 0;
    for operation in patch.0 {
        if let PatchOperation::Copy(copy) = &operation {
            let value = object.pointer(copy.from.as_str());
            copied += value.map_or(0, |it| it.to_string().len());
            if copied > MOST_COPIED {
                return Err(Status::bad_request("the JSON patch copies too much"));
            }
        }
        let failed = |it| Status::unprocessable(format!("the JSON patch does not apply: {it}"));
        json_patch::patch(object, &[operation]).map_err(failed)?;
    }
    Ok(())
}
