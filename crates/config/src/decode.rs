//! Bytes → [`KubeProxyConfiguration`].

use sluice_yaml::{self as yaml, Node, SyntaxError, Value, quoted};

use crate::problem::{Lines, Problem};
use crate::strict::lenient;
use crate::types::{API_VERSION, KIND, KubeProxyConfiguration};

/// Largest file in bytes. A file with every field has about 3 KiB.
const MAX_BYTES: usize = 1 << 20;

/// A file that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// Its fields; defaults are not filled in.
    pub config: KubeProxyConfiguration,
    /// The lines of its fields.
    pub lines: Lines,
    /// Unknown fields and repeated keys, which strict decoding would refuse.
    pub ignored: Vec<Problem>,
}

/// Reads a configuration in YAML or JSON. As in kube-proxy, unknown fields and repeated keys are
/// ignored with a warning.
///
/// # Errors
///
/// Every problem: the bytes are no YAML, the kind is another, a value has the wrong type.
pub fn decode(bytes: &[u8]) -> Result<Decoded, Vec<Problem>> {
    if bytes.len() > MAX_BYTES {
        let message = format!("is larger than {} MiB", MAX_BYTES >> 20);
        return Err(vec![Problem::new("", message)]);
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let unreadable = |it: SyntaxError| Problem::new("", it.message).at(it.place.line);
    let text = yaml::readable(bytes).map_err(|it| vec![unreadable(it)])?;
    // A text that begins with a brace is JSON, or else a YAML flow mapping.
    let json = text
        .trim_start()
        .starts_with('{')
        .then(|| yaml::parse_json(text));
    let document = match json.filter(|it| it.error.is_none()) {
        Some(parsed) => first(parsed),
        None => first(yaml::parse_yaml(text, 0)),
    };
    let lenient = lenient(document.map_err(|it| vec![it])?);
    let document = &lenient.document;
    let (config, faults) = yaml::decode::<KubeProxyConfiguration>(document);
    let problems = faults.into_iter().map(|fault| {
        let (line, field) = document.find(fault.node);
        Problem::new(field, fault.message).at(line)
    });
    let mut problems: Vec<Problem> = problems.collect();
    problems.extend(wrong_type(document));
    problems.sort_by_key(|it| it.line);
    match config {
        Some(config) if problems.is_empty() => Ok(Decoded {
            config,
            lines: lenient.lines,
            ignored: lenient.ignored,
        }),
        _ => Err(problems),
    }
}

/// The first document; kube-proxy ignores the others, too.
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
