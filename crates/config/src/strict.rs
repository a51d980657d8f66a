//! Removes unknown fields and repeated keys, which strict decoding refuses and lenient decoding
//! ignores.

use serde_json::Value as Json;
use sluice_yaml::{Key, Meaning, Node, Value, push_field, quoted};

use crate::problem::{Lines, Problem};
use crate::types::KubeProxyConfiguration;

/// A document as lenient decoding sees it.
pub(crate) struct Lenient<'a> {
    /// Only fields that exist, each once, none of them null.
    pub(crate) document: Node<'a>,
    /// A problem for each removed field.
    pub(crate) ignored: Vec<Problem>,
    /// The lines of the fields.
    pub(crate) lines: Lines,
}

/// Removes unknown fields, repeated keys and nulls. As in Kubernetes, field names are case
/// sensitive, the last of two equal keys wins, and null means absent.
pub(crate) fn lenient(document: Node<'_>) -> Lenient<'_> {
    let known = serde_json::to_value(KubeProxyConfiguration::default());
    let known = known.expect("plain values and text keys");
    let mut walk = Walk::default();
    let document = walk.node(document, &known, &mut String::new());
    let mut ignored = walk.ignored;
    ignored.sort_by_key(|it| it.line);
    Lenient {
        document,
        ignored,
        lines: walk.lines,
    }
}

#[derive(Default)]
struct Walk {
    ignored: Vec<Problem>,
    lines: Lines,
}

impl Walk {
    /// `known`: the default value of this place, whose keys are the known fields.
    fn node<'a>(&mut self, node: Node<'a>, known: &Json, path: &mut String) -> Node<'a> {
        let place = node.place;
        let Some(known) = known.as_object() else {
            return node;
        };
        let entries = match node.value {
            Value::Map(entries) => entries,
            Value::Shared(shared) => {
                return self.node(Node::clone(&shared), &known.clone().into(), path);
            }
            value => return Node { place, value },
        };
        // A map whose keys the user chooses (`featureGates`) is empty by default.
        let any_key = known.is_empty();
        let mut kept: Vec<(Key<'a>, Node<'a>)> = Vec::new();
        for (mut key, value) in entries {
            let length = path.len();
            push_field(path, &key.text);
            let line = key.place.line;
            let mut ignore = |message: String| {
                self.ignored.push(Problem::new(&**path, message).at(line));
            };
            if key.repeated {
                ignore("the key is there twice, the last one counts".to_owned());
                key.repeated = false;
                kept.retain(|(it, _)| it.text != key.text);
            }
            match known.get(&*key.text) {
                None if !any_key => ignore(unknown(&key.text, known.keys())),
                _ if is_null(&value) => {}
                shape => {
                    self.lines.insert(path, line);
                    let value = self.node(value, shape.unwrap_or(&Json::Null), path);
                    kept.push((key, value));
                }
            }
            path.truncate(length);
        }
        let value = Value::Map(kept);
        Node { place, value }
    }
}

fn unknown<'k>(name: &str, mut known: impl Iterator<Item = &'k String>) -> String {
    match known.find(|it| it.eq_ignore_ascii_case(name)) {
        Some(right) => format!("unknown field, the name is {}", quoted(right)),
        None => "unknown field".to_owned(),
    }
}

fn is_null(node: &Node<'_>) -> bool {
    matches!(node.value(), Value::Scalar(it) if it.meaning() == Meaning::Null)
}
