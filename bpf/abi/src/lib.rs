//! The maps of Sluice's eBPF programs: what the programs and the agent both read and write.
//!
//! ```text
//! packet ─▶ FLOWS ── known ──▶ rewrite
//!             │ new
//!             ▼
//!        FRONTENDS ─▶ SOURCES ─▶ AFFINITY, MAGLEV or chance ─▶ ENDPOINTS ─▶ new entries of FLOWS
//!             │ none
//!             ▼
//!        ADDRESSES, NODE: undefined port, NodePort, unallocated ClusterIP
//! ```
//!
//! # Invariants
//!
//! - Every type is `repr(C)` without implicit padding: the kernel compares keys byte by byte.
//! - Ports are in host byte order, addresses are the bytes of the packet.
//! - A change of a size, an offset or a meaning raises [`VERSION`], which is part of the pin path.
#![no_std]

mod address;
mod dns;
mod flow;
mod node;
mod service;
mod socket;
#[cfg(feature = "user")]
mod user;

pub use address::Addr;
pub use dns::{Dns, MAX_DNS_ADDRESSES};
pub use flow::{
    Allowance, Flow, FlowKind, Fragment, FragmentKey, STREAM_SECONDS, Tuple, flow_flags,
};
pub use node::{
    Cidr, Counter, Event, EventKind, FamilyNode, Hook, Interface, MAX_CIDRS, Node, PortRange,
    ROUTED_PREFIX, RoutedKey, interface_flags, node_flags,
};
pub use service::{
    AddressKey, AddressKind, Affinity, AffinityKey, Client, Endpoint, EndpointKey, Frontend,
    FrontendKey, FrontendKind, MAGLEV_CHUNK, MaglevChunk, MaglevKey, MemberKey, NOT_TUNNELLED,
    Ports, SOURCE_PREFIX, Slots, SourceKey, TUNNEL_PEERS, Treatment, Verdict, endpoint_flags,
    frontend_flags,
};
pub use socket::{Peer, PeerKey};

/// Version of the maps' contents, part of their pin path.
pub const VERSION: u32 = 2;

/// IPv4 protocol number, or IPv6 next header, of TCP.
pub const TCP: u8 = 6;
/// IPv4 protocol number, or IPv6 next header, of UDP.
pub const UDP: u8 = 17;
/// IPv4 protocol number, or IPv6 next header, of SCTP.
pub const SCTP: u8 = 132;

/// Asserts the size of a type of the maps, and the offset of each of its fields.
macro_rules! layout {
    ($type:ident, $size:literal $(, $field:ident @ $offset:literal)* $(,)?) => {
        const _: () = {
            assert!(core::mem::size_of::<$type>() == $size);
            $(assert!(core::mem::offset_of!($type, $field) == $offset);)*
        };
    };
}
pub(crate) use layout;
