//! Sockets that are led to endpoints.

use crate::{Addr, layout};

/// Key of PEERS (LRU hash): the endpoint that a socket was led to.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerKey {
    /// Cookie of the socket (`SO_COOKIE`).
    pub cookie: u64,
    /// Address of the endpoint.
    pub addr: Addr,
    /// Port of the endpoint.
    pub port: u32,
    /// The protocol.
    pub protocol: u32,
}

layout!(PeerKey, 32, cookie @ 0, addr @ 8, port @ 24, protocol @ 28);

/// Value of PEERS: the frontend that the client dialled.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Peer {
    /// Address of the frontend.
    pub addr: Addr,
    /// Id of the service port.
    pub service: u32,
    /// Port of the frontend.
    pub port: u16,
    /// Zero.
    pub padding: u16,
}

layout!(Peer, 24, addr @ 0, service @ 16, port @ 20, padding @ 22);
