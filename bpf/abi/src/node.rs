//! The node: settings, interfaces, counters, events.

use crate::{Addr, Tuple, layout};

/// Ranges of ClusterIPs in one family, at most. More are an issue, and not dropped.
pub const MAX_CIDRS: usize = 8;

/// The only value of NODE (array of one).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Node {
    /// Cookie of the node's network namespace (`SO_NETNS_COOKIE`).
    pub netns_cookie: u64,
    /// Settings of IPv4, then those of IPv6.
    pub families: [FamilyNode; 2],
    /// The source ports of masqueraded connections: outside `ip_local_port_range`.
    pub masquerade_ports: [PortRange; 2],
    /// Bits of [`node_flags`], and in the high 16 bits the tunnel's port: [`Node::tunnel_port`].
    pub flags: u32,
    /// Number of the tunnel's interface; 0 for none.
    pub tunnel_ifindex: u32,
    /// Only packets from or to this address leave events in EVENTS, with [`node_flags::TRACE`], and sockets
    /// that have no address yet; [`Addr::ANY_V6`] for all.
    pub trace: Addr,
    /// Events are written until then, in ns of `CLOCK_MONOTONIC`: the process that reads them may have been killed.
    pub trace_until_ns: u64,
}

layout!(Node, 456, netns_cookie @ 0, families @ 8, masquerade_ports @ 416, flags @ 424,
    tunnel_ifindex @ 428, trace @ 432, trace_until_ns @ 448);

impl Node {
    /// UDP port of the tunnel of direct server return, in host byte order; 0 without a tunnel.
    #[must_use]
    #[inline(always)]
    pub const fn tunnel_port(&self) -> u16 {
        (self.flags >> node_flags::TUNNEL_PORT) as u16
    }
}

/// Flags of a [`Node`].
pub mod node_flags {
    /// Events are written.
    pub const TRACE: u32 = 1;
    /// TCP connections of sockets are led to endpoints at `connect()`.
    pub const SOCKETS_TCP: u32 = 2;
    /// UDP sockets are led to endpoints.
    pub const SOCKETS_UDP: u32 = 4;
    /// `bpf_l4_csum_replace` knows `BPF_F_IPV6` (Linux 6.16).
    pub const CSUM_IPV6: u32 = 8;
    /// No earlier proxy opens connections any more, and those that netfilter translates have entries that say so.
    pub const CARRIES_ALL: u32 = 16;
    /// Some interfaces have [`LAYER_3`](super::interface_flags::LAYER_3).
    pub const LAYER_3: u32 = 32;
    /// The programs open no connection: rules of another proxy do, whose packets pass. Before the programs are at every
    /// interface, a connection would be rewritten at some and not at others.
    pub const WAITS: u32 = 64;
    /// The first of the 16 bits with the tunnel's port. Here, so that the settings keep their size.
    pub const TUNNEL_PORT: u32 = 16;
    /// The flags that do not come from the plan. They stay when the agent writes its settings.
    pub const KEPT: u32 = TRACE | CARRIES_ALL | LAYER_3 | WAITS;
}

/// Settings of a family.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FamilyNode {
    /// The node's primary address; it masquerades on interfaces without an address.
    pub node_ip: Addr,
    /// Addresses of this node's pods. [`Cidr::NOTHING`]: pods are not known by their addresses.
    pub pods: Cidr,
    /// Which clients are masqueraded at a ClusterIP, by [`Client`](crate::Client): 0 or 1. The last is zero.
    pub masquerades_cluster_ips: [u8; 4],
    /// How many of `service_cidrs` are in use.
    pub cidr_count: u32,
    /// Ranges of ClusterIPs: a packet to an address in them that no Service owns is dropped.
    pub service_cidrs: [Cidr; MAX_CIDRS],
}

layout!(FamilyNode, 204, node_ip @ 0, pods @ 16, masquerades_cluster_ips @ 36, cidr_count @ 40,
    service_cidrs @ 44);

/// A range of addresses.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cidr {
    /// The range, with zeros behind the prefix.
    pub addr: Addr,
    /// Length of the prefix in bits of the 16 bytes, so 96 and more for IPv4; 255 contains nothing.
    pub length: u32,
}

layout!(Cidr, 20, addr @ 0, length @ 16);

impl Cidr {
    /// A range without addresses.
    pub const NOTHING: Self = Self {
        addr: Addr::ANY_V6,
        length: 255,
    };

    /// Whether the address is in the range.
    #[must_use]
    #[inline(always)]
    pub const fn contains(&self, addr: &Addr) -> bool {
        if self.length > 128 {
            return false;
        }
        let mut word = 0;
        let mut left = self.length;
        while word < 4 {
            let bits = if left < 32 { left } else { 32 };
            let mask = if bits == 0 {
                0
            } else {
                u32::MAX << (32 - bits)
            };
            if (addr.words[word] ^ self.addr.words[word]) & mask.to_be() != 0 {
                return false;
            }
            left -= bits;
            word += 1;
        }
        true
    }
}

/// A range of ports, both ends included.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PortRange {
    /// The first port.
    pub first: u16,
    /// The last port; a range whose last is before its first has none.
    pub last: u16,
}

layout!(PortRange, 4, first @ 0, last @ 2);

