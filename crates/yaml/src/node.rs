//! The tree of one document.

use std::borrow::Cow;
use std::rc::Rc;

use super::Scalar;
use super::text::{push_field, push_index};

/// A place in a file. Lines and columns count from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
}

/// One value and where it starts.
#[derive(Clone, Debug)]
pub struct Node<'a> {
    /// Where it begins.
    pub place: Place,
    /// What it is.
    pub value: Value<'a>,
}

/// What a node holds.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// A text and how it was written.
    Scalar(Scalar<'a>),
    /// A list.
    List(Vec<Node<'a>>),
    /// A mapping in the order of the file. A key may be there twice: [`Node::repeated_keys`].
    Map(Vec<(Key<'a>, Node<'a>)>),
    /// An anchored node or an alias of it. Aliases cost nothing but their count.
    Shared(Rc<Node<'a>>),
}

/// A key of a mapping.
#[derive(Clone, Debug)]
pub struct Key<'a> {
    /// Where it begins.
    pub place: Place,
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

    /// Line and path of the first appearance of the node of this [identity](Self::id) below; this
    /// node's own line where there is none.
    pub fn find(&self, id: usize) -> (u32, String) {
        let mut path = String::new();
        let line = self.search(id, self.place.line, &mut path);
        (line.unwrap_or(self.place.line), path)
    }

    fn search(&self, id: usize, line: u32, path: &mut String) -> Option<u32> {
        if self.id() == id {
            return Some(line);
        }
        let length = path.len();
        match self.value() {
            Value::Map(entries) => {
                for (key, value) in entries {
                    push_field(path, &key.text);
                    if let Some(line) = value.search(id, key.place.line, path) {
                        return Some(line);
                    }
                    path.truncate(length);
                }
            }
            Value::List(items) => {
                for (i, item) in items.iter().enumerate() {
                    push_index(path, i);
                    if let Some(line) = item.search(id, item.place.line, path) {
                        return Some(line);
                    }
                    path.truncate(length);
                }
            }
            Value::Scalar(_) | Value::Shared(_) => {}
        }
        None
    }

    /// The text of a scalar entry of a mapping.
    pub fn text(&self, key: &str) -> Option<&str> {
        match self.get(key)?.1.value() {
            Value::Scalar(scalar) => scalar.as_text(),
            _ => None,
        }
    }

    /// Every key below that an earlier one of its mapping has taken, with its path. Walks the
    /// whole tree: for documents that are known to have one.
    pub fn repeated_keys(&self) -> Vec<(Place, String)> {
        let mut found = Vec::new();
        self.walk_repeated(&mut String::new(), &mut found);
        found
    }

    fn walk_repeated(&self, path: &mut String, found: &mut Vec<(Place, String)>) {
        let length = path.len();
        match self.value() {
            Value::Map(entries) => {
                for (key, node) in entries {
                    push_field(path, &key.text);
                    if key.repeated && found.len() < 20 {
                        found.push((key.place, path.clone()));
                    }
                    node.walk_repeated(path, found);
                    path.truncate(length);
                }
            }
            Value::List(items) => {
                for (i, node) in items.iter().enumerate() {
                    push_index(path, i);
                    node.walk_repeated(path, found);
                    path.truncate(length);
                }
            }
            Value::Scalar(_) | Value::Shared(_) => {}
        }
    }
}
