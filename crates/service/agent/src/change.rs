//! Events of the Service proxy.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use sluice_model::Change::Set;
use sluice_model::{Notice, Reference};
use sluice_node::Keyed;
use sluice_plan::Event;

/// Most changes of one slice that are timed: while a sync blocks or fails there may be any number.
pub(crate) const TIMED_CHANGES: usize = 64;

/// The last event about a subject, and the times of earlier changes.
#[derive(Debug)]
pub struct TimedEvent {
    /// The last event.
    pub(crate) event: Event,
    /// Of a slice: the times of change ([`sluice_model::EndpointSlice::triggered`]) that the replaced
    /// versions named, in order, at most [`TIMED_CHANGES`].
    pub(crate) earlier: Vec<i64>,
}

impl From<Event> for TimedEvent {
    fn from(event: Event) -> Self {
        let earlier = Vec::new();
        Self { event, earlier }
    }
}

/// The subject of an event.
#[derive(Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    Object(Reference),
    /// The problems of this origin.
    Problems(Arc<str>),
    /// The machine's addresses.
    LocalAddresses,
    /// The source is complete.
    Synced,
}

impl Keyed for TimedEvent {
    type Key = Subject;

    fn key(&self) -> Subject {
        match &self.event {
            Event::Service(it) => Subject::Object(it.reference()),
            Event::EndpointSlice(it) => Subject::Object(it.reference()),
            Event::Node(it) => Subject::Object(it.reference()),
            Event::ServiceCidr(it) => Subject::Object(it.reference()),
            Event::LocalAddresses(_) => Subject::LocalAddresses,
            Event::Notice(Notice::Problems { origin, .. }) => Subject::Problems(origin.clone()),
            Event::Notice(Notice::Synced) => Subject::Synced,
        }
    }

    fn namespace(&self) -> Option<Arc<str>> {
        match &self.event {
            Event::Service(it) => Some(it.name().namespace),
            Event::EndpointSlice(it) => Some(it.name().namespace),
            _ => None,
        }
    }

    fn is_last(&self) -> bool {
        self.event == Event::SYNCED
    }

    /// The times of a slice's earlier changes are kept.
    fn replace(&mut self, old: Self) {
        if let (Event::EndpointSlice(Set(slice)), Event::EndpointSlice(Set(_))) =
            (&old.event, &self.event)
        {
            let is_counted = old.earlier.len() < TIMED_CHANGES;
            let last = slice.triggered.filter(|_| is_counted);
            self.earlier = old.earlier;
            self.earlier.extend(last);
        }
    }
}
