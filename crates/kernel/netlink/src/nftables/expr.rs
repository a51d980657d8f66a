//! Expressions: the instructions of a rule.

mod decode;
mod encode;

use super::register::Register;
use super::scope::Family;
use super::value::Verdict;

/// Which header a payload is loaded from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PayloadBase {
    /// IP header.
    Network,
    /// TCP, UDP, SCTP header.
    Transport,
}

/// What `meta` reads; numbers are in host order unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MetaKey {
    /// EtherType, 2 bytes, network order.
    Protocol,
    /// Packet mark, 4 bytes.
    Mark,
    /// Index of the incoming interface, 4 bytes.
    IncomingIndex,
    /// Index of the outgoing interface, 4 bytes.
    OutgoingIndex,
    /// Name of the incoming interface, 16 bytes padded with NUL.
    IncomingName,
    /// Name of the outgoing interface, 16 bytes padded with NUL.
    OutgoingName,
    /// `NFPROTO_*`, 1 byte.
    NfProto,
    /// `IPPROTO_*`, 1 byte.
    L4Proto,
    /// `ARPHRD_*` of the incoming interface, 2 bytes.
    IncomingType,
}

/// What `ct` reads of the packet's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CtKey {
    /// Bit mask, 4 bytes host order: invalid 1, established 2, related 4, new 8, untracked 64.
    State,
    /// 1 byte: original 0, reply 1.
    Direction,
    /// `IPS_*` bit mask, 4 bytes host order: snat 0x10, dnat 0x20.
    Status,
}

/// Which address `fib` looks up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FibAddress {
    /// `fib saddr type`.
    Source,
    /// `fib daddr type`.
    Destination,
}

/// How registers are compared, byte by byte from the first (so numbers must be in network order
/// for an order to mean something).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it all")]
pub enum CmpOp {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Which end of a connection is translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NatKind {
    /// The source.
    Snat,
    /// The destination.
    Dnat,
}

/// How the sender learns that a packet was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reject {
    /// ICMP destination unreachable of the table's family, with this code.
    IcmpUnreachable {
        /// Code of the ICMP or `ICMPv6` message.
        code: u8,
    },
    /// A TCP reset.
    TcpReset,
}

impl Reject {
    /// What `nft` writes for a plain `reject`: port unreachable, code 3 in ICMP (RFC 792) and 4
    /// in `ICMPv6` (RFC 4443).
    #[must_use]
    pub fn port_unreachable(family: Family) -> Self {
        let code = match family {
            Family::Ipv4 => 3,
            Family::Ipv6 => 4,
        };
        Self::IcmpUnreachable { code }
    }
}

/// What a rule does to a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DynsetOp {
    /// Adds; an element that is there keeps its age.
    Add,
    /// Adds or makes young again.
    Update,
}

/// One instruction. Names follow the kernel's expressions (`net/netfilter/nft_*.c`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(
    missing_docs,
    reason = "fields are registers and operands, described with each variant"
)]
pub enum Expr {
    /// Loads `len` bytes of a header from `offset`.
    Payload {
        dreg: Register,
        base: PayloadBase,
        offset: u32,
        len: u32,
    },
    /// Loads a property of the packet.
    Meta { key: MetaKey, dreg: Register },
    /// Sets a property of the packet; the kernel permits it for few keys, `Mark` among them.
    MetaSet { key: MetaKey, sreg: Register },
    /// Loads a property of the connection.
    Ct { key: CtKey, dreg: Register },
    /// Loads the type of an address, `RTN_*`, 4 bytes host order (`RTN_LOCAL` is 2).
    FibType { dreg: Register, address: FibAddress },
    /// Ends the rule unless the comparison holds.
    Cmp {
        op: CmpOp,
        sreg: Register,
        data: Vec<u8>,
    },
    /// `dreg = (sreg & mask) ^ xor`; mask and xor have equal length.
    Bitwise {
        sreg: Register,
        dreg: Register,
        mask: Vec<u8>,
        xor: Vec<u8>,
    },
    /// Loads a constant.
    ImmediateData { dreg: Register, data: Vec<u8> },
    /// Ends the rule with a verdict.
    Verdict(Verdict),
    /// Ends the rule unless the key is in the set. With `dreg` the element's data is loaded:
    /// [`Register::VERDICT`] for a verdict map. `invert` turns the test around (no `dreg` then).
    Lookup {
        set: String,
        sreg: Register,
        dreg: Option<Register>,
        invert: bool,
    },
    /// Loads a random number `0..modulus`, 4 bytes host order.
    Numgen { dreg: Register, modulus: u32 },
    /// Translates the connection. The port register holds 2 bytes in network order.
    Nat {
        kind: NatKind,
        family: Family,
        addr_reg: Register,
        port_reg: Option<Register>,
    },
    /// Translates the source to the address of the outgoing interface.
    Masquerade { fully_random: bool },
    /// Ends the packet and tells the sender.
    Reject(Reject),
    /// Adds the key to a set, for a map with the data of a register. `timeout_ms` `None` is the
    /// set's.
    Dynset {
        op: DynsetOp,
        set: String,
        key_reg: Register,
        data_reg: Option<Register>,
        timeout_ms: Option<u64>,
    },
    /// Counts packets and bytes. The counts themselves are not part of the value.
    Counter,
    /// Something read from the kernel that this type cannot say. The kernel refuses it when it is
    /// written.
    Other { name: String },
}

#[cfg(test)]
mod tests;
