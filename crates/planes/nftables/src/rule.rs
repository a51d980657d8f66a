//! Rules as values: written as text, sent as netlink expressions, and evaluated in tests.

use std::net::SocketAddr;
use std::sync::Arc;

use ipnet::IpNet;
use sluice_model::Protocol;

use crate::name::ChainName;
use crate::set::SetName;
use crate::sources::SourceList;

/// One rule: all matches must hold, then the actions happen in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Conditions.
    pub matches: Vec<Match>,
    /// What happens.
    pub actions: Vec<Action>,
}

impl Rule {
    /// A rule for every packet.
    pub(crate) fn always(action: Action) -> Self {
        Self {
            matches: Vec::new(),
            actions: vec![action],
        }
    }

    /// A rule with one condition.
    pub(crate) fn when(condition: Match, action: Action) -> Self {
        Self {
            matches: vec![condition],
            actions: vec![action],
        }
    }

    /// With a further condition.
    pub(crate) fn and(mut self, condition: Match) -> Self {
        self.matches.push(condition);
        self
    }

    /// With a further action.
    pub(crate) fn then(mut self, action: Action) -> Self {
        self.actions.push(action);
        self
    }
}

/// Fields of a packet that are looked up together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fields {
    /// Source address.
    Source,
    /// Destination address.
    Destination,
    /// Destination address, protocol, destination port.
    Frontend,
    /// Protocol, destination port.
    NodePort,
    /// Source, destination, protocol, destination port.
    Hairpin,
}

/// A set that a rule refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetRef {
    /// One that is always there.
    Standing(SetName),
    /// A list of sources that may connect.
    Sources(SourceList),
}

/// Whether a condition must hold or must not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sense {
    /// It must.
    Is,
    /// It must not.
    IsNot,
}

/// A condition on a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Match {
    /// The source address is in the prefix.
    Source(Sense, IpNet),
    /// It arrived through the interface of this name.
    Interface(Sense, Arc<str>),
    /// It arrived through an interface whose name starts like this.
    InterfacePrefix(Sense, Arc<str>),
    /// The source address is one of the node's.
    SourceIsLocal,
    /// The destination address is one of the node's.
    DestinationIsLocal,
    /// The destination is no loopback address.
    DestinationNotLoopback,
    /// It begins a connection.
    NewConnection,
    /// Its destination has been translated.
    DestinationTranslated,
    /// It carries this mark bit.
    Marked(u32),
    /// It is of this protocol.
    Protocol(Protocol),
    /// The first number of the second, at random.
    Share(u32, u32),
    /// The set has the source address with this label.
    Known(Arc<str>, u32),
    /// The fields are in the set.
    In(Sense, Fields, SetRef),
}

/// What happens to a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Continue in the chain, then come back.
    Jump(ChainName),
    /// Continue in the chain.
    Goto(ChainName),
    /// Be counted.
    Count,
    /// Vanish.
    Drop,
    /// Be refused, with an ICMP port unreachable.
    Reject,
    /// Get this mark bit.
    Mark(u32),
    /// Lose this mark bit.
    Unmark(u32),
    /// Leave with the node's address as its source.
    Masquerade,
    /// Do what the map says of the fields.
    Verdict(Fields, SetName),
    /// Go to a random one of this many endpoints, which are in the map under fields and slot.
    Balance(Fields, u32, SetName),
    /// Go to this endpoint.
    DestinationTo(SocketAddr),
    /// Remember the source address with this label, in the set, for this many seconds from now.
    Remember(Arc<str>, u32, u32),
}
