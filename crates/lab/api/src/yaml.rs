//! YAML bodies, read as kubectl reads them.

use serde_json::{Number, Value};
use sluice_yaml::{Meaning, Node, parse_yaml};

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
