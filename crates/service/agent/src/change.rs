//! Events of the Service proxy.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use sluice_model::{Event, Object, ObjectKey};
use sluice_node::Keyed;

/// Most changes of one slice that are timed: while a sync blocks or fails there may be any number.
pub(crate) const TIMED_CHANGES: usize = 64;

/// The last event about a subject, and the times of earlier changes.
#[derive(Debug)]
pub struct Change {
    /// The last event.
    pub(crate) event: Event,
    /// Of a slice: the times of change ([`sluice_model::EndpointSlice::triggered`]) that the replaced
    /// versions named, in order, at most [`TIMED_CHANGES`].
    pub(crate) earlier: Vec<i64>,
}

impl From<Event> for Change {
    fn from(event: Event) -> Self {
        let earlier = Vec::new();
        Self { event, earlier }
    }
}

/// The subject of an event.
#[derive(Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// An object.
    Object(ObjectKey),
    /// The problems of this origin.
    Problems(Arc<str>),
    /// The machine's addresses.
    LocalAddresses,
    /// The source is complete.
    Synced,
}

impl Keyed for Change {
    type Key = Subject;

    fn key(&self) -> Subject {
        match &self.event {
            Event::Set(object) => Subject::Object(object.key()),
            Event::Delete(key) => Subject::Object(key.clone()),
            Event::Problems { origin, .. } => Subject::Problems(origin.clone()),
            Event::LocalAddresses(_) => Subject::LocalAddresses,
            Event::Synced => Subject::Synced,
        }
    }

    /// The times of a slice's earlier changes are kept.
    fn replace(&mut self, old: Self) {
        if let (Event::Set(Object::EndpointSlice(slice)), Event::Set(_)) = (&old.event, &self.event)
        {
            let is_counted = old.earlier.len() < TIMED_CHANGES;
            let last = slice.triggered.filter(|_| is_counted);
            self.earlier = old.earlier;
            self.earlier.extend(last);
        }
    }
}
