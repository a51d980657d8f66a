//! Services: frontends, endpoints, source ranges, session affinity.

use crate::{Addr, layout};

/// Key of FRONTENDS (hash): what clients dial.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrontendKey {
    /// The virtual IP; for NodePorts [`Addr::ANY_V4`] or [`Addr::ANY_V6`].
    pub addr: Addr,
    pub port: u16,
    /// The protocol: [`TCP`](crate::TCP), [`UDP`](crate::UDP), [`SCTP`](crate::SCTP).
    pub protocol: u8,
    /// A [`FrontendKind`].
    pub kind: u8,
}

layout!(FrontendKey, 20, addr @ 0, port @ 16, protocol @ 18, kind @ 19);

/// The only value of PORTS (array of one): the ports that frontends have, whatever the address, protocol and kind. A packet
/// with another port need not be looked for in FRONTENDS.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// Bit `port % 32` of word `port / 32`.
    words: [u32; Self::WORDS],
}

layout!(Ports, 8192, words @ 0);

impl Ports {
    const WORDS: usize = 2048;

    /// Whether a frontend has this port.
    #[must_use]
    #[inline(always)]
    pub const fn contains(&self, port: u16) -> bool {
        self.words[(port / 32) as usize] & 1 << (port % 32) != 0
    }

    /// A frontend has this port.
    #[inline(always)]
    pub const fn insert(&mut self, port: u16) {
        self.words[(port / 32) as usize] |= 1 << (port % 32);
    }
}

impl Default for Ports {
    /// No frontend has any.
    fn default() -> Self {
        Self {
            words: [0; Self::WORDS],
        }
    }
}

/// The kinds of frontends.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrontendKind {
    /// A virtual IP with a port.
    Address = 0,
    /// A port of every address in ADDRESSES of kind [`AddressKind::NodePorts`].
    NodePort = 1,
}

/// Value of FRONTENDS.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Frontend {
    /// Id of the service port, of both its pools: [`EndpointKey::service`].
    pub service: u32,
    /// The list of sources that may connect, [`SourceKey::list`]; zeros for everybody.
    pub sources: [u32; 2],
    /// The slots of the pool of all endpoints.
    pub cluster: Slots,
    /// The slots of the pool of this node's endpoints.
    pub local: Slots,
    /// Session affinity in seconds; 0 for none.
    pub affinity_seconds: u32,
    /// Number of entries of the Maglev tables of the service port; 0 for a random choice.
    pub maglev_size: u32,
    /// A [`Treatment`] for each [`Client`]. The fourth is padding, zero.
    pub treatments: [u8; 4],
    /// Bits of [`frontend_flags`].
    pub flags: u32,
}

layout!(Frontend, 44, service @ 0, sources @ 4, cluster @ 12, local @ 20,
    affinity_seconds @ 28, maglev_size @ 32, treatments @ 36, flags @ 40);

/// Flags of a [`Frontend`].
pub mod frontend_flags {
    /// Packets to endpoints of other nodes go through the tunnel, and the reply straight to the client.
    pub const DSR: u32 = 1;
}

/// The slots of one pool of a service port, which follow one another.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slots {
    /// The first slot.
    pub first: u32,
    /// Number of slots; 0 for an empty pool.
    pub count: u32,
}

layout!(Slots, 8, first @ 0, count @ 4);

/// Who dials, as an index of [`Frontend::treatments`].
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// The node itself.
    Node = 0,
    /// A pod of this node.
    LocalPod = 1,
    /// Anyone else.
    Other = 2,
}

/// One byte: a [`Verdict`] in the low two bits, masquerading in the next two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Treatment(pub u8);

/// What happens to the first packet of a connection.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is dropped: the traffic policy is Local, and this node has no endpoint.
    Drop = 0,
    /// It is rejected: the Service has no endpoint on any node.
    Reject = 1,
    /// It goes to an endpoint of the pool of all endpoints.
    Cluster = 2,
    /// It goes to an endpoint of this node's pool.
    Local = 3,
}

impl Treatment {
    const VERDICT: u8 = 0b11;
    /// The client is masqueraded.
    pub const MASQUERADE: u8 = 0b100;
    /// The client is masqueraded if [`FamilyNode::masquerades_cluster_ips`](crate::FamilyNode) says so.
    pub const MASQUERADE_AS_CLUSTER_IP: u8 = 0b1000;

    #[must_use]
    #[inline(always)]
    pub const fn verdict(self) -> Verdict {
        match self.0 & Self::VERDICT {
            0 => Verdict::Drop,
            1 => Verdict::Reject,
            2 => Verdict::Cluster,
            _ => Verdict::Local,
        }
    }
}

