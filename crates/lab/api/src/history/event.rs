//! One change of one object, and its watch events.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::object::{Key, Object};
use crate::resource::Resource;
use crate::selector::Filter;

/// The type of a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventType {
    Added,
    Modified,
    Deleted,
}

/// A change of an object.
#[derive(Debug)]
pub struct Event {
    /// The version of the change.
    pub revision: u64,
    is_deletion: bool,
    /// The object after the change; the last state with the version of the deletion when it was
    /// deleted.
    object: Arc<Object>,
    pub(crate) previous: Option<Arc<Object>>,
    /// The watch event of each type as a line, in the stored version. Written for the first watch that needs it, then
    /// shared.
    lines: [OnceLock<Bytes>; 3],
}

impl Event {
    /// The event that puts an object with this body in place of `old`. `body` has no `kind`, `apiVersion` and
    /// `resourceVersion`.
    pub fn put(
        revision: u64,
        resource: Arc<Resource>,
        key: Key,
        body: Map<String, Value>,
        old: Option<Arc<Object>>,
    ) -> Self {
        let object = Object::freeze(resource, key, revision, body);
        Self::of(object.into(), old)
    }

    /// The event that deletes an object.
    pub fn deletion(revision: u64, old: Arc<Object>) -> Self {
        Self {
            is_deletion: true,
            ..Self::of(old.at(revision).into(), Some(old))
        }
    }

    /// The event that puts `object` in place of `previous`.
    pub(crate) fn of(object: Arc<Object>, previous: Option<Arc<Object>>) -> Self {
        Self {
            revision: object.revision,
            is_deletion: false,
            object,
            previous,
            lines: Default::default(),
        }
    }

    pub(crate) fn resource(&self) -> &Arc<Resource> {
        &self.object.resource
    }

    /// Size of the object as JSON in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.object.bare.len()
    }

    pub(crate) fn key(&self) -> &Key {
        &self.object.key
    }

    /// The object after the change; `None` when it was deleted.
    pub fn current(&self) -> Option<&Arc<Object>> {
        (!self.is_deletion).then_some(&self.object)
    }

    /// The watch event in the version `asked` for a watch with `filter`, if it gets one.
    pub(crate) fn line(&self, asked: &Resource, filter: &Filter) -> Option<Bytes> {
        let event_type = self.event_type(filter)?;
        let line = || event_type.line(asked, &self.object_for(event_type));
        if asked.api_version() != self.resource().api_version() {
            return Some(line());
        }
        Some(self.lines[event_type as usize].get_or_init(line).clone())
    }

    /// The type of the watch event for a watch with `filter`: ADDED for an object that begins to
    /// match, DELETED for one that ceases to match, `None` when it never matched.
    pub(crate) fn event_type(&self, filter: &Filter) -> Option<EventType> {
        let after = !self.is_deletion && filter.matches(&self.object);
        let before = self.previous.as_ref().is_some_and(|it| filter.matches(it));
        match (before, after) {
            (false, false) => None,
            (false, true) => Some(EventType::Added),
            (true, true) => Some(EventType::Modified),
            (true, false) => Some(EventType::Deleted),
        }
    }

    /// The object of a watch event. One that only ceased to match is sent in its state before.
    pub(crate) fn object_for(&self, event_type: EventType) -> Arc<Object> {
        match &self.previous {
            Some(previous) if event_type == EventType::Deleted && !self.is_deletion => {
                Arc::new(previous.at(self.revision))
            }
            _ => self.object.clone(),
        }
    }
}

impl EventType {
    /// The watch event as a line.
    pub(crate) fn line(self, asked: &Resource, object: &Object) -> Bytes {
        self.line_with(&object.typed(asked))
    }

    /// The watch event as a line, with this JSON in place of the object.
    pub(crate) fn line_with(self, object: &[u8]) -> Bytes {
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
