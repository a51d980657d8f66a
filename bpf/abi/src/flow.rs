//! Connections, and the fragments of their datagrams.

use crate::{Addr, layout};

/// Key of FLOWS (hash): addresses and ports of a packet.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tuple {
    /// Source address.
    pub source: Addr,
    /// Destination address.
    pub destination: Addr,
    pub source_port: u16,
    pub destination_port: u16,
    /// The protocol, perhaps with [`Tuple::BESIDE`]; a word, so that the tuple has no padding.
    pub protocol: u32,
}

layout!(Tuple, 40, source @ 0, destination @ 16, source_port @ 32, destination_port @ 34,
    protocol @ 36);

impl Tuple {
    /// The bits of [`Tuple::protocol`] that are the protocol number.
    pub const PROTOCOL: u32 = 0xff;
    /// A Request or Direct whose packets have the addresses of another connection's forwarded ones: the client dials the
    /// endpoint itself from the port of its open connection to the Service.
    pub const BESIDE: u32 = 0x100;

    /// The tuple of the packets that answer.
    #[must_use]
    #[inline(always)]
    pub const fn reversed(&self) -> Self {
        Self {
            source: self.destination,
            destination: self.source,
            source_port: self.destination_port,
            destination_port: self.source_port,
            protocol: self.protocol,
        }
    }

    /// Copies another tuple word by word: for an assignment between maps the compiler would call `memmove`.
    #[inline(always)]
    pub const fn set(&mut self, other: &Self) {
        self.source.set(&other.source);
        self.destination.set(&other.destination);
        self.source_port = other.source_port;
        self.destination_port = other.destination_port;
        self.protocol = other.protocol;
    }

    /// Becomes the tuple of the packets that answer those of another one.
    #[inline(always)]
    pub const fn set_reversed(&mut self, other: &Self) {
        self.source.set(&other.destination);
        self.destination.set(&other.source);
        self.source_port = other.destination_port;
        self.destination_port = other.source_port;
        self.protocol = other.protocol;
    }

    /// A hash of the tuple, the same on every node: the index into a table of Maglev.
    ///
    /// The mixing is that of MurmurHash3 (x86, 32 bits, seed 0).
    #[must_use]
    #[inline(always)]
    pub const fn hash(&self) -> u32 {
        let mut hash = 0;
        let mut word = 0;
        while word < 4 {
            hash = mix(hash, u32::from_be(self.source.words[word]));
            hash = mix(hash, u32::from_be(self.destination.words[word]));
            word += 1;
        }
        hash = mix(
            hash,
            (self.source_port as u32) << 16 | self.destination_port as u32,
        );
        hash = mix(hash, self.protocol);
        hash ^= hash >> 16;
        hash = hash.wrapping_mul(0x85eb_ca6b);
        hash ^= hash >> 13;
        hash = hash.wrapping_mul(0xc2b2_ae35);
        hash ^ hash >> 16
    }
}

#[inline(always)]
const fn mix(hash: u32, word: u32) -> u32 {
    let word = word.wrapping_mul(0xcc9e_2d51).rotate_left(15);
    let hash = (hash ^ word.wrapping_mul(0x1b87_3593)).rotate_left(13);
    hash.wrapping_mul(5).wrapping_add(0xe654_6b64)
}

impl Flow {
    /// Sets the addresses and ports after the rewrite.
    #[inline(always)]
    pub const fn lead_to(&mut self, tuple: &Tuple) {
        self.source.set(&tuple.source);
        self.destination.set(&tuple.destination);
        self.source_port = tuple.source_port;
        self.destination_port = tuple.destination_port;
    }

    /// Gives a tuple of the same protocol the addresses and ports after the rewrite.
    #[inline(always)]
    pub const fn rewrite(&self, tuple: &mut Tuple) {
        tuple.source.set(&self.source);
        tuple.destination.set(&self.destination);
        tuple.source_port = self.source_port;
        tuple.destination_port = self.destination_port;
    }

    /// Gives a tuple of the same protocol the addresses and ports of the packets that answer those after the rewrite.
    #[inline(always)]
    pub const fn rewrite_reversed(&self, tuple: &mut Tuple) {
        tuple.source.set(&self.destination);
        tuple.destination.set(&self.source);
        tuple.source_port = self.destination_port;
        tuple.destination_port = self.source_port;
    }
}

