//! What strict decoding refuses and lenient decoding ignores: fields that do not exist, keys
//! that are there twice.

use serde_json::Value as Json;
use sluice_yaml::{Key, Meaning, Node, Value, push_field, quoted};

use crate::problem::{Lines, Problem};
use crate::types::KubeProxyConfiguration;

/// A document as lenient decoding sees it.
pub(crate) struct Lenient<'a> {
    /// Only fields that exist, each once, none of them null.
    pub(crate) document: Node<'a>,
    /// What was left out.
    pub(crate) oddities: Vec<Problem>,
    /// Where the fields are.
    pub(crate) lines: Lines,
}

/// Leaves out what strict decoding would refuse. As in Kubernetes the case of a field counts, the
/// last of two equal keys wins, and null is the same as absent.
pub(crate) fn lenient(document: Node<'_>) -> Lenient<'_> {
    let known = serde_json::to_value(KubeProxyConfiguration::default());
    let known = known.expect("plain values and text keys");
    let mut walk = Walk::default();
    let document = walk.node(document, &known, &mut String::new());
    let mut oddities = walk.oddities;
    oddities.sort_by_key(|it| it.line);
    Lenient {
        document,
        oddities,
        lines: walk.lines,
    }
}

#[derive(Default)]
struct Walk {
    oddities: Vec<Problem>,
    lines: Lines,
}

impl Walk {
    /// `known` has the shape of what may be here.
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
        // A map with keys of the user's choice is empty by default.
        let is_free = known.is_empty();
        let mut kept: Vec<(Key<'a>, Node<'a>)> = Vec::new();
        for (mut key, value) in entries {
            let length = path.len();
            push_field(path, &key.text);
            let line = key.place.line;
            let mut odd = |message: String| {
                self.oddities.push(Problem::new(&**path, message).at(line));
            };
            if key.repeated {
                odd("the key is there twice, the last one counts".to_owned());
                key.repeated = false;
                kept.retain(|(it, _)| it.text != key.text);
            }
            match known.get(&*key.text) {
                None if !is_free => odd(unknown(&key.text, known.keys())),
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
