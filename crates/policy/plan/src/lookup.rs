//! What the plan does with one connection, and why.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use sluice_model::{NamespacedName, Protocol, Reference};

use crate::id::SetId;
use crate::plan::{
    Content, Member, PeerSet, Piece, Plan, PlannedRule, PortMatch, Profile, TierRule,
};
use crate::policy::{Action, ClusterNetworkPolicy, Direction, Mode, NetworkPolicy};

/// The first packet of a connection, after a Service's address was translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// The protocol and the destination port; `None` for a protocol without ports.
    pub port: Option<(Protocol, u16)>,
}

impl Packet {
    /// The address of the pod whose policies are asked, and the other one.
    const fn ends(&self, direction: Direction) -> (IpAddr, IpAddr) {
        match direction {
            Direction::Ingress => (self.destination, self.source),
            Direction::Egress => (self.source, self.destination),
        }
    }
}

/// The answer of this node: what the policies of its own pods say at either end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// At the source.
    pub egress: Reason,
    /// At the destination.
    pub ingress: Reason,
}

impl Decision {
    /// Whether both ends allow the connection.
    #[must_use]
    pub const fn is_allowed(&self) -> bool {
        self.egress.is_allowed() && self.ingress.is_allowed()
    }
}

/// Why one end allows or drops a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It is no pod of this node.
    Elsewhere,
    /// It is in the node's pod ranges, no known pod has it, and such addresses are closed.
    Unknown,
    /// NetworkPolicies cannot keep a pod from itself.
    Itself,
    /// No policy decides it.
    NotIsolated,
    /// This rule of a NetworkPolicy allows it.
    Allowed(NamespacedName, usize),
    /// These NetworkPolicies isolate the pod, and no rule of theirs matches.
    Isolated(Vec<NamespacedName>),
    /// This rule of a ClusterNetworkPolicy accepts it.
    Accepted(Arc<str>, usize),
    /// This rule of a ClusterNetworkPolicy denies it.
    Denied(Arc<str>, usize),
    /// No policy decides it, and these policies in audit mode would drop it.
    Audited(Vec<Reference>),
}

impl Reason {
    /// Whether the connection is allowed.
    #[must_use]
    pub const fn is_allowed(&self) -> bool {
        !matches!(self, Self::Isolated(_) | Self::Denied(..) | Self::Unknown)
    }

    /// The policies that drop the connection, or in audit mode would.
    #[must_use]
    pub fn droppers(&self) -> Vec<Reference> {
        match self {
            Self::Audited(policies) => policies.clone(),
            Self::Isolated(names) => names
                .iter()
                .map(|it| Reference::to::<NetworkPolicy>(it.clone()))
                .collect(),
            Self::Denied(name, _) => vec![Reference::cluster_scoped::<ClusterNetworkPolicy>(name)],
            _ => Vec::new(),
        }
    }

    /// The reason for a person.
    #[must_use]
    pub fn words(&self, direction: Direction) -> String {
        let cause = self.cause(direction);
        match self {
            Self::Isolated(_) | Self::Unknown => format!("dropped: {cause}"),
            Self::Denied(..) => format!("dropped by {cause}"),
            Self::Audited(_) => format!("allowed: {cause}"),
            _ => cause,
        }
    }

    /// The reason after a word that says what became of the connection.
    #[must_use]
    pub fn cause(&self, direction: Direction) -> String {
        let rule = |kind: &str, name: &dyn fmt::Display, rule: &usize| {
            format!("spec.{direction}[{rule}] of {kind} {name}")
        };
        match self {
            Self::Elsewhere => "not decided here: no pod of this node has the address".to_owned(),
            Self::Unknown => {
                "no known pod of this node has the address, and unknown ones are closed".to_owned()
            }
            Self::Itself => "allowed: NetworkPolicies do not keep a pod from itself".to_owned(),
            Self::NotIsolated => "allowed: no policy decides it".to_owned(),
            Self::Allowed(name, it) => {
                format!("allowed by {}", rule("NetworkPolicy", name, it))
            }
            Self::Isolated(names) => {
                let names = joined(names);
                format!("isolated by NetworkPolicy {names}, no rule of which matches")
            }
            Self::Audited(names) => {
                let names = joined(names);
                format!("would be dropped, if {names} were not in audit mode")
            }
            Self::Accepted(name, it) => {
                format!("allowed by {}", rule("ClusterNetworkPolicy", name, it))
            }
            Self::Denied(name, it) => rule("ClusterNetworkPolicy", name, it),
        }
    }
}

fn joined<T: fmt::Display>(names: &[T]) -> String {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    names.join(" and ")
}

/// What the plan does with a connection.
#[must_use]
pub fn lookup(plan: &Plan, packet: &Packet) -> Decision {
    let [ingress, egress] = Direction::ALL.map(|it| at(plan, packet, it));
    Decision { egress, ingress }
}

