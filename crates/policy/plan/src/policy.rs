//! NetworkPolicies and ClusterNetworkPolicies, as far as they say what is allowed.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sluice_model::{KindName, Model, NamespacedName, Protocol, Selector};

use crate::peer::{Peer, PodSelection};

/// A NetworkPolicy (networking.k8s.io/v1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkPolicy {
    /// Namespace and name.
    pub name: NamespacedName,
    /// `spec.podSelector`: the pods of the namespace that the policy is about.
    pub pods: Selector,
    /// Who may connect to these pods, all rules [`Action::Accept`]. `None`: the policy says nothing about it.
    pub ingress: Option<Vec<Rule>>,
    /// Whom these pods may connect to.
    pub egress: Option<Vec<Rule>>,
    /// What becomes of connections that the policy does not allow.
    pub mode: Mode,
    /// What becomes of connections that are open when the policy begins to forbid them; `None`: what is usual on the node.
    pub connections: Option<Connections>,
    /// `metadata.resourceVersion`, which no rule follows from; `None` for a policy of a file without one.
    pub version: Option<Arc<str>>,
}

/// Whether a policy counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// It allows and isolates.
    #[default]
    Enforce,
    /// It neither allows, isolates nor denies: what it would drop is counted and logged.
    Audit,
}

/// What becomes of connections that are open when policies begin to forbid them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Connections {
    /// They go on.
    #[default]
    Keep,
    /// Their packets are dropped.
    Cut,
}

/// What becomes of connections of an address of the node's pod ranges that no known pod of the node has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownPods {
    /// They pass: no policy is known to be about them.
    #[default]
    Accept,
    /// Their packets are dropped: policies may be about the pod.
    Drop,
}

impl NetworkPolicy {
    /// The rules for one direction, if the policy isolates its pods there.
    #[must_use]
    pub fn rules(&self, direction: Direction) -> Option<&[Rule]> {
        match direction {
            Direction::Ingress => self.ingress.as_deref(),
            Direction::Egress => self.egress.as_deref(),
        }
    }

    /// The pods that the policy is about.
    #[must_use]
    pub fn subject(&self) -> PodSelection {
        PodSelection::in_namespace(&self.name.namespace, self.pods.clone())
    }
}

impl Model for NetworkPolicy {
    const KIND: &'static KindName = &KindName {
        name: "NetworkPolicy",
        version: "networking.k8s.io/v1",
    };

    fn name(&self) -> NamespacedName {
        self.name.clone()
    }
}

/// A ClusterNetworkPolicy (policy.networking.k8s.io).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterNetworkPolicy {
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `spec.tier`.
    pub tier: Tier,
    /// `spec.priority`, 0..=1000: the lower one is asked first. Of two with the same, the one whose name comes first.
    pub priority: u16,
    /// `spec.subject`.
    pub subject: PodSelection,
    /// `spec.ingress`, in order; the first rule that matches decides.
    pub ingress: Vec<Rule>,
    /// `spec.egress`.
    pub egress: Vec<Rule>,
    /// As in a [`NetworkPolicy`].
    pub mode: Mode,
    /// As in a [`NetworkPolicy`].
    pub connections: Option<Connections>,
    /// As in a [`NetworkPolicy`].
    pub version: Option<Arc<str>>,
}

impl ClusterNetworkPolicy {
    /// The rules for one direction.
    #[must_use]
    pub fn rules(&self, direction: Direction) -> &[Rule] {
        match direction {
            Direction::Ingress => &self.ingress,
            Direction::Egress => &self.egress,
        }
    }
}

impl Model for ClusterNetworkPolicy {
    const KIND: &'static KindName = &KindName {
        name: "ClusterNetworkPolicy",
        version: "policy.networking.k8s.io/v1beta1",
    };

    fn name(&self) -> NamespacedName {
        NamespacedName::new("", self.name.clone())
    }
}

/// When a ClusterNetworkPolicy is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Before NetworkPolicies.
    Admin,
    /// After them, and only for pods that none of them isolates.
    Baseline,
}

/// Which end of a connection a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Connections to a pod.
    Ingress,
    /// Connections from a pod.
    Egress,
}

impl Direction {
    /// Both, in the order of [`NetworkPolicy`]'s fields.
    pub const ALL: [Self; 2] = [Self::Ingress, Self::Egress];
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ingress => "ingress",
            Self::Egress => "egress",
        })
    }
}

/// What becomes of a connection that somebody is to hear of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It was dropped.
    Dropped,
    /// It passed here, and policies in audit mode would drop it.
    Audited,
}

impl Outcome {
    pub const ALL: [Self; 2] = [Self::Dropped, Self::Audited];
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Dropped => "dropped",
            Self::Audited => "audited",
        })
    }
}

/// One entry of `ingress` or `egress`: a connection matches that has one of the peers and one of the ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// What happens to a connection that matches.
    pub action: Action,
    /// The other end. `None`: everyone; without entries: nobody.
    pub peers: Option<Vec<Peer>>,
    /// The destination port. `None`: every port of every protocol; without entries: none.
    pub ports: Option<Vec<Port>>,
}

/// What a rule does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// The connection is allowed as far as this pod is concerned.
    Accept,
    /// The connection is dropped.
    Deny,
    /// The rest of the tier is skipped.
    Pass,
}

/// A destination port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port {
    /// `protocol`, default TCP.
    pub protocol: Protocol,
    /// `port` and `endPort`.
    pub number: PortNumber,
}

/// The numbers of a destination port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PortNumber {
    Any,
    /// From the first to the last, both included.
    Range(u16, u16),
    /// That of the destination pod's container port with this name and protocol; pods without one have none.
    Named(Arc<str>),
}
