//! Sockets: clients on the node and in its pods are led to endpoints before a packet is made.
//!
//! A socket is left alone where its system call does not know enough, and the programs of packets decide: source
//! ranges, session affinity, masqueraded pods, drops, refusals of datagrams, and whether the node's own DNS server answers.
//!
//! The programs of packets may interrupt these, so they do not use SCRATCH.

pub mod call;

use aya_ebpf::helpers::generated::{bpf_get_prandom_u32, bpf_set_retval};
use sluice_bpf_abi::{
    Addr, AffinityKey, Client, Counter, Endpoint, EventKind, Frontend, Peer, PeerKey, TCP, Tuple,
    Verdict,
};

use crate::dns;
use crate::maps::{PEERS, SENDERS, count, node};
use crate::service::{self, Decision};
use call::Socket;

/// Return value of a program: the system call goes on.
const ALLOW: i32 = 1;
/// Return value of a program: the system call fails.
const DENY: i32 = 0;
const ECONNREFUSED: i32 = 111;

/// The frontend that a client dials, without session affinity.
struct Dialled {
    frontend: &'static Frontend,
    pool: Verdict,
}

/// A socket connects: an endpoint becomes its peer.
#[inline(always)]
pub fn connect(socket: &Socket<'_>) -> i32 {
    let (addr, port) = socket.peer();
    match dialled(socket, &addr, port) {
        Ok(dialled) => {
            if let Some(endpoint) = choose(socket, &dialled, &addr, port) {
                // A datagram that names the frontend goes where the socket is connected to.
                if socket.protocol != TCP {
                    stay(&socket.key(&addr, port), endpoint, &dialled);
                }
                socket.set_peer(&endpoint.addr, endpoint.port);
            }
            ALLOW
        }
        // `connect()` of UDP sends nothing that could be refused. Programs use it to ask for routes.
        Err(Some(reason)) if socket.protocol == TCP => refuse(socket, &addr, port, reason),
        Err(_) => ALLOW,
    }
}

/// A socket sends a datagram with a destination of its own. All datagrams of one socket to one frontend go to the same
/// endpoint while that is in the pool.
#[inline(always)]
pub fn send(socket: &Socket<'_>) -> i32 {
    let (addr, port) = socket.peer();
    let Ok(dialled) = dialled(socket, &addr, port) else {
        return ALLOW;
    };
    let key = socket.key(&addr, port);
    if let Some(endpoint) = kept(&key, &dialled) {
        remember(socket, endpoint, &dialled, &addr, port);
        socket.set_peer(&endpoint.addr, endpoint.port);
    } else if let Some(endpoint) = choose(socket, &dialled, &addr, port) {
        stay(&key, endpoint, &dialled);
        socket.set_peer(&endpoint.addr, endpoint.port);
    }
    ALLOW
}

/// Writes into SENDERS that a socket's datagrams to a frontend go to this endpoint.
#[inline(always)]
fn stay(key: &PeerKey, endpoint: &Endpoint, dialled: &Dialled) {
    let value = Peer {
        addr: endpoint.addr,
        service: dialled.frontend.service,
        port: endpoint.port,
        padding: 0,
    };
    // A socket that cannot be remembered is led all the same.
    let _ = SENDERS.insert(key, &value, 0);
}

/// The endpoint that a socket sends to, if its frontend still leads there.
#[inline(always)]
fn kept(key: &PeerKey, dialled: &Dialled) -> Option<&'static Endpoint> {
    // SAFETY: a torn value names no member, or an endpoint that the socket had.
    let known = unsafe { SENDERS.get(key) }?;
    if known.service != dialled.frontend.service {
        return None;
    }
    service::member(dialled.frontend, dialled.pool, &known.addr, known.port)
}

/// Replaces the endpoint by the frontend that the client dialled, in the answer of a system call.
#[inline(always)]
pub fn show_frontend(socket: &Socket<'_>) -> i32 {
    let (addr, port) = socket.peer();
    // SAFETY: only this socket's own calls write the value.
    if let Some(peer) = unsafe { PEERS.get(socket.key(&addr, port)) } {
        socket.set_peer(&peer.addr, peer.port);
    }
    ALLOW
}