/// Value of INTERFACES (hash by interface number, `u32`). The agent follows the machine's interfaces.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Interface {
    /// The IPv4 address that masquerades packets which leave here; [`Addr::ANY_V6`] for [`FamilyNode::node_ip`].
    pub v4: Addr,
    /// The IPv6 address that masquerades packets which leave here; [`Addr::ANY_V6`] for [`FamilyNode::node_ip`].
    pub v6: Addr,
    /// Bits of [`interface_flags`].
    pub flags: u32,
    /// The MTU in bytes.
    pub mtu: u32,
    /// If packets that arrive here come from pods of this node: number of the interface that the answers leave through, this
    /// one or its bridge. A packet whose source is not in ROUTED with it opens and ends no connection. 0: sources are not
    /// checked.
    pub back: u32,
}

layout!(Interface, 44, v4 @ 0, v6 @ 16, flags @ 32, mtu @ 36, back @ 40);

/// Key of ROUTED (LPM trie, value `u8` 1) behind the length of its prefix in bits: [`ROUTED_PREFIX`] and those of the
/// address. The agent writes the routes through the interfaces that are [`Interface::back`] of one, and every address of a
/// family of which it knows no pod there. IPv4 addresses are mapped, so theirs begin with 96.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RoutedKey {
    /// Number of the interface.
    pub interface: u32,
    /// The address to which a route leads through it.
    pub addr: Addr,
}

layout!(RoutedKey, 20, interface @ 0, addr @ 4);

/// Bits of [`RoutedKey::interface`].
pub const ROUTED_PREFIX: u32 = 32;

/// Flags of an [`Interface`].
pub mod interface_flags {
    /// Packets that arrive here come from a pod of this node: `--detect-local-mode` by interface.
    pub const POD: u32 = 1;
    /// Packets have no Ethernet header.
    pub const LAYER_3: u32 = 2;
    /// The programs see the packets that arrive here, so they need not look for Services where those leave.
    pub const SEEN: u32 = 4;
    /// What arrives here arrived at an interface below before, whose programs saw it: this is a bridge, a bond or a VLAN.
    pub const UPPER: u32 = 8;
    /// A port of a bridge or a bond that has programs: what leaves here they saw before.
    pub const PORT: u32 = 16;
}

/// Indices of COUNTERS (per-CPU array of `u64`): packets, by reason.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Counter {
    /// Rejected: the Service has no endpoint on any node. This index is for IPv4, the next one for IPv6, and so on.
    NoEndpoints = 0,
    /// Rejected: the ClusterIP has no such port.
    UndefinedPort = 2,
    /// Dropped: the traffic policy is Local, and this node has no endpoint.
    NoLocalEndpoints = 4,
    /// Dropped: the source is outside `loadBalancerSourceRanges`.
    SourceRanges = 6,
    /// Dropped: no Service has this address of the ServiceCIDR.
    UnallocatedClusterIp = 8,
    /// New connections that got an endpoint.
    Connections = 10,
    /// Dropped: FLOWS took no entry.
    FlowsFull = 12,
    /// Dropped: no source port is left for the connection.
    NoSourcePort = 14,
    /// Dropped: a fragment whose first fragment was not seen.
    UnknownFragment = 16,
    /// Dropped: a packet of a Service could not be rewritten.
    Malformed = 18,
    /// Dropped: a frontend leads to a slot without an endpoint.
    NoEndpointInSlot = 20,
    /// Packets of direct server return that left through the tunnel.
    Tunnelled = 22,
    /// Packets that were too long for the tunnel. Their senders got an ICMP error.
    TooLongForTunnel = 24,
    /// Rejected: a packet of TCP in the middle of a connection that no entry knows.
    UnknownConnection = 26,
    /// Rejected without an answer: too many were answered just now, or the source or a checksum is wrong. Counted beside
    /// the reason.
    Unanswered = 28,
    /// Packets of TCP of a known connection whose numbers or checksums are not those of its sides. They are rewritten, and
    /// nothing is learned from them.
    Unbelieved = 30,
    /// Dropped: the connection's client has nothing left in ALLOWANCES, because FLOWS fills up and it has a large part of it.
    ClientLimit = 32,
    /// Packets from pods that would open or end a connection, and whose source is routed to another interface. They pass.
    ForeignSource = 34,
}

impl Counter {
    /// Length of COUNTERS.
    pub const COUNT: u32 = 36;
}

/// A record of EVENTS (ring buffer): what a program did with one packet, while it is asked for.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Time in ns of `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// The packet as it came; of a socket, where it dials, and the source that it is bound to or zeros.
    pub before: Tuple,
    /// The packet as it went on; the same if it was not rewritten.
    pub after: Tuple,
    /// Number of the interface; 0 for a socket.
    pub ifindex: u32,
    /// A [`Hook`].
    pub hook: u8,
    /// An [`EventKind`].
    pub kind: u8,
    /// For a denial the [`Counter`] of its reason; else 0.
    pub counter: u16,
    /// Id of the service port; 0 for none.
    pub service: u32,
    /// Always zero.
    pub padding: u32,
}

layout!(Event, 104, time_ns @ 0, before @ 8, after @ 48, ifindex @ 88, hook @ 92, kind @ 93,
    counter @ 94, service @ 96, padding @ 100);

/// Where a program runs.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// A packet arrived through an interface.
    Ingress = 0,
    /// A packet leaves through an interface.
    Egress = 1,
    /// A socket connects, sends or receives.
    Socket = 2,
}

/// What a program did.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The packet is of no Service.
    Passed = 0,
    /// The first packet of a connection, rewritten.
    Opened = 1,
    /// A later packet, rewritten.
    Rewritten = 2,
    /// Dropped.
    Dropped = 3,
    /// Rejected.
    Rejected = 4,
    /// Sent through the tunnel.
    Tunnelled = 5,
}