/// Key of ENDPOINTS (hash).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EndpointKey {
    /// Id of the service port; never 0.
    pub service: u32,
    /// Number of the slot.
    pub slot: u32,
}

layout!(EndpointKey, 8, service @ 0, slot @ 4);

/// Value of ENDPOINTS.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    /// Address of the endpoint.
    pub addr: Addr,
    /// The node of the endpoint, to which the tunnel leads; [`Addr::ANY_V6`] for this node, or if unknown.
    pub node: Addr,
    /// Port of the endpoint.
    pub port: u16,
    /// Bits of [`endpoint_flags`].
    pub flags: u16,
}

layout!(Endpoint, 36, addr @ 0, node @ 16, port @ 32, flags @ 34);

/// Flags of an [`Endpoint`].
pub mod endpoint_flags {
    /// The endpoint may be its own client: a packet from it to itself is masqueraded.
    pub const HAIRPIN: u16 = 1;
    /// The endpoint is on this node: with direct server return its clients are not masqueraded.
    pub const HERE: u16 = 2;
}

/// Key of MEMBERS (hash), whose value is the slot (`u32`): finds the endpoint that a client stays with, or that
/// another node chose. Only endpoints of service ports with session affinity are in it, those of UDP, whose sockets
/// stay with theirs, and those with direct server return.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MemberKey {
    /// Address of the endpoint.
    pub addr: Addr,
    /// Id of the service port.
    pub service: u32,
    /// Port of the endpoint.
    pub port: u16,
    /// [`Verdict::Cluster`] or [`Verdict::Local`].
    pub pool: u16,
}

layout!(MemberKey, 24, addr @ 0, service @ 16, port @ 20, pool @ 22);

/// Key of AFFINITY (LRU hash), which the programs write.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AffinityKey {
    /// The client's address.
    pub client: Addr,
    /// Id of the service port.
    pub service: u32,
}

layout!(AffinityKey, 20, client @ 0, service @ 16);

/// Value of AFFINITY.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Affinity {
    /// Time of the client's last connection, in ns of `CLOCK_MONOTONIC`.
    pub seen_ns: u64,
    /// Address of its endpoint.
    pub addr: Addr,
    /// Port of its endpoint.
    pub port: u32,
    /// Always zero.
    pub padding: u32,
}

layout!(Affinity, 32, seen_ns @ 0, addr @ 8, port @ 24, padding @ 28);

/// Key of MAGLEV (hash): a part of the table of one pool.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MaglevKey {
    /// Id of the service port.
    pub service: u32,
    /// [`Verdict::Cluster`] or [`Verdict::Local`].
    pub pool: u32,
    /// Index of the entry of the table, divided by [`MAGLEV_CHUNK`].
    pub chunk: u32,
}

layout!(MaglevKey, 12, service @ 0, pool @ 4, chunk @ 8);

/// Entries of a [`MaglevChunk`].
pub const MAGLEV_CHUNK: usize = 64;

/// Value of MAGLEV: slots of endpoints, counted from the first of the pool.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MaglevChunk {
    pub slots: [u16; MAGLEV_CHUNK],
}

layout!(MaglevChunk, 128, slots @ 0);

/// Key of SOURCES (LPM trie, value `u8` 1) behind the length of its prefix in bits: [`SOURCE_PREFIX`] and
/// those of the address. IPv4 addresses are mapped, so theirs begin with 96.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceKey {
    /// The list, by a hash of its content; never zeros. Equal lists are one. 64 bits, so that nobody can make a
    /// list with the hash of another's.
    pub list: [u32; 2],
    /// The address.
    pub addr: Addr,
}

layout!(SourceKey, 24, list @ 0, addr @ 8);

/// The list of clients whose packets go through no tunnel ([`frontend_flags::DSR`]).
pub const NOT_TUNNELLED: [u32; 2] = [u32::MAX; 2];

/// The list of nodes' addresses, from which packets come through the tunnel.
pub const TUNNEL_PEERS: [u32; 2] = [u32::MAX, 0];

/// Bits of [`SourceKey::list`].
pub const SOURCE_PREFIX: u32 = 64;

/// Key of ADDRESSES (hash, value `u32` 1).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AddressKey {
    /// The address.
    pub addr: Addr,
    /// An [`AddressKind`].
    pub kind: u32,
}

layout!(AddressKey, 20, addr @ 0, kind @ 16);

/// The kinds of addresses in ADDRESSES.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressKind {
    /// A ClusterIP: ports that are no frontends are rejected.
    ClusterIp = 1,
    /// An address of the node that answers on NodePorts.
    NodePorts = 2,
}