/// The policies in audit mode that would drop a connection at this end, as far as policies before them let it come to them. It
/// may be that another policy behind them drops it now.
#[must_use]
pub fn audited(plan: &Plan, packet: &Packet, direction: Direction) -> Vec<Reference> {
    let (own, other) = packet.ends(direction);
    let Ok(profile) = profile(plan, own, direction) else {
        return Vec::new();
    };
    let matches = |rule: &PlannedRule| matches(plan, packet, direction, rule);
    let mut found = Vec::new();
    // Whether the tier decides.
    let tier = |rules: &[TierRule], found: &mut Vec<Reference>| {
        for of_policy in rules.chunk_by(|a, b| a.policy == b.policy) {
            let first = of_policy.iter().find(|it| matches(&it.rule));
            match first.map(|it| (it.mode, it.rule.action)) {
                None | Some((Mode::Audit, Action::Accept | Action::Pass)) => {}
                Some((Mode::Audit, Action::Deny)) => {
                    found.push(Reference::cluster_scoped::<ClusterNetworkPolicy>(
                        &of_policy[0].policy,
                    ))
                }
                Some((Mode::Enforce, action)) => return action != Action::Pass,
            }
        }
        false
    };
    if tier(&profile.admin, &mut found) || profile.is_isolated() {
        return found;
    }
    let is_audited = !profile.audited.is_empty() && own != other;
    if is_audited && !profile.audit.iter().any(matches) {
        let names = profile.audited.iter().cloned();
        found.extend(names.map(Reference::to::<NetworkPolicy>));
    }
    tier(&profile.baseline, &mut found);
    found
}

/// The profile of a pod of this node; an error without one.
fn profile(plan: &Plan, own: IpAddr, direction: Direction) -> Result<&Profile, Reason> {
    let Some(Content::Address(_, address)) = content(plan, &Piece::Address(own)) else {
        let mut closed = ranges(plan);
        return Err(if closed.any(|it| it.contains(&own)) {
            Reason::Unknown
        } else {
            Reason::Elsewhere
        });
    };
    let profile = address.profile(direction);
    match profile.and_then(|it| content(plan, &Piece::Profile(it))) {
        Some(Content::Profile(_, profile)) => Ok(profile),
        _ => Err(Reason::NotIsolated),
    }
}

/// The ranges of which addresses without a known pod are closed.
pub fn ranges(plan: &Plan) -> impl Iterator<Item = &IpNet> {
    // They are the last pieces.
    plan.keys().rev().map_while(|it| match it {
        Piece::Range(range) => Some(range),
        _ => None,
    })
}

fn at(plan: &Plan, packet: &Packet, direction: Direction) -> Reason {
    let (own, other) = packet.ends(direction);
    match profile(plan, own, direction) {
        Ok(profile) => decide(plan, packet, direction, profile, own == other),
        Err(reason) => reason,
    }
}

/// A pod reaches itself through a Service: the packets are no different from those between two pods. NetworkPolicies
/// cannot forbid that, ClusterNetworkPolicies can (kubernetes-sigs/network-policy-api#390).
fn decide(
    plan: &Plan,
    packet: &Packet,
    direction: Direction,
    profile: &Profile,
    is_itself: bool,
) -> Reason {
    let matches = |rule: &PlannedRule| matches(plan, packet, direction, rule);
    let tier = |rules: &[TierRule]| {
        let mut enforced = rules.iter().filter(|it| it.mode == Mode::Enforce);
        let found = enforced.find(|it| matches(&it.rule))?;
        let (policy, rule) = (found.policy.clone(), found.rule.rule);
        match found.rule.action {
            Action::Accept => Some(Reason::Accepted(policy, rule)),
            Action::Deny => Some(Reason::Denied(policy, rule)),
            Action::Pass => None,
        }
    };
    if let Some(reason) = tier(&profile.admin) {
        return reason;
    }
    if is_itself && profile.is_isolated() {
        return Reason::Itself;
    }
    for name in &profile.policies {
        let rules = content(plan, &Piece::Policy(direction, name.clone()));
        let Some(Content::Policy(_, _, rules)) = rules else {
            continue;
        };
        if let Some(found) = rules.rules.iter().find(|it| matches(it)) {
            return Reason::Allowed(name.clone(), found.rule);
        }
    }
    if profile.is_isolated() {
        return Reason::Isolated([&profile.policies[..], &profile.partial[..]].concat());
    }
    if let Some(reason) = tier(&profile.baseline) {
        return reason;
    }
    match audited(plan, packet, direction) {
        none if none.is_empty() => Reason::NotIsolated,
        audited => Reason::Audited(audited),
    }
}

fn matches(plan: &Plan, packet: &Packet, direction: Direction, rule: &PlannedRule) -> bool {
    let (_, other) = packet.ends(direction);
    let is_peer = rule.peer.is_none_or(|it| has_address(plan, it, other));
    is_peer
        && match (rule.port, packet.port) {
            (PortMatch::Any, _) => true,
            (_, None) => false,
            (PortMatch::One(wanted, number), Some(port)) => (wanted, number) == port,
            (PortMatch::In(set), Some((protocol, port))) => {
                let ranges = content(plan, &Piece::Set(set));
                matches!(ranges, Some(Content::Set(_, PeerSet::Ports(ranges)))
                    if ranges.iter().any(|it| it.contains(protocol, port)))
            }
            (PortMatch::Named(named, set), Some((protocol, port))) => {
                let member = Member::Port(packet.destination, port);
                named == protocol && plan.contains_key(&Piece::Member(set, member))
            }
        }
}

fn has_address(plan: &Plan, set: SetId, address: IpAddr) -> bool {
    match content(plan, &Piece::Set(set)) {
        Some(Content::Set(_, PeerSet::Blocks(blocks))) => {
            blocks.iter().any(|it| it.contains(&address))
        }
        Some(_) => plan.contains_key(&Piece::Member(set, Member::Address(address))),
        None => false,
    }
}

fn content<'a>(plan: &'a Plan, piece: &Piece) -> Option<&'a Content> {
    plan.get(piece).map(|it| &**it)
}