/// The frontend that a client dials. The error is the reason of a refusal, or `None`: the socket is left alone.
#[inline(always)]
fn dialled(socket: &Socket<'_>, addr: &Addr, port: u16) -> Result<Dialled, Option<Counter>> {
    let node = node().ok_or(None)?;
    if !socket.is_led(node) || dns::is_served(addr, port) {
        return Err(None);
    }
    let client = if socket.netns_cookie() == node.netns_cookie {
        Client::Node
    } else if is_loopback(addr) {
        // The loopback addresses of a pod are its own.
        return Err(None);
    } else {
        Client::LocalPod
    };
    match service::decide(None, addr, port, socket.protocol, |_| client) {
        // Session affinity is the client's, by its address, and a socket may have none yet.
        Decision::Balance { frontend, .. } if frontend.affinity_seconds != 0 => Err(None),
        // The node needs no masquerading: the kernel chooses a source on the way to the endpoint.
        Decision::Balance {
            frontend,
            pool,
            masquerade,
            ..
        } if client == Client::Node || !masquerade => Ok(Dialled { frontend, pool }),
        Decision::Reject(reason) => Err(Some(reason)),
        _ => Err(None),
    }
}

#[inline(always)]
fn is_loopback(addr: &Addr) -> bool {
    if addr.is_v4() {
        u32::from_be(addr.words[3]) >> 24 == 127
    } else {
        addr.words == [0, 0, 0, 1_u32.to_be()]
    }
}

/// Chooses an endpoint for a socket, and remembers which frontend it dialled.
#[inline(always)]
fn choose(
    socket: &Socket<'_>,
    dialled: &Dialled,
    addr: &Addr,
    port: u16,
) -> Option<&'static Endpoint> {
    // Nothing is remembered of it.
    let client = AffinityKey {
        client: Addr::ANY_V6,
        service: dialled.frontend.service,
    };
    let before = Tuple {
        // Maglev's choice is by the client's address and port. A socket has none yet.
        source: client.client,
        // SAFETY: the helper has no arguments.
        source_port: unsafe { bpf_get_prandom_u32() } as u16,
        destination: *addr,
        destination_port: port,
        protocol: socket.protocol.into(),
    };
    let endpoint = service::choose(dialled.frontend, dialled.pool, &client, &before)?;
    remember(socket, endpoint, dialled, addr, port);
    count(Counter::Connections as u32 + u32::from(!addr.is_v4()));
    let service = dialled.frontend.service;
    let to = (&endpoint.addr, endpoint.port);
    socket.record(EventKind::Opened, service, 0, (addr, port), to);
    Some(endpoint)
}

/// Writes the frontend that a socket dialled into PEERS, beside the endpoint. Reading an entry keeps it: the map forgets
/// the entries that were used least recently.
#[inline(always)]
fn remember(socket: &Socket<'_>, endpoint: &Endpoint, dialled: &Dialled, addr: &Addr, port: u16) {
    let key = socket.key(&endpoint.addr, endpoint.port);
    let value = Peer {
        addr: *addr,
        service: dialled.frontend.service,
        port,
        padding: 0,
    };
    // SAFETY: only this socket's own calls write the value.
    if unsafe { PEERS.get(&key) } != Some(&value) {
        // A socket that cannot be remembered is led all the same.
        let _ = PEERS.insert(&key, &value, 0);
    }
}

/// A socket is closed. Its entry would push out those of sockets that are open: nothing reads these until their endpoint
/// is gone.
#[inline(always)]
pub fn forget(key: &PeerKey) -> i32 {
    // Most sockets were led nowhere.
    let _ = PEERS.remove(key);
    ALLOW
}

/// Makes `connect()` fail with `ECONNREFUSED`, as a reset would.
#[inline(always)]
fn refuse(socket: &Socket<'_>, addr: &Addr, port: u16, reason: Counter) -> i32 {
    let counter = reason as u32 + u32::from(!addr.is_v4());
    count(counter);
    let dialled = (addr, port);
    socket.record(EventKind::Rejected, 0, counter, dialled, dialled);
    // SAFETY: the helper takes a number.
    unsafe { bpf_set_retval(-ECONNREFUSED) };
    DENY
}
