//! One change of one object, and the lines that tell watches of it.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::object::{Key, Object};
use crate::selector::Filter;

/// What a watch event calls a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventType {
    /// The object is new.
    Added,
    /// It changed.
    Modified,
    /// It is gone.
    Deleted,
}

/// A change in the history of a collection.
#[derive(Debug)]
pub struct Event {
    /// Version of the change.
    pub revision: u64,
    change: EventType,
    /// The state after the change; for a deletion the last state, with the deletion's version.
    object: Arc<Object>,
    pub(crate) previous: Option<Arc<Object>>,
    /// A line is written when the first watch needs it, then shared.
    lines: [OnceLock<Bytes>; 3],
}

impl Event {
    pub(crate) fn new(
        revision: u64,
        change: EventType,
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

    pub(crate) fn key(&self) -> &Key {
        &self.object.key
    }

    /// The object after the change, unless it is gone.
    pub(crate) fn current(&self) -> Option<&Arc<Object>> {
        (self.change != EventType::Deleted).then_some(&self.object)
    }

    /// What a watch with `filter` is told. An object that starts to match is new to it, one that
    /// ceases to match is gone.
    pub(crate) fn line(&self, filter: &Filter) -> Option<Bytes> {
        let told = self.told(filter)?;
        let line = self.lines[told as usize].get_or_init(|| told.line(&self.seen(told)));
        Some(line.clone())
    }

    /// What a watch with `filter` is told to have happened.
    pub(crate) fn told(&self, filter: &Filter) -> Option<EventType> {
        let after = self.change != EventType::Deleted && filter.matches(&self.object);
        let before = self.previous.as_ref().is_some_and(|it| filter.matches(it));
        match (before, after) {
            (false, false) => None,
            (false, true) => Some(EventType::Added),
            (true, true) => Some(EventType::Modified),
            (true, false) => Some(EventType::Deleted),
        }
    }

    /// The object that goes with it: one that only ceased to match is sent as it was.
    pub(crate) fn seen(&self, told: EventType) -> Arc<Object> {
        match &self.previous {
            Some(previous) if told == EventType::Deleted && self.change != EventType::Deleted => {
                Arc::new(previous.at(self.revision))
            }
            _ => self.object.clone(),
        }
    }
}

impl EventType {
    /// A line of a watch stream.
    pub(crate) fn line(self, object: &Object) -> Bytes {
        self.line_of(&object.typed())
    }

    /// The same with JSON that stands for an object.
    pub(crate) fn line_of(self, object: &[u8]) -> Bytes {
        let name = match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        };
        let mut line = Vec::with_capacity(object.len() + 40);
        line.extend_from_slice(format!(r#"{{"type":"{name}","object":"#).as_bytes());
        line.extend_from_slice(object);
        line.extend_from_slice(b"}\n");
        line.into()
    }
}
