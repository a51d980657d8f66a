//! What a planner takes in.

use sluice_model::{
    Change, EndpointSlice, LocalAddresses, Node, Notice, Reference, Service, ServiceCidr,
};

/// One statement about the cluster or this machine.
///
/// The order of events for different objects is free; the later of two events for one object wins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Service(Change<Service>),
    EndpointSlice(Change<EndpointSlice>),
    Node(Change<Node>),
    ServiceCidr(Change<ServiceCidr>),
    /// The addresses of the machine. Replaces the earlier ones.
    LocalAddresses(LocalAddresses),
    /// Problems of a source, or that its first list is complete.
    Notice(Notice),
}

impl Event {
    /// The first complete list was delivered. Nothing is applied before.
    pub const SYNCED: Self = Self::Notice(Notice::Synced);

    /// The object that the event is about, if it is about one.
    #[must_use]
    pub fn reference(&self) -> Option<Reference> {
        match self {
            Self::Service(it) => Some(it.reference()),
            Self::EndpointSlice(it) => Some(it.reference()),
            Self::Node(it) => Some(it.reference()),
            Self::ServiceCidr(it) => Some(it.reference()),
            Self::LocalAddresses(_) | Self::Notice(_) => None,
        }
    }

    /// Whether the event says that an object is gone.
    #[must_use]
    pub fn is_deletion(&self) -> bool {
        matches!(
            self,
            Self::Service(Change::Delete(_))
                | Self::EndpointSlice(Change::Delete(_))
                | Self::Node(Change::Delete(_))
                | Self::ServiceCidr(Change::Delete(_))
        )
    }
}
