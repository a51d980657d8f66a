//! One change of one object, and the lines that tell watches of it.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::object::{Key, Object};
use crate::selector::Filter;

/// What a watch event calls a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Added,
    Modified,
    Deleted,
}

/// A change in the history of a collection.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) revision: u64,
    change: Change,
    /// The state after the change; for a deletion the last state, with the deletion's version.
    object: Arc<Object>,
    pub(super) previous: Option<Arc<Object>>,
    /// A line is written when the first watch needs it, then shared.
    lines: [OnceLock<Bytes>; 3],
}

impl Event {
    pub(crate) fn new(
        revision: u64,
        change: Change,
        object: Arc<Object>,
        previous: Option<Arc<Object>>,
    ) -> Self {
        Self {
            revision,
            change,
            object,
            previous,
            lines: Default::default(),
        }
    }

    pub(super) fn key(&self) -> &Key {
        &self.object.key
    }

    /// The object after the change, unless it is gone.
    pub(super) fn current(&self) -> Option<&Arc<Object>> {
        (self.change != Change::Deleted).then_some(&self.object)
    }

    /// What a watch with `filter` is told. An object that starts to match is new to it, one that
    /// ceases to match is gone.
    pub(crate) fn line(&self, filter: &Filter) -> Option<Bytes> {
        let after = self.change != Change::Deleted && filter.matches(&self.object);
        let before = self.previous.as_ref().is_some_and(|it| filter.matches(it));
        let told = match (before, after) {
            (false, false) => return None,
            (false, true) => Change::Added,
            (true, true) => Change::Modified,
            (true, false) => Change::Deleted,
        };
        let line = self.lines[told as usize].get_or_init(|| match (&self.previous, told) {
            (Some(previous), Change::Deleted) if self.change != Change::Deleted => {
                told.line(&previous.at(self.revision))
            }
            _ => told.line(&self.object),
        });
        Some(line.clone())
    }
}

impl Change {
    /// A line of a watch stream.
    pub(crate) fn line(self, object: &Object) -> Bytes {
        let name = match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        };
        let object = object.typed();
        let mut line = Vec::with_capacity(object.len() + 40);
        line.extend_from_slice(format!(r#"{{"type":"{name}","object":"#).as_bytes());
        line.extend_from_slice(&object);
        line.extend_from_slice(b"}\n");
        line.into()
    }
}
