//! What the names of a cluster follow from.

use sluice_model::{Change, EndpointSlice, Namespace, Notice, Pod, Reference, Service};

/// One statement about the cluster. The order of events for different objects is free; the later of two events for one
/// object wins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Service(Change<Service>),
    EndpointSlice(Change<EndpointSlice>),
    Namespace(Change<Namespace>),
    Pod(Change<Pod>),
    /// Problems of a source, or that its first list is complete.
    Notice(Notice),
}

impl Event {
    /// The first complete list was delivered.
    pub const SYNCED: Self = Self::Notice(Notice::Synced);

    /// The object that the event is about, if it is about one.
    #[must_use]
    pub fn reference(&self) -> Option<Reference> {
        match self {
            Self::Service(it) => Some(it.reference()),
            Self::EndpointSlice(it) => Some(it.reference()),
            Self::Namespace(it) => Some(it.reference()),
            Self::Pod(it) => Some(it.reference()),
            Self::Notice(_) => None,
        }
    }
}
