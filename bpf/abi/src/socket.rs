//! Sockets that are led to endpoints.

use crate::{Addr, layout};

/// Key of PEERS (LRU hash): the endpoint that a socket was led to. In SENDERS (LRU hash) it is the other way
/// round: the frontend that an unconnected socket of UDP sends to, whose value is the endpoint that it stays with.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerKey {
    /// Cookie of the socket (`SO_COOKIE`).
    pub cookie: u64,
    /// Address of the endpoint; in SENDERS, of the frontend.
    pub addr: Addr,
    /// Port beside that address.
    pub port: u32,
    pub protocol: u32,
}

layout!(PeerKey, 32, cookie @ 0, addr @ 8, port @ 24, protocol @ 28);

/// Value of PEERS: the frontend that the client dialled. Value of SENDERS: the endpoint.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Peer {
    /// Address of the frontend; in SENDERS, of the endpoint.
    pub addr: Addr,
    /// Id of the service port.
    pub service: u32,
    /// Port beside that address.
    pub port: u16,
    /// Always zero.
    pub padding: u16,
}

layout!(Peer, 24, addr @ 0, service @ 16, port @ 20, padding @ 22);
