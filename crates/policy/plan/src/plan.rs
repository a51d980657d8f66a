//! What a node does with connections of its pods: pieces that change one by one.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use sluice_model::{NamespacedName, Protocol};

use crate::id::{GroupId, ProfileId, SetId};
use crate::peer::PodSelection;
use crate::policy::{Action, Direction, Mode};

/// The plan of a node. What a piece refers to is in the plan.
pub type Plan = BTreeMap<Piece, Arc<Content>>;

/// The identity of a piece of the plan.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Piece {
    /// A set of peers or ports that rules ask.
    Set(SetId),
    /// A pod's entry in a set.
    Member(SetId, Member),
    /// The rules of a NetworkPolicy for one direction.
    Policy(Direction, NamespacedName),
    /// Some of the NetworkPolicies of pods that have many.
    Group(GroupId),
    /// The policies of some pods for one direction.
    Profile(ProfileId),
    /// An address of a pod of this node.
    Address(IpAddr),
    /// Addresses of which those without a known pod of this node are closed.
    Range(IpNet),
}

impl fmt::Display for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Set(id) => write!(f, "{id}"),
            Self::Member(id, member) => write!(f, "{member} of {id}"),
            Self::Policy(direction, name) => write!(f, "{direction} of NetworkPolicy {name}"),
            Self::Group(id) => write!(f, "{id}"),
            Self::Profile(id) => write!(f, "profile {id}"),
            Self::Address(address) => write!(f, "pod address {address}"),
            Self::Range(range) => write!(f, "unknown pods of {range}"),
        }
    }
}

/// An entry of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Member {
    /// The address of a pod.
    Address(IpAddr),
    /// The address of a pod and the number of its port.
    Port(IpAddr, u16),
}

impl Member {
    /// The address.
    #[must_use]
    pub const fn address(&self) -> IpAddr {
        match self {
            Self::Address(address) | Self::Port(address, _) => *address,
        }
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => write!(f, "{address}"),
            Self::Port(address, port) => write!(f, "{address} port {port}"),
        }
    }
}

/// A piece with its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Of [`Piece::Set`].
    Set(SetId, PeerSet),
    /// Of [`Piece::Member`]: it has no more than its identity.
    Member(SetId, Member),
    /// Of [`Piece::Policy`].
    Policy(Direction, NamespacedName, PolicyPlan),
    /// Of [`Piece::Group`]: one of the [`groups`](fn@crate::groups) of a profile.
    Group(GroupId, Vec<NamespacedName>),
    /// Of [`Piece::Profile`].
    Profile(ProfileId, Profile),
    /// Of [`Piece::Address`].
    Address(IpAddr, AddressPlan),
    /// Of [`Piece::Range`].
    Range(IpNet),
}

impl Content {
    /// The identity.
    #[must_use]
    pub fn piece(&self) -> Piece {
        match self {
            Self::Set(id, _) => Piece::Set(*id),
            Self::Member(id, member) => Piece::Member(*id, *member),
            Self::Policy(direction, name, _) => Piece::Policy(*direction, name.clone()),
            Self::Group(id, _) => Piece::Group(*id),
            Self::Profile(id, _) => Piece::Profile(*id),
            Self::Address(address, _) => Piece::Address(*address),
            Self::Range(range) => Piece::Range(*range),
        }
    }
}

/// A set that rules ask. Equal ones are one set, whoever uses them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerSet {
    /// The addresses of pods, each a [`Piece::Member`].
    Pods(PodSelection, Claims),
    /// The addresses of pods with the number of their port of this name, each a [`Piece::Member`].
    NamedPort {
        /// The pods.
        pods: PodSelection,
        /// Of an address that several pods claim.
        claims: Claims,
        /// The port's name.
        name: Arc<str>,
        /// The port's protocol.
        protocol: Protocol,
    },
    /// Prefixes, by address, no two with a common one.
    Blocks(Vec<IpNet>),
    /// Ports, by protocol and number, no two with a common one.
    Ports(Vec<PortRange>),
}

/// When a set has an address that several pods claim: a rule that denies must not miss one of them, any other rule must not
/// mean another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claims {
    /// It has the address if all of these pods are selected, and agree on the port.
    All,
    /// It has the address if any of these pods is selected, with the port of each.
    Any,
}

impl Claims {
    /// For the sets of rules with this action.
    pub(crate) const fn of(action: Action) -> Self {
        match action {
            Action::Deny => Self::Any,
            Action::Accept | Action::Pass => Self::All,
        }
    }
}

impl fmt::Display for Claims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::All => "",
            Self::Any => ", to deny",
        })
    }
}

impl PeerSet {
    /// Its name.
    #[must_use]
    pub fn id(&self) -> SetId {
        SetId::of(&self.to_string())
    }
}

/// As one line that says all of it: equal sets have equal lines.
impl fmt::Display for PeerSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pods(pods, claims) => write!(f, "{pods}{claims}"),
            Self::NamedPort {
                pods,
                claims,
                name,
                protocol,
            } => write!(f, "{protocol} port {name} of {pods}{claims}"),
            Self::Blocks(prefixes) => list(f, "addresses", prefixes),
            Self::Ports(ranges) => list(f, "ports", ranges),
        }
    }
}

