//! What makes an applied configuration no value of its type.

use std::collections::BTreeSet;

use serde_json::Value;

use super::fields;
use crate::resource::Resource;
use crate::schema::{ListType, Schema};
use crate::status::Status;

/// Refuses a configuration with fields that the type does not have, whatever `fieldValidation` says, because an applied field
/// would have no owner; and one whose lists have no or equal keys (`managedfields/internal/structuredmerge.go`,
/// `typed/validate.go` of structured-merge-diff). `unknown` are the paths of the fields, which `config` has no more.
///
/// # Errors
///
/// 500, as kube-apiserver answers.
pub(crate) fn all_fit(
    resource: &Resource,
    config: &Value,
    unknown: &[String],
) -> Result<(), Status> {
    let each = unknown.iter().map(|it| {
        let path = shown(&resource.schema, config, it);
        format!("{path}: field not declared in schema")
    });
    let mut each: Vec<_> = each.collect();
    keys(Some(&resource.schema), config, "", &mut each);
    match each.as_slice() {
        [] => Ok(()),
        [one] => Err(untyped(config, one)),
        many => Err(untyped(
            config,
            &format!("errors:\n  {}", many.join("\n  ")),
        )),
    }
}

/// 500: a configuration is no value of its type.
pub(crate) fn untyped(config: &Value, why: &str) -> Status {
    let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
    let metadata = &config["metadata"];
    let version = text(&config["apiVersion"]);
    // The core group has no name.
    let group = if version.contains('/') { "" } else { "/" };
    let message = format!(
        "failed to create typed patch object ({}/{}; {group}{version}, Kind={}): {why}",
        text(&metadata["namespace"]),
        text(&metadata["name"]),
        text(&config["kind"]),
    );
    Status::failed(message)
}

/// Says which lists have items without their keys, or with those of another item.
fn keys(schema: Option<&Schema>, value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (field, value) in map {
                let schema = schema.and_then(|it| it.field(field));
                keys(schema, value, &format!("{path}.{field}"), found);
            }
        }
        Value::Array(items) => {
            let mut seen = BTreeSet::new();
            let has_keys = schema.is_some_and(|it| !matches!(it.list, ListType::Atomic));
            for (index, item) in items.iter().enumerate() {
                let step = match fields::element(schema, item) {
                    Some(element) => {
                        let step = fields::text(std::slice::from_ref(&element));
                        if !seen.insert(element) {
                            found.push(format!("{path}: duplicate entries for key {step}"));
                        }
                        step
                    }
                    None if has_keys => {
                        let key = missing_key(schema, item);
                        found.push(format!(
                            "{path}: element {index}: associative list with keys has an element that omits key field \
                             {key:?} (and doesn't have default value)"
                        ));
                        // Without its keys nothing in it has a path.
                        continue;
                    }
                    None => format!("[{index}]"),
                };
                let schema = schema.and_then(Schema::items);
                keys(schema, item, &format!("{path}{step}"), found);
            }
        }
        _ => {}
    }
}

/// The first key that an item lacks and that has no default.
fn missing_key<'a>(schema: Option<&'a Schema>, item: &Value) -> &'a str {
    let Some(ListType::Keyed(keys)) = schema.map(|it| &it.list) else {
        return "";
    };
    let has_default = |key: &str| schema.is_some_and(|it| fields::default_key(it, key).is_some());
    let mut keys = keys.iter().map(|it| &**it);
    let missing = keys.find(|key| item[*key].is_null() && !has_default(key));
    missing.unwrap_or_default()
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
