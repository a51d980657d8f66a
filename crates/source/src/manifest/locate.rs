//! Field paths ↔ nodes.

use crate::convert::{Fault, Step};
use sluice_yaml::{Node, Value};
use sluice_yaml::{push_field, push_index};

/// Where a fault is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Located {
    pub(super) line: u32,
    pub(super) field: String,
    /// The way leads through a value of the wrong type, which has been reported already.
    pub(super) poisoned: bool,
}

/// Finds the place of a fault of the conversion. `skip` are the values that were left out when
/// the object was read: list positions count without them, lines and paths with them.
pub(super) fn locate(object: &Node<'_>, fault: &Fault, skip: &[usize]) -> Located {
    let mut path = Vec::with_capacity(fault.path.len());
    let (mut node, mut line) = (Some(object), object.place.line);
    let mut poisoned = false;
    for step in &fault.path {
        let mut real = *step;
        node = match (step, node.map(Node::value)) {
            (Step::Field(name), Some(Value::Map(_))) => {
                let entry = node.and_then(|it| it.get(name));
                line = entry.map_or(line, |(key, _)| key.place.line);
                entry.map(|(_, node)| node)
            }
            (Step::Index(wanted), Some(Value::List(items))) => {
                let kept = |(_, it): &(usize, &Node<'_>)| !skip.contains(&it.id());
                let item = items.iter().enumerate().filter(kept).nth(*wanted);
                if let Some((at, it)) = item {
                    real = Step::Index(at);
                    line = it.place.line;
                }
                item.map(|(_, it)| it)
            }
            _ => None,
        };
        poisoned |= node.is_some_and(|it| skip.contains(&it.id()));
        path.push(real);
    }
    let message = String::new();
    let field = Fault { path, message }.field();
    Located {
        line,
        field,
        poisoned,
    }
}

/// Line and path of the first appearance of a node in an object.
pub(super) fn find(object: &Node<'_>, id: usize) -> (u32, String) {
    let mut path = String::new();
    let line = search(object, id, object.place.line, &mut path);
    (line.unwrap_or(object.place.line), path)
}

fn search(node: &Node<'_>, id: usize, line: u32, path: &mut String) -> Option<u32> {
    if node.id() == id {
        return Some(line);
    }
    let length = path.len();
    match node.value() {
        Value::Map(entries) => {
            for (key, value) in entries {
                push_field(path, &key.text);
                if let Some(line) = search(value, id, key.place.line, path) {
                    return Some(line);
                }
                path.truncate(length);
            }
        }
        Value::List(items) => {
            for (i, item) in items.iter().enumerate() {
                push_index(path, i);
                if let Some(line) = search(item, id, item.place.line, path) {
                    return Some(line);
                }
                path.truncate(length);
            }
        }
        Value::Scalar(_) | Value::Shared(_) => {}
    }
    None
}
