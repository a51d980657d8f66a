//! Field paths ↔ nodes.

use crate::convert::{Fault, Step};
use sluice_yaml::{Node, Value};

/// The place of a fault.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Located {
    pub(super) line: u32,
    pub(super) field: String,
    /// The path leads through a value of the wrong type, which has been reported already.
    pub(super) is_reported: bool,
}

/// Finds the place of a fault of the conversion. `skip` are the values that were left out when
/// the object was read: list positions count without them, lines and paths with them.
pub(super) fn locate(object: &Node<'_>, fault: &Fault, skip: &[usize]) -> Located {
    let mut path = Vec::with_capacity(fault.path.len());
    let (mut node, mut line) = (Some(object), object.place.line);
    let mut is_reported = false;
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
        is_reported |= node.is_some_and(|it| skip.contains(&it.id()));
        path.push(real);
    }
    let message = String::new();
    let field = Fault { path, message }.field();
    Located {
        line,
        field,
        is_reported,
    }
}