fn list<T: fmt::Display>(f: &mut fmt::Formatter<'_>, what: &str, entries: &[T]) -> fmt::Result {
    f.write_str(what)?;
    entries.iter().try_for_each(|it| write!(f, " {it}"))
}

/// Ports of one protocol. Displays as `tcp/80` or `tcp/8000-8080`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortRange {
    /// The one that all of its ports are of.
    pub protocol: Protocol,
    /// The first port.
    pub first: u16,
    /// The last port.
    pub last: u16,
}

impl PortRange {
    /// Whether it has a port.
    #[must_use]
    pub fn contains(&self, protocol: Protocol, port: u16) -> bool {
        protocol == self.protocol && (self.first..=self.last).contains(&port)
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            protocol,
            first,
            last,
        } = self;
        write!(f, "{protocol}/{first}")?;
        if first < last {
            write!(f, "-{last}")?;
        }
        Ok(())
    }
}

/// The rules of a NetworkPolicy for one direction: any one that matches allows the connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyPlan {
    /// Without any nothing is allowed.
    pub rules: Vec<PlannedRule>,
    /// How many more there would be: one policy may have 1,024 for a direction.
    pub left_out: usize,
}

/// One condition of a rule of a policy, with its action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedRule {
    /// The rule's place in the policy's list, from 0.
    pub rule: usize,
    /// The set that the other end's address is in; `None`: every address.
    pub peer: Option<SetId>,
    /// Which destination the connection has.
    pub port: PortMatch,
    /// What happens to a connection that matches.
    pub action: Action,
}

impl PlannedRule {
    /// The sets that it asks.
    pub(crate) fn sets(&self) -> impl Iterator<Item = SetId> + use<> {
        let of_port = match self.port {
            PortMatch::Any | PortMatch::One(..) => None,
            PortMatch::In(set) | PortMatch::Named(_, set) => Some(set),
        };
        self.peer.into_iter().chain(of_port)
    }
}

/// The destination of a connection, as a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortMatch {
    /// Every port of every protocol.
    Any,
    /// This port. It needs no set: the kernel finds each one by its name, in a list of all.
    One(Protocol, u16),
    /// One of the ports in the set.
    In(SetId),
    /// The destination's address and port are in the set, by this protocol.
    Named(Protocol, SetId),
}

/// The policies of some pods for one direction, in the order in which they are asked: those of the tier Admin, then
/// NetworkPolicies, or those of the tier Baseline where there is no NetworkPolicy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// The rules of the tier Admin: the first that matches decides.
    pub admin: Vec<TierRule>,
    /// NetworkPolicies, by name. With any of them, what none of them allows is dropped.
    pub policies: Vec<NamespacedName>,
    /// NetworkPolicies about some, and not all, of the pods that claim the address: they isolate it, and their rules are not
    /// asked.
    pub partial: Vec<NamespacedName>,
    /// The rules of the tier Baseline.
    pub baseline: Vec<TierRule>,
    /// NetworkPolicies in audit mode, none where another one isolates the pods. They are asked before `baseline`, and
    /// nothing that they say stops a connection.
    pub audited: Vec<NamespacedName>,
    /// Their rules, all [`Action::Pass`]: what none of them matches would be dropped.
    pub audit: Vec<PlannedRule>,
}

impl Profile {
    /// Whether this NetworkPolicy is about the pods. One in audit mode is not while another one isolates them.
    #[must_use]
    pub fn has_policy(&self, name: &NamespacedName) -> bool {
        let enforced = self.policies.iter().chain(&self.partial);
        let mut all = enforced.chain(&self.audited);
        all.any(|it| it == name)
    }

    /// Whether this ClusterNetworkPolicy has a rule for the pods.
    #[must_use]
    pub fn has_cluster_policy(&self, name: &str) -> bool {
        let mut all = self.admin.iter().chain(&self.baseline);
        all.any(|it| *it.policy == *name)
    }

    /// Whether a NetworkPolicy isolates the pods.
    #[must_use]
    pub fn is_isolated(&self) -> bool {
        !(self.policies.is_empty() && self.partial.is_empty())
    }
}

/// A rule of a ClusterNetworkPolicy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierRule {
    /// The policy's name, for whoever asks why.
    pub policy: Arc<str>,
    /// As in a NetworkPolicy, but with any action.
    pub rule: PlannedRule,
    /// In audit mode the rule decides nothing: if it is the first of its policy that matches, and denies, that is told.
    pub mode: Mode,
}

/// A pod's address on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressPlan {
    /// The pod. Of several that claim the address, the one whose name comes first.
    pub pod: NamespacedName,
    /// The profile for connections to the pod; `None`: no policy is about them.
    pub ingress: Option<ProfileId>,
    /// The profile for connections from the pod.
    pub egress: Option<ProfileId>,
}

impl AddressPlan {
    /// The profile for one direction.
    #[must_use]
    pub const fn profile(&self, direction: Direction) -> Option<ProfileId> {
        match direction {
            Direction::Ingress => self.ingress,
            Direction::Egress => self.egress,
        }
    }
}
