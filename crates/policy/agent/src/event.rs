//! What a source says to the policies of this node.

use std::sync::Arc;

use sluice_model::{Notice, Reference};
use sluice_node::Keyed;
use sluice_policy_plan::Event;

/// A change of an object, or that the first list is complete.
#[derive(Clone, Debug)]
pub enum PolicyEvent {
    /// A change of an object.
    Object(Event),
    /// Every object that exists was named.
    Synced,
}

impl PolicyEvent {
    /// `None` for the problems of a source, which the Service proxy reports.
    #[must_use]
    pub fn notice(notice: &Notice) -> Option<Self> {
        matches!(notice, Notice::Synced).then_some(Self::Synced)
    }
}

impl Keyed for PolicyEvent {
    type Key = Option<Reference>;

    fn key(&self) -> Self::Key {
        match self {
            Self::Object(event) => Some(event.reference()),
            Self::Synced => None,
        }
    }

    fn namespace(&self) -> Option<Arc<str>> {
        let namespace = self.key()?.name.namespace;
        (!namespace.is_empty()).then_some(namespace)
    }

    fn is_last(&self) -> bool {
        matches!(self, Self::Synced)
    }
}
