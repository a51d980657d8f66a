//! Fields of an applied configuration that its type does not have.

use hyper::StatusCode;
use serde_json::Value;

use super::fields;
use crate::resource::Resource;
use crate::schema::Schema;
use crate::status::Status;

/// Refuses a configuration with fields that the type does not have, whatever `fieldValidation` says: an applied field
/// would have no owner (`managedfields/internal/structuredmerge.go`, `typed/validate.go` of structured-merge-diff).
/// `unknown` are the paths of the fields, which `config` has no more.
///
/// # Errors
///
/// 500, as kube-apiserver answers.
pub(crate) fn all_declared(
    resource: &Resource,
    config: &Value,
    unknown: &[String],
) -> Result<(), Status> {
    let each = unknown.iter().map(|it| {
        let path = shown(&resource.schema, config, it);
        format!("{path}: field not declared in schema")
    });
    let each: Vec<_> = each.collect();
    let why = match each.as_slice() {
        [] => return Ok(()),
        [one] => one.clone(),
        many => format!("errors:\n  {}", many.join("\n  ")),
    };
    let text = |field: &str| config["metadata"][field].as_str().unwrap_or_default();
    let message = format!(
        "failed to create typed patch object ({}/{}; {}/{}, Kind={}): {why}",
        text("namespace"),
        text("name"),
        resource.group,
        resource.version,
        resource.kind
    );
    Err(Status::new(StatusCode::INTERNAL_SERVER_ERROR, "", message))
}

/// The path `spec.containers[0].odd` as messages about applied fields show it: `.spec.containers[name="a"].odd`.
fn shown(schema: &Schema, config: &Value, path: &str) -> String {
    let (mut schema, mut value, mut rest) = (Some(schema), config, path);
    let mut shown = String::new();
    loop {
        let index = rest.strip_prefix('[').and_then(|it| it.split_once(']'));
        if let Some((index, after)) = index
            && let Some(item) = index.parse::<usize>().ok().and_then(|it| value.get(it))
        {
            match fields::element(schema, item) {
                Some(element) => shown.push_str(&fields::text(&[element])),
                None => shown.push_str(&format!("[{index}]")),
            }
            (schema, value, rest) = (schema.and_then(Schema::items), item, after);
            continue;
        }
        let below = rest.strip_prefix('.').unwrap_or(rest);
        // Names of entries may have dots.
        let after = |name: &str| {
            below
                .strip_prefix(name)
                .filter(|it| it.starts_with(['.', '[']))
        };
        let entries = value.as_object().into_iter().flatten();
        let steps = entries.filter_map(|(name, value)| Some((name, value, after(name)?)));
        let Some((name, inner, after)) = steps.max_by_key(|(name, _, _)| name.len()) else {
            return format!("{shown}.{below}");
        };
        shown.push('.');
        shown.push_str(name);
        (schema, value, rest) = (schema.and_then(|it| it.field(name)), inner, after);
    }
}