/// Value of FLOWS: the addresses and ports that packets with one tuple get.
///
/// A connection of client C to frontend V that goes to endpoint E has three entries, and a fourth if S,
/// an address of the node, masquerades it:
///
/// ```text
/// Request     C → V  becomes  C → E    where the packet arrives
/// Forwarded   C → E  becomes  S → E    where it leaves (as it is, without masquerading)
/// Unmasquerade E → S  becomes  E → C    where the reply arrives
/// Reply       E → C  becomes  V → C    where the reply leaves, or is delivered to this node
/// ```
///
/// With direct server return the packet C → E goes through a tunnel to the endpoint's node, which has the
/// entries too and sends the reply. On the first node the destination of the entry Forwarded is that node.
///
/// The packets that answer those of an entry have the addresses after its rewrite the other way round. That is the key of
/// an entry with what the other side has sent: what one direction of TCP says is checked against the other's.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flow {
    /// Source address after the rewrite.
    pub source: Addr,
    /// Destination address after the rewrite.
    pub destination: Addr,
    /// Source port after the rewrite.
    pub source_port: u16,
    /// Destination port after the rewrite.
    pub destination_port: u16,
    /// A [`FlowKind`].
    pub kind: u8,
    /// Bits of [`flow_flags`].
    pub flags: u8,
    /// TCP: by how many bits the windows of this direction are shifted (RFC 7323, 2.2), from its SYN.
    pub scale: u8,
    /// TCP: 1 after a reset of which nothing here can tell whether the other side takes it; else 0.
    pub unchecked_reset: u8,
    /// Id of the service port.
    pub service: u32,
    /// Time of the last packet that was believed, in seconds of `CLOCK_MONOTONIC`.
    pub seen_seconds: u32,
    /// TCP: the sequence number behind the last byte that was sent in this direction.
    pub end: u32,
    /// TCP: the last acknowledgement that was sent in this direction; 0 before the first.
    pub ack: u32,
    /// TCP: the largest window that was offered in this direction, in bytes. 0: no packet of it was seen, so `end` and `ack`
    /// are not known.
    pub window: u32,
}

layout!(Flow, 60, source @ 0, destination @ 16, source_port @ 32, destination_port @ 34, kind @ 36,
    flags @ 37, scale @ 38, unchecked_reset @ 39, service @ 40, seen_seconds @ 44, end @ 48, ack @ 52,
    window @ 56);

/// The kinds of entries of FLOWS.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowKind {
    /// From the client to the frontend.
    Request = 0,
    /// From the client to the endpoint.
    Forwarded = 1,
    /// From the endpoint to the address that masquerades the client.
    Unmasquerade = 2,
    /// From the endpoint to the client.
    Reply = 3,
    /// Of a connection of no Service, whose packets have addresses and ports that one of ours could have. They pass, or
    /// leave from another port: that of an entry Unmasquerade.
    Direct = 4,
}

/// A client that still sends datagrams after this time has a stream, if it is answered, and no question and its answer
/// (`nf_conntrack_udp_packet` in `net/netfilter/nf_conntrack_proto_udp.c`). Until then the time of the entry Request is that
/// of the first datagram.
pub const STREAM_SECONDS: u32 = 2;

/// Flags of a [`Flow`].
pub mod flow_flags {
    /// A packet of TCP with FIN was in this direction.
    pub const FIN: u8 = 1;
    /// A packet of TCP with RST was in this direction.
    pub const RST: u8 = 2;
    /// The client is masqueraded where the packet leaves, and no port is chosen yet. In
    /// [`FlowKind::Forwarded`](super::FlowKind::Forwarded) only.
    pub const MASQUERADE: u8 = 4;
    /// A packet of TCP without SYN was in this direction, or a packet of another protocol after the first. In the entry
    /// Request of UDP: one that came [`STREAM_SECONDS`](super::STREAM_SECONDS) after the first, or later.
    pub const ESTABLISHED: u8 = 8;
    /// The client is this node, so replies are rewritten where they arrive.
    pub const NODE_CLIENT: u8 = 16;
    /// The packet goes through a tunnel: direct server return. In Request and Forwarded on the first node.
    pub const DSR: u8 = 32;
    /// The connection's entry Direct has [`Tuple::BESIDE`](super::Tuple::BESIDE). In
    /// [`FlowKind::Unmasquerade`](super::FlowKind::Unmasquerade) only.
    pub const BESIDE: u8 = 64;
    /// Netfilter translates the connection: a rule of another proxy opened it. The programs leave its packets alone, and
    /// what the entry holds is taken.
    pub const NETFILTER: u8 = 128;
}

/// Key of FRAGMENTS (LRU hash): the fragments of a datagram, which have no ports but the first.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FragmentKey {
    /// Source address.
    pub source: Addr,
    /// Destination address.
    pub destination: Addr,
    /// Identification of the datagram, as in the packet.
    pub id: u32,
    pub protocol: u32,
}

layout!(FragmentKey, 40, source @ 0, destination @ 16, id @ 32, protocol @ 36);

/// Value of FRAGMENTS: the ports of the first fragment.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fragment {
    pub source_port: u16,
    pub destination_port: u16,
}

layout!(Fragment, 4, source_port @ 0, destination_port @ 2);

/// Value of ALLOWANCES: what a client, which had a large part of FLOWS, may open.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Allowance {
    /// It holds until this time, in seconds of `CLOCK_MONOTONIC`.
    pub until: u32,
    /// How many connections more. The programs count it down; the agent renews it.
    pub left: u32,
}

layout!(Allowance, 8, until @ 0, left @ 4);
