//! How sets are declared.

use sluice_model::IpFamily;
use sluice_nft::rule::{Field, Side};
use sluice_nft::shape::{Shape, Value};
use sluice_nft::text::comment;
use sluice_nft::{Set, SetFlags};
use sluice_policy_plan::{Direction, Outcome, PeerSet};

use crate::name::{SetName, netlink};

/// What a set has as elements, and so how it is declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Addresses with the chain that each leads to.
    Pods,
    /// Each address with itself.
    Itself,
    /// Sources with destinations, which rules add and which go by themselves.
    Logged,
    /// Connections, which go by themselves some time after their last packet.
    Cut,
    /// Addresses.
    Addresses,
    /// Destination addresses with ports.
    Ports,
    /// Prefixes.
    Prefixes,
    /// Protocols with ranges of ports.
    Ranges,
}

impl Kind {
    /// Those that a [`SetName::Peers`] may be of.
    const PEERS: [Self; 4] = [Self::Addresses, Self::Ports, Self::Prefixes, Self::Ranges];

    pub(crate) const fn of(set: &PeerSet) -> Self {
        match set {
            PeerSet::Pods(..) => Self::Addresses,
            PeerSet::NamedPort { .. } => Self::Ports,
            PeerSet::Blocks(_) => Self::Prefixes,
            PeerSet::Ports(_) => Self::Ranges,
        }
    }

    /// The fields of a key. The side of an address matters to no set: only the rules that ask have one.
    pub(crate) const fn key(self) -> &'static [Field] {
        match self {
            Self::Pods | Self::Addresses | Self::Prefixes => &[Field::Address(Side::Source)],
            Self::Itself | Self::Logged => &[
                Field::Address(Side::Source),
                Field::Address(Side::Destination),
            ],
            Self::Ports => &[
                Field::Address(Side::Destination),
                Field::Port(Side::Destination),
            ],
            Self::Ranges => &[Field::Protocol, Field::Port(Side::Destination)],
            Self::Cut => &[
                Field::Address(Side::Source),
                Field::Address(Side::Destination),
                Field::Protocol,
                Field::Port(Side::Source),
                Field::Port(Side::Destination),
            ],
        }
    }

    fn declare(self, family: IpFamily, name: &SetName) -> Set {
        let shape = Shape {
            key: self.key(),
            value: match self {
                Self::Pods => Value::Verdict,
                _ => Value::None,
            },
        };
        let (family, name) = (netlink(family), name.to_string());
        match self {
            Self::Ranges => shape.set_of_ranges(family, name),
            Self::Prefixes => Set {
                flags: SetFlags::INTERVAL,
                ..shape.set(family, name)
            },
            Self::Logged => Set {
                flags: SetFlags::TIMEOUT | SetFlags::DYNAMIC,
                size: Some(LOGGED_PAIRS),
                ..shape.set(family, name)
            },
            Self::Cut => Set {
                flags: SetFlags::TIMEOUT | SetFlags::DYNAMIC,
                size: Some(CUT_CONNECTIONS),
                ..shape.set(family, name)
            },
            _ => shape.set(family, name),
        }
    }

    /// Whether elements come and go without a write of the plan.
    pub(crate) const fn is_volatile(self) -> bool {
        matches!(self, Self::Logged | Self::Cut)
    }
}

/// The declaration of one of the sets that are always there.
pub(crate) fn standing(family: IpFamily, name: &SetName, kind: Kind) -> Set {
    kind.declare(family, name)
}

/// The declaration of a set of the plan.
pub(crate) fn peers(family: IpFamily, name: &SetName, set: &PeerSet) -> Set {
    let declared = Kind::of(set).declare(family, name);
    Set {
        comment: Some(comment(&set.to_string()).into_owned()),
        ..declared
    }
}

/// Most pairs that are remembered at a time: while there are as many, packets of other pairs are not logged.
const LOGGED_PAIRS: u32 = 4_096;

/// Most connections that are held cut at a time.
const CUT_CONNECTIONS: u32 = 65_536;

/// The sets that are always there.
pub(crate) const STANDING: [(SetName, Kind); 9] = [
    (SetName::Pods(Direction::Ingress), Kind::Pods),
    (SetName::Pods(Direction::Egress), Kind::Pods),
    (SetName::Itself, Kind::Itself),
    (SetName::Cut, Kind::Cut),
    (SetName::Ranges, Kind::Prefixes),
    logged(Outcome::Dropped, Direction::Ingress),
    logged(Outcome::Dropped, Direction::Egress),
    logged(Outcome::Audited, Direction::Ingress),
    logged(Outcome::Audited, Direction::Egress),
];

const fn logged(outcome: Outcome, direction: Direction) -> (SetName, Kind) {
    (SetName::Logged(outcome, direction), Kind::Logged)
}

/// The kind of a set that the kernel lists; `None` if we would declare it otherwise.
pub(crate) fn kind(family: IpFamily, name: &SetName, listed: &Set) -> Option<Kind> {
    let is_it = |it: &Kind| {
        let declared = it.declare(family, name);
        let comment = listed.comment.clone();
        Set {
            comment,
            ..declared
        } == *listed
    };
    match name {
        SetName::Peers(_) => Kind::PEERS.into_iter().find(is_it),
        _ => {
            let found = STANDING.into_iter().find(|(it, _)| it == name);
            found.map(|(_, kind)| kind).filter(is_it)
        }
    }
}
