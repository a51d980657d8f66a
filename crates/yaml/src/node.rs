//! The tree of one document.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::rc::Rc;

use super::Scalar;
use super::text::{push_field, push_index};

/// A place in a file. Lines and columns count from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
}

/// One value and where it starts.
#[derive(Clone, Debug)]
pub struct Node<'a> {
    /// Where it begins.
    pub place: Position,
    pub value: Value<'a>,
}

/// The value of a node.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// A text and how it was written.
    Scalar(Scalar<'a>),
    List(Vec<Node<'a>>),
    /// A mapping in the order of the file, with repeated keys.
    Map(Vec<(Key<'a>, Node<'a>)>),
    /// An anchored node or an alias of it. An alias copies nothing.
    Shared(Rc<Node<'a>>),
}

/// A key of a mapping.
#[derive(Clone, Debug)]
pub struct Key<'a> {
    /// Where it begins.
    pub place: Position,
    /// Its text, as a string.
    pub text: Cow<'a, str>,
    /// An earlier entry of the mapping has the same key.
    pub repeated: bool,
}

impl<'a> Node<'a> {
    /// The value, behind any alias.
    pub fn value(&self) -> &Value<'a> {
        let mut value = &self.value;
        while let Value::Shared(node) = value {
            value = &node.value;
        }
        value
    }

    /// Identity of the value: equal for an alias and its anchor, as long as the tree lives.
    pub fn id(&self) -> usize {
        std::ptr::from_ref(self.value()).addr()
    }

    /// The entry of a mapping.
    pub fn get(&self, key: &str) -> Option<&(Key<'a>, Node<'a>)> {
        match self.value() {
            Value::Map(entries) => entries.iter().find(|(it, _)| it.text == key),
            _ => None,
        }
    }

    /// Line and path of the first value with this [identity](Self::id) in the tree; this node's own
    /// line where there is none.
    pub fn find(&self, id: usize) -> (u32, String) {
        let mut found = None;
        if self.id() != id {
            let _ = self.walk(&mut String::new(), &mut |place, path, _, node| {
                if node.id() == id {
                    found = Some((place.line, path.to_owned()));
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            });
        }
        found.unwrap_or((self.place.line, String::new()))
    }

    /// The text of a scalar entry of a mapping.
    pub fn text(&self, key: &str) -> Option<&str> {
        match self.get(key)?.1.value() {
            Value::Scalar(scalar) => scalar.as_text(),
            _ => None,
        }
    }

    /// Keys in the tree that an earlier entry of their mapping has, each with its place and path,
    /// at most 20.
    pub fn repeated_keys(&self) -> Vec<(Position, String)> {
        const MAX: usize = 20;
        let mut found = Vec::new();
        let _ = self.walk(&mut String::new(), &mut |place, path, is_repeated, _| {
            if is_repeated {
                found.push((place, path.to_owned()));
            }
            if found.len() < MAX {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        found
    }

    /// Visits every entry and element below, parents first: place, path, whether the key is
    /// repeated, value.
    fn walk(
        &self,
        path: &mut String,
        visit: &mut dyn FnMut(Position, &str, bool, &Self) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let length = path.len();
        match self.value() {
            Value::Map(entries) => {
                for (key, node) in entries {
                    push_field(path, &key.text);
                    visit(key.place, path, key.repeated, node)?;
                    node.walk(path, visit)?;
                    path.truncate(length);
                }
            }
            Value::List(items) => {
                for (i, node) in items.iter().enumerate() {
                    push_index(path, i);
                    visit(node.place, path, false, node)?;
                    node.walk(path, visit)?;
                    path.truncate(length);
                }
            }
            Value::Scalar(_) | Value::Shared(_) => {}
        }
        ControlFlow::Continue(())
    }

    /// Nodes in the tree, this one and those behind aliases included.
    pub(super) fn size(&self) -> usize {
        let below: usize = match self.value() {
            Value::Map(entries) => entries.iter().map(|(_, node)| 1 + node.size()).sum(),
            Value::List(items) => items.iter().map(Self::size).sum(),
            Value::Scalar(_) | Value::Shared(_) => 0,
        };
        1 + below
    }
}
