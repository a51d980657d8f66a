//! Rules as values: written as text, made into the kernel's instructions, evaluated in tests.
//!
//! Sets and chains are named by any type that displays as the name, so that a user keeps types of its own.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ipnet::IpNet;

/// The name of a set or chain, for users without a type of their own.
pub type Name = Cow<'static, str>;

/// One rule: all matches must hold, then the actions happen in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule<S = Name, C = Name> {
    /// Conditions.
    pub matches: Vec<Match<S>>,
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

    /// Adds a condition.
    #[must_use]
    pub fn and(mut self, condition: Match<S>) -> Self {
        self.matches.push(condition);
        self
    }

    /// Adds an action.
    #[must_use]
    pub fn then(mut self, action: Action<S, C>) -> Self {
        self.actions.push(action);
        self
    }
}

/// The source or the destination of a packet.
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
        /// The first number.
        offset: u32,
    },
}

/// Fields that are looked up together.
pub type Key = Cow<'static, [Field]>;

/// Whether a condition must hold or must not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sense {
    /// The condition must hold.
    Is,
    /// The condition must not hold.
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
    /// The packet arrived through the interface of this name.
    Interface(Sense, Arc<str>),
    /// The packet arrived through an interface whose name has this prefix.
    InterfacePrefix(Sense, Arc<str>),
    /// The packet leaves through the interface of this name.
    OutgoingInterface(Sense, Arc<str>),
    /// The packet's connection is in one of these states.
    State(&'static [ConnectionState]),
    /// The destination of the packet's connection has been translated.
    DestinationTranslated,
    /// The packet carries all bits of this mark.
    Marked(u32),
    /// The packet is of this protocol (`IPPROTO_*`).
    Protocol(u8),
    /// The packet has this port.
    Port(Side, u16),
    /// The flags of the TCP header under `mask` are exactly `value`.
    TcpFlags {
        /// The flags that are compared.
        mask: u8,
        /// The flags of `mask` that are set.
        value: u8,
    },
    /// A random share of the packets: `Share(part, whole)` matches `part` of `whole` packets.
    Share(u32, u32),
    /// The packet is the first within a second for which all conditions before this one hold.
    OnePerSecond,
    /// The key is in the set.
    In(Sense, Key, S),
}

/// An action on a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action<S = Name, C = Name> {
    /// The packet leaves this base chain; later ones of the hook still see it.
    Accept,
    /// The packet continues in the chain, then comes back.
    Jump(C),
    /// The packet continues in the chain.
    Goto(C),
    /// The packet goes back to the chain that jumped here.
    Return,
    /// The rule counts the packet.
    Count,
    /// The packet is shown to the listeners of a group of nflog, with this text of at most 127 bytes.
    Log {
        /// The text.
        prefix: Cow<'static, str>,
        group: u16,
    },
    /// The packet is dropped without an answer.
    Drop,
    /// The packet is refused, with an ICMP port unreachable.
    Reject,
    /// Sets these bits of the packet's mark.
    Mark(u32),
    /// Clears these bits of the packet's mark.
    Unmark(u32),
    /// Translates the source to the address of the outgoing interface, with a fully random port.
    Masquerade,
    /// Translates the source to this address, with a fully random port.
    SourceTo(IpAddr),
    /// Applies the verdict that the map has for the key.
    Verdict(Key, S),
    /// Translates the destination to the address and port that the map has for the key.
    DestinationOf(Key, S),
    /// Translates the destination to this address and port.
    DestinationTo(SocketAddr),
    /// Changes a port in the packet itself, without connection tracking.
    SetPort {
        /// Which port.
        side: Side,
        /// The protocol, whose checksum is corrected: `IPPROTO_TCP` or `IPPROTO_UDP`.
        protocol: u8,
        /// The new port.
        port: u16,
    },
    /// Keeps the packet out of connection tracking. Works before it, at priority -200.
    Untrack,
    /// The kernel reports the packet's rules to every [`Tracer`](crate::Tracer).
    Trace,
    /// Adds the key to the set for this many seconds from now.
    Remember(S, Key, u32),
}
