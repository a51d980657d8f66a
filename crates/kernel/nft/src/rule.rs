//! Rules as values: written as text, made into the kernel's instructions, evaluated in tests.
//!
//! Sets and chains are named by any type that displays as the name, so that a user keeps types of its own.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;

use ipnet::IpNet;

/// A name of a set or chain in rules of which no other type is kept.
pub type Name = Cow<'static, str>;

/// One rule: all matches must hold, then the actions happen in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule<S = Name, C = Name> {
    /// Conditions.
    pub matches: Vec<Match<S>>,
    /// What happens.
    pub actions: Vec<Action<S, C>>,
}

impl<S, C> Rule<S, C> {
    /// A rule for every packet.
    #[must_use]
    pub fn always(action: Action<S, C>) -> Self {
        Self {
            matches: Vec::new(),
            actions: vec![action],
        }
    }

    /// A rule with one condition.
    #[must_use]
    pub fn when(condition: Match<S>, action: Action<S, C>) -> Self {
        Self::always(action).and(condition)
    }

    /// With a further condition.
    #[must_use]
    pub fn and(mut self, condition: Match<S>) -> Self {
        self.matches.push(condition);
        self
    }

    /// With a further action.
    #[must_use]
    pub fn then(mut self, action: Action<S, C>) -> Self {
        self.actions.push(action);
        self
    }
}

/// An end of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the ends themselves")]
pub enum Side {
    Source,
    Destination,
}

/// A field of a packet, or a number beside it, as a part of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Field {
    /// An address of the IP header.
    Address(Side),
    /// `IPPROTO_*`.
    Protocol,
    /// A port of the TCP, UDP or SCTP header.
    Port(Side),
    /// `offset` and a random number in `0..modulus`. With modulus 1 it is the constant `offset`: nft has no
    /// other word for a number in a key.
    Random {
        /// How many numbers there are.
        modulus: u32,
        /// The first of them.
        offset: u32,
    },
}

/// Fields that are looked up together.
pub type Key = Cow<'static, [Field]>;

/// Whether a condition must hold or must not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sense {
    /// It must.
    Is,
    /// It must not.
    IsNot,
}

/// Bits of `ct state` (`NF_CT_STATE_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "named as in nft")]
pub enum ConnectionState {
    Invalid = 1,
    Established = 2,
    Related = 4,
    New = 8,
    Untracked = 64,
}

/// A condition on a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Match<S = Name> {
    /// The address is in the prefix.
    Address(Side, Sense, IpNet),
    /// The address is one of this machine.
    IsLocal(Side),
    /// It arrived through the interface of this name.
    Interface(Sense, Arc<str>),
    /// It arrived through an interface whose name starts like this.
    InterfacePrefix(Sense, Arc<str>),
    /// It leaves through the interface of this name.
    OutgoingInterface(Sense, Arc<str>),
    /// Its connection is in one of these states.
    State(&'static [ConnectionState]),
    /// The destination of its connection has been translated.
    DestinationTranslated,
    /// It carries all bits of this mark.
    Marked(u32),
    /// It is of this protocol (`IPPROTO_*`).
    Protocol(u8),
    /// It has this port.
    Port(Side, u16),
    /// Of these flags of the TCP header it has exactly those.
    TcpFlags {
        /// The flags that are compared.
        mask: u8,
        /// The ones of them that are set.
        value: u8,
    },
    /// The first number of the second, at random.
    Share(u32, u32),
    /// It is the first within a second for which all conditions before this one hold.
    OnePerSecond,
    /// The key is in the set.
    In(Sense, Key, S),
}

/// What happens to a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action<S = Name, C = Name> {
    /// Leave this base chain; later ones of the hook still see it.
    Accept,
    /// Continue in the chain, then come back.
    Jump(C),
    /// Continue in the chain.
    Goto(C),
    /// Go back to the chain that jumped here.
    Return,
    /// Be counted.
    Count,
    /// Be shown to the listeners of a group of nflog, with this text of at most 127 bytes.
    Log {
        /// The text.
        prefix: Cow<'static, str>,
        /// The group.
        group: u16,
    },
    /// Vanish.
    Drop,
    /// Be refused, with an ICMP port unreachable.
    Reject,
    /// Get these bits of the mark.
    Mark(u32),
    /// Lose these bits of the mark.
    Unmark(u32),
    /// Leave with the address of the outgoing interface as its source, from a fully random port.
    Masquerade,
    /// Do what the verdict map says of the key.
    Verdict(Key, S),
    /// Go to the address and port that the map has for the key.
    DestinationOf(Key, S),
    /// Go to this address and port.
    DestinationTo(SocketAddr),
    /// Get another port in the packet itself, beside connection tracking.
    SetPort {
        /// Which port.
        side: Side,
        /// The protocol, whose checksum is corrected: `IPPROTO_TCP` or `IPPROTO_UDP`.
        protocol: u8,
        /// The new port.
        port: u16,
    },
    /// Belong to no connection. Works before connection tracking, at priority -200.
    Untrack,
    /// Have its way reported to every [`Tracer`](crate::Tracer).
    Trace,
    /// The key is in the set for this many seconds from now.
    Remember(S, Key, u32),
}
