//! Expressions: the instructions of a rule. Numbers of the enums are those of the kernel.

mod decode;
mod encode;

use super::register::Register;
use super::scope::Family;
use super::value::Verdict;

/// The header that a payload is loaded from (`NFT_PAYLOAD_*_HEADER`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PayloadBase {
    /// IP header.
    Network = 1,
    /// TCP, UDP, SCTP header.
    Transport = 2,
}

/// A property of the packet (`NFT_META_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MetaKey {
    /// Packet mark, 4 bytes in host order.
    Mark = 3,
    /// Name of the incoming interface, 16 bytes padded with NUL.
    IncomingName = 6,
    /// Name of the outgoing interface, as the incoming one.
    OutgoingName = 7,
    /// Whether the kernel reports the packet's rules to [`super::Tracer`]s, 1 byte.
    Trace = 12,
    /// `IPPROTO_*`, 1 byte.
    L4Proto = 16,
}

/// A property of the packet's connection (`NFT_CT_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CtKey {
    /// Bit mask, 4 bytes in host order: invalid 1, established 2, related 4, new 8, untracked 64.
    State = 0,
    /// `IPS_*` bit mask, 4 bytes in host order: snat 0x10, dnat 0x20.
    Status = 2,
}

/// The address that `fib` looks up (`NFTA_FIB_F_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FibAddress {
    /// `fib saddr type`.
    Source = 1,
    /// `fib daddr type`.
    Destination = 2,
}

/// How a register is compared, byte by byte (`NFT_CMP_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the operators themselves")]
pub enum CmpOp {
    Equal = 0,
    NotEqual = 1,
    Less = 2,
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
    /// Overwrites `len` bytes of the transport header from `offset`, and corrects the checksum at
    /// `checksum`.
    PayloadSet {
        sreg: Register,
        offset: u32,
        len: u32,
        checksum: u32,
    },
    /// Loads a property of the packet.
    Meta { key: MetaKey, dreg: Register },
    /// Sets a property of the packet; the kernel permits it for few keys, `Mark` among them.
    MetaSet { key: MetaKey, sreg: Register },
    /// Loads a property of the connection.
    Ct { key: CtKey, dreg: Register },
    /// Loads the type of an address, `RTN_*`, 4 bytes in host order (`RTN_LOCAL` is 2).
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
    /// Ends the rule unless the key is in the set. With `dreg` it loads the element's data;
    /// [`Register::VERDICT`] is for a verdict map. With `invert` it ends the rule if the key is in
    /// the set, and there is no `dreg`.
    Lookup {
        set: String,
        sreg: Register,
        dreg: Option<Register>,
        invert: bool,
    },
    /// Loads `offset` and a random number `0..modulus`, 4 bytes in host order.
    Numgen {
        dreg: Register,
        modulus: u32,
        offset: u32,
    },
    /// Puts the 4 bytes of a register into network order, in which [`CmpOp::Less`] compares numbers.
    ToNetworkOrder { reg: Register },
    /// Translates the destination. The port register holds 2 bytes in network order.
    Dnat {
        family: Family,
        addr_reg: Register,
        port_reg: Register,
    },
    /// Translates the source to an address, with a fully random port.
    Snat { family: Family, addr_reg: Register },
    /// Translates the source to the address of the outgoing interface, with a fully random port.
    Masquerade,
    /// Ends the rule for all packets but one in a second.
    OnePerSecond,
    /// Shows the packet to the listeners of a group of nflog.
    Log { prefix: String, group: u16 },
    /// Drops the packet and sends ICMP destination unreachable, of the table's family, with this
    /// code.
    Reject { code: u8 },
    /// Keeps the packet out of connection tracking: it gets no entry of conntrack, and no chain of kind
    /// [`Nat`](super::ChainKind::Nat) sees it. Works before conntrack, at priority -200.
    Untrack,
    /// Counts packets. [`Connection::rule_packets`] reads the count.
    ///
    /// [`Connection::rule_packets`]: super::Connection::rule_packets
    Counter,
    /// Adds the key to a set, or starts the timeout of an existing element again.
    Update {
        set: String,
        key_reg: Register,
        timeout_ms: u64,
    },
    /// An expression in the kernel that this type cannot express. The kernel refuses it in a request.
    Other { name: String },
}

impl Expr {
    /// The plain `reject` of `nft`: port unreachable, code 3 in ICMP (RFC 792) and 4 in `ICMPv6`
    /// (RFC 4443).
    #[must_use]
    pub fn port_unreachable(family: Family) -> Self {
        let code = match family {
            Family::Ipv4 => 3,
            Family::Ipv6 => 4,
        };
        Self::Reject { code }
    }
}

#[cfg(test)]
mod tests;
