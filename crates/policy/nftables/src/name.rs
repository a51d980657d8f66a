//! Names of sets and chains.

use std::fmt;
use std::sync::Arc;

use sluice_model::{IpFamily, NamespacedName};
use sluice_nft::{Family, Scope};
use sluice_policy_plan::{Direction, GroupId, Outcome, ProfileId, SetId};

use crate::{TABLE, set};

/// A set or map of our tables.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SetName {
    /// The profile of each pod of this node, by its address.
    Pods(Direction),
    /// Each pod of this node with itself, as source and destination.
    Itself,
    /// Ranges of which addresses without a known pod are closed.
    Ranges,
    /// The pairs of addresses of which a packet was logged within the last second.
    Logged(Outcome, Direction),
    /// Connections that were open when a policy began to forbid them, as their replies are.
    Cut,
    /// A set of the plan.
    Peers(SetId),
    /// A set that we did not make.
    Other(Arc<str>),
}

impl SetName {
    pub(crate) fn parse(name: &str) -> Self {
        let mut standing = set::STANDING.into_iter().map(|(it, _)| it);
        let found = standing.find(|it| it.to_string() == name);
        found
            .or_else(|| SetId::parse(name).map(Self::Peers))
            .unwrap_or_else(|| Self::Other(name.into()))
    }
}

impl fmt::Display for SetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pods(direction) => write!(f, "{direction}"),
            Self::Itself => f.write_str("itself"),
            Self::Cut => f.write_str("cut"),
            Self::Ranges => f.write_str("unknown"),
            Self::Logged(outcome, direction) => write!(f, "logged-{outcome}-{direction}"),
            Self::Peers(id) => write!(f, "{id}"),
            Self::Other(name) => f.write_str(name),
        }
    }
}

/// The name of a chain.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChainName(Arc<str>);

/// Longer names are cut, with a hash of the whole: `nft` and the kernel take 255 bytes, and a line should stay readable.
const LONGEST: usize = 100;

impl ChainName {
    /// The base chain of a direction.
    pub(crate) fn base(direction: Direction) -> Self {
        Self::listed(&direction.to_string())
    }

    /// The chain in which this becomes of a packet.
    pub(crate) fn outcome(outcome: Outcome, direction: Direction) -> Self {
        Self::listed(&format!("{outcome}-{direction}"))
    }

    /// The chain of a profile.
    #[must_use]
    pub fn profile(id: ProfileId) -> Self {
        Self::listed(&id.to_string())
    }

    /// The chain of a group of NetworkPolicies.
    #[must_use]
    pub fn group(id: GroupId) -> Self {
        Self::listed(&id.to_string())
    }

    /// How many chains of the plan it may lead through: it is made after those that it leads to.
    pub(crate) fn depth(&self) -> usize {
        let is_profile = |it: &Direction| self.0.starts_with(&format!("{it}-"));
        let is_between = |it: &&str| self.0.starts_with(it);
        if Direction::ALL.iter().any(is_profile) {
            2
        } else {
            usize::from(["group-", "admin-", "baseline-"].iter().any(is_between))
        }
    }

    /// The chain of a tier's rules, `admin`, `audit` or `baseline`, in a profile.
    pub(crate) fn tier(tier: &str, id: ProfileId) -> Self {
        Self::listed(&format!("{tier}-{id}"))
    }

    /// The chain of a NetworkPolicy.
    #[must_use]
    pub fn policy(direction: Direction, policy: &NamespacedName) -> Self {
        let name = format!("policy-{direction}-{policy}");
        if name.len() <= LONGEST {
            return Self::listed(&name);
        }
        let hash = SetId::of(&name).to_string();
        let kept = name.floor_char_boundary(LONGEST - hash.len() - 1);
        Self::listed(&format!("{}-{hash}", &name[..kept]))
    }

    /// A name as the kernel has it.
    pub(crate) fn listed(name: &str) -> Self {
        Self(name.into())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ChainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

pub(crate) const fn netlink(family: IpFamily) -> Family {
    match family {
        IpFamily::V4 => Family::Ipv4,
        IpFamily::V6 => Family::Ipv6,
    }
}

pub(crate) const fn scope(family: IpFamily) -> Scope<'static> {
    Scope {
        family: netlink(family),
        table: TABLE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_different() {
        let long = |end: &str| {
            let name = NamespacedName::new("n".repeat(63), format!("{}{end}", "p".repeat(250)));
            ChainName::policy(Direction::Ingress, &name).to_string()
        };
        assert_eq!(long("a").len(), LONGEST);
        assert_ne!(long("a"), long("b"));
        let short = ChainName::policy(Direction::Egress, &NamespacedName::new("default", "deny"));
        assert_eq!(short.to_string(), "policy-egress-default/deny");
    }

    #[test]
    fn names_of_sets_are_read_back() {
        let id = SetId::of("anything");
        for name in [
            SetName::Itself,
            SetName::Ranges,
            SetName::Cut,
            SetName::Pods(Direction::Egress),
            SetName::Logged(Outcome::Audited, Direction::Ingress),
            SetName::Peers(id),
        ] {
            assert_eq!(SetName::parse(&name.to_string()), name);
        }
        let other = SetName::Other("set-12".into());
        assert_eq!(SetName::parse("set-12"), other);
    }
}
