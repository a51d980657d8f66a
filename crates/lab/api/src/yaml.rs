//! YAML bodies, read as kubectl reads them.

use bytes::Bytes;
use serde::de::IgnoredAny;
use serde_json::{Number, Value};
use sluice_yaml::{Meaning, Node, parse_json, parse_yaml};

use crate::body;
use crate::status::Status;

/// Reads one document; JSON is YAML as well.
///
/// # Errors
///
/// 400 with the line.
pub(crate) fn read(body: &[u8]) -> Result<Value, Status> {
    // Clients that apply mostly send JSON; its parser is faster and simpler.
    if let Ok(value) = serde_json::from_slice(body) {
        return Ok(value);
    }
    let bad = |why: &str| Status::bad_request(format!("the body is no YAML object: {why}"));
    let text = std::str::from_utf8(body).map_err(|_| bad("it is not UTF-8"))?;
    let parsed = parse_yaml(text, 0);
    if let Some(error) = parsed.error {
        let line = error.place.line;
        return Err(bad(&format!("line {line}: {}", error.message)));
    }
    match parsed.documents.as_slice() {
        [one] => value(one).ok_or_else(|| bad("a number does not fit in 64 bits")),
        many => Err(bad(&format!("{} documents", many.len()))),
    }
}

/// JSON as YAML.
pub(crate) fn write(json: &[u8]) -> Bytes {
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    let value = serde_json::from_slice::<Value>(json);
    let text = value.map(|it| serde_saphyr::to_string_with_options(&it, options));
    match text {
        Ok(Ok(text)) => text.into(),
        // JSON is YAML, too.
        _ => Bytes::copy_from_slice(json),
    }
}

/// What is said of each key that a mapping has twice: `line 9: key "foo" already set in map` (`setMapIndex` in
/// `goyaml.v2/decode.go` of sigs.k8s.io/yaml). None when the body cannot be read. At most 20.
pub(crate) fn duplicates(body: &[u8]) -> Vec<String> {
    let is_json = serde_json::from_slice::<IgnoredAny>(body).is_ok();
    let text = std::str::from_utf8(body).unwrap_or_default();
    let mut found = Vec::new();
    if is_json && body::duplicates(body).is_empty() {
        return found;
    }
    let parsed = if is_json {
        parse_json(text)
    } else {
        parse_yaml(text, 0)
    };
    if parsed.repeated_keys {
        parsed
            .documents
            .iter()
            .for_each(|it| repeated(it, &mut found));
    }
    found
}

/// The error of a reader that refuses such keys; `None` when there are none.
pub(crate) fn unmarshal_error(duplicates: &[String]) -> Option<String> {
    let list = duplicates.join("\n  ");
    (!list.is_empty()).then(|| format!("yaml: unmarshal errors:\n  {list}"))
}

fn repeated(node: &Node<'_>, found: &mut Vec<String>) {
    const MOST: usize = 20;
    match node.value() {
        sluice_yaml::Value::Map(entries) => {
            for (key, node) in entries {
                repeated(node, found);
                if key.repeated && found.len() < MOST {
                    let (line, key) = (node.place.line, &key.text);
                    found.push(format!("line {line}: key {key:?} already set in map"));
                }
            }
        }
        sluice_yaml::Value::List(items) => items.iter().for_each(|it| repeated(it, found)),
        _ => {}
    }
}

fn value(node: &Node<'_>) -> Option<Value> {
    Some(match node.value() {
        sluice_yaml::Value::Scalar(scalar) => match scalar.meaning() {
            Meaning::Null => Value::Null,
            Meaning::Bool(it) => it.into(),
            Meaning::Int(it) => it.into(),
            Meaning::Float(it) => Number::from_f64(it)?.into(),
            Meaning::Huge => return None,
            Meaning::Text => (*scalar.text).into(),
        },
        sluice_yaml::Value::List(items) => items.iter().map(value).collect::<Option<_>>()?,
        sluice_yaml::Value::Map(entries) => {
            let entries = entries.iter();
            let entries = entries.map(|(key, node)| Some(((*key.text).to_owned(), value(node)?)));
            Value::Object(entries.collect::<Option<_>>()?)
        }
        sluice_yaml::Value::Shared(shared) => value(shared)?,
    })
}

#[cfg(test)]
mod tests;
