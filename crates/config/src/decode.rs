//! Bytes → what was written.

use sluice_yaml::{self as yaml, Node, Value, quoted};

use crate::problem::{Lines, Problem};
use crate::strict::{Lenient, lenient};
use crate::types::{API_VERSION, KIND, KubeProxyConfiguration};

/// Largest file: a hundred times what anybody writes.
const MAX_BYTES: usize = 1 << 20;

/// A file that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// What it says; defaults are not filled in.
    pub config: KubeProxyConfiguration,
    /// Where it says it.
    pub lines: Lines,
    /// What strict decoding refuses and is ignored here: fields that do not exist, keys that are
    /// there twice.
    pub ignored: Vec<Problem>,
}

/// Reads a configuration in YAML or JSON, as kube-proxy does: strictly, and when only unknown
/// fields and repeated keys stand against it, without them.
///
/// # Errors
///
/// The bytes are no YAML, another kind of object, or a value has the wrong type: every problem.
pub fn decode(bytes: &[u8]) -> Result<Decoded, Vec<Problem>> {
    if bytes.len() > MAX_BYTES {
        let message = format!("is larger than {} MiB", MAX_BYTES >> 20);
        return Err(vec![Problem::new("", message)]);
    }
    let text = readable(bytes).map_err(|it| vec![it])?;
    // What begins with a brace may be JSON, and YAML if it is none.
    let json = text
        .trim_start()
        .starts_with('{')
        .then(|| yaml::parse_json(text));
    let document = match json.filter(|it| it.error.is_none()) {
        Some(parsed) => first(parsed),
        None => first(yaml::parse_yaml(text, 0)),
    };
    let Lenient {
        document,
        oddities,
        lines,
    } = lenient(document.map_err(|it| vec![it])?);
    let (config, faults) = yaml::decode::<KubeProxyConfiguration>(&document);
    let problems = faults.into_iter().map(|fault| {
        let (line, field) = document.find(fault.node);
        Problem::new(field, fault.message).at(line)
    });
    let mut problems: Vec<Problem> = problems.collect();
    problems.extend(wrong_type(&document));
    problems.sort_by_key(|it| it.line);
    match config {
        Some(config) if problems.is_empty() => Ok(Decoded {
            config,
            lines,
            ignored: oddities,
        }),
        _ => Err(problems),
    }
}

/// Refuses what is no text: the parser takes a NUL byte for the end of the file.
fn readable(bytes: &[u8]) -> Result<&str, Problem> {
    let line_of = |offset: usize| {
        let lines = bytes[..offset].iter().filter(|it| **it == b'\n').count();
        u32::try_from(lines + 1).unwrap_or(u32::MAX)
    };
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let text = std::str::from_utf8(bytes)
        .map_err(|error| Problem::new("", "not UTF-8").at(line_of(error.valid_up_to())))?;
    let is_bad = |it: u8| (it < 0x20 && !b"\t\n\r".contains(&it)) || it == 0x7f;
    match bytes.iter().position(|it| is_bad(*it)) {
        None => Ok(text),
        Some(at) => {
            let message = format!("control character 0x{:02x}", bytes[at]);
            Err(Problem::new("", message).at(line_of(at)))
        }
    }
}

/// The first document that holds something; the others are not looked at, as in kube-proxy.
fn first(parsed: yaml::Parsed<'_>) -> Result<Node<'_>, Problem> {
    let is_map = |it: &Node<'_>| matches!(it.value(), Value::Map(_));
    match (parsed.documents.into_iter().next(), parsed.error) {
        (Some(document), _) if is_map(&document) => Ok(document),
        (None, Some(error)) => Err(Problem::new("", error.message).at(error.place.line)),
        (Some(document), _) => {
            let message = format!("expected a {KIND}, found no mapping");
            Err(Problem::new("", message).at(document.place.line))
        }
        (None, None) => Err(Problem::new("", format!("is empty: expected a {KIND}"))),
    }
}

/// `apiVersion` and `kind` have no default.
fn wrong_type(document: &Node<'_>) -> Vec<Problem> {
    let wrong = |(field, expected): (&str, &str)| {
        let Some((key, node)) = document.get(field) else {
            let message = format!("is required: {expected}");
            return Some(Problem::new(field, message));
        };
        match node.value() {
            // Another type than text has been reported.
            Value::Scalar(it) if it.as_text().is_some_and(|it| it != expected) => {
                let message = format!("{} is not {expected}", quoted(&it.text));
                Some(Problem::new(field, message).at(key.place.line))
            }
            _ => None,
        }
    };
    let fields = [("apiVersion", API_VERSION), ("kind", KIND)];
    fields.into_iter().filter_map(wrong).collect()
}

#[cfg(test)]
mod tests;
