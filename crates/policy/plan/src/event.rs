//! What policies are about.

use sluice_model::{Change, Namespace, Node, Pod, Reference};

use crate::policy::{ClusterNetworkPolicy, NetworkPolicy};

/// A change of an object that decides who may talk to whom.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the kinds themselves")]
pub enum Event {
    NetworkPolicy(Change<NetworkPolicy>),
    ClusterNetworkPolicy(Change<ClusterNetworkPolicy>),
    Pod(Change<Pod>),
    Namespace(Change<Namespace>),
    Node(Change<Node>),
}

impl Event {
    /// The object.
    #[must_use]
    pub fn reference(&self) -> Reference {
        match self {
            Self::NetworkPolicy(it) => it.reference(),
            Self::ClusterNetworkPolicy(it) => it.reference(),
            Self::Pod(it) => it.reference(),
            Self::Namespace(it) => it.reference(),
            Self::Node(it) => it.reference(),
        }
    }
}
