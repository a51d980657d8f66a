//! Sockets: clients on the node and in its pods are led to endpoints before a packet is made.
//!
//! What a socket's address does not tell, its packets do: source ranges, masqueraded pods, drops, refusals of
//! datagrams. Such sockets are left alone, and the programs of packets look after them.
//!
//! These programs run in processes, where those of packets may interrupt them: they use no SCRATCH.

use aya_ebpf::EbpfContext as _;
use aya_ebpf::helpers::generated::{
    bpf_get_netns_cookie, bpf_get_prandom_u32, bpf_get_socket_cookie, bpf_set_retval,
};
use aya_ebpf::macros::cgroup_sock_addr;
use aya_ebpf::programs::SockAddrContext;
use sluice_bpf_abi::{
    Addr, AffinityKey, Client, Counter, Endpoint, EventKind, Frontend, Hook, Node, Peer, PeerKey,
    TCP, Tuple, UDP, Verdict, node_flags,
};

use crate::event::{self, Action};
use crate::maps::{PEERS, SENDERS, count, node};
use crate::service::{self, Decision};

/// The system call goes on.
const ALLOW: i32 = 1;
/// It fails.
const DENY: i32 = 0;
const ECONNREFUSED: i32 = 111;

/// TCP and UDP sockets that connect over IPv4.
#[cgroup_sock_addr(connect4)]
pub fn sluice_connect4(ctx: SockAddrContext) -> i32 {
    connect(&Socket::v4(&ctx))
}

/// The same over IPv6, and over IPv4 with a mapped address.
#[cgroup_sock_addr(connect6)]
pub fn sluice_connect6(ctx: SockAddrContext) -> i32 {
    connect(&Socket::v6(&ctx))
}

/// Datagrams with a destination of their own.
#[cgroup_sock_addr(sendmsg4)]
pub fn sluice_sendmsg4(ctx: SockAddrContext) -> i32 {
    send(&Socket::v4(&ctx))
}

/// See [`sluice_sendmsg4`].
#[cgroup_sock_addr(sendmsg6)]
pub fn sluice_sendmsg6(ctx: SockAddrContext) -> i32 {
    send(&Socket::v6(&ctx))
}

/// Datagrams whose sender is asked for.
#[cgroup_sock_addr(recvmsg4)]
pub fn sluice_recvmsg4(ctx: SockAddrContext) -> i32 {
    show_frontend(&Socket::v4(&ctx))
}

/// See [`sluice_recvmsg4`].
#[cgroup_sock_addr(recvmsg6)]
pub fn sluice_recvmsg6(ctx: SockAddrContext) -> i32 {
    show_frontend(&Socket::v6(&ctx))
}

/// Who is at the other end.
#[cgroup_sock_addr(getpeername4)]
pub fn sluice_getpeername4(ctx: SockAddrContext) -> i32 {
    show_frontend(&Socket::v4(&ctx))
}

/// See [`sluice_getpeername4`].
#[cgroup_sock_addr(getpeername6)]
pub fn sluice_getpeername6(ctx: SockAddrContext) -> i32 {
    show_frontend(&Socket::v6(&ctx))
}

/// A system call with an address.
struct Socket<'a> {
    ctx: &'a SockAddrContext,
    is_v4: bool,
    protocol: u8,
}

impl<'a> Socket<'a> {
    #[inline(always)]
    fn v4(ctx: &'a SockAddrContext) -> Self {
        Self::new(ctx, true)
    }

    #[inline(always)]
    fn v6(ctx: &'a SockAddrContext) -> Self {
        Self::new(ctx, false)
    }

    #[inline(always)]
    fn new(ctx: &'a SockAddrContext, is_v4: bool) -> Self {
        Self {
            ctx,
            is_v4,
            // SAFETY: the context is valid for the run of the program.
            protocol: unsafe { (*ctx.sock_addr).protocol } as u8,
        }
    }

    /// The address and port that the call names. The verifier wants each word to be read by itself.
    #[inline(always)]
    fn peer(&self) -> (Addr, u16) {
        let from = self.ctx.sock_addr;
        // SAFETY: the context is valid for the run of the program.
        unsafe {
            let port = u16::from_be((&raw const (*from).user_port).read_volatile() as u16);
            if self.is_v4 {
                let word = (&raw const (*from).user_ip4).read_volatile();
                return (Addr::v4(word), port);
            }
            let word = |index: usize| (&raw const (*from).user_ip6[index]).read_volatile();
            let words = [word(0), word(1), word(2), word(3)];
            (Addr { words }, port)
        }
    }

    /// Names another one.
    #[inline(always)]
    fn set_peer(&self, addr: &Addr, port: u16) {
        let to = self.ctx.sock_addr;
        // SAFETY: the context is valid for the run of the program.
        unsafe {
            (&raw mut (*to).user_port).write_volatile(u32::from(port.to_be()));
            if self.is_v4 {
                (&raw mut (*to).user_ip4).write_volatile(addr.words[3]);
                return;
            }
            for index in 0..4 {
                (&raw mut (*to).user_ip6[index]).write_volatile(addr.words[index]);
            }
        }
    }

    #[inline(always)]
    fn cookie(&self) -> u64 {
        // SAFETY: the helper takes the context.
        unsafe { bpf_get_socket_cookie(self.ctx.as_ptr()) }
    }

    #[inline(always)]
    fn netns_cookie(&self) -> u64 {
        // SAFETY: the helper takes the context.
        unsafe { bpf_get_netns_cookie(self.ctx.as_ptr()) }
    }

    #[inline(always)]
    fn key(&self, addr: &Addr, port: u16) -> PeerKey {
        PeerKey {
            cookie: self.cookie(),
            addr: *addr,
            port: port.into(),
            protocol: self.protocol.into(),
        }
    }

    /// Whether sockets of this protocol are led to endpoints.
    #[inline(always)]
    fn is_led(&self, node: &Node) -> bool {
        let flag = match self.protocol {
            TCP => node_flags::SOCKETS_TCP,
            UDP => node_flags::SOCKETS_UDP,
            _ => return false,
        };
        node.flags & flag != 0
    }

    #[inline(always)]
    fn record(&self, kind: EventKind, service: u32, counter: u32, before: &Tuple, after: &Tuple) {
        let action = Action {
            hook: Hook::Socket,
            kind,
            ifindex: 0,
            service,
            counter,
        };
        event::record(&action, before, after);
    }
}

/// What a client dials.
struct Dialled {
    frontend: &'static Frontend,
    pool: Verdict,
    namespace: u64,
}

/// A socket connects: it gets an endpoint as its peer.
#[inline(always)]
fn connect(socket: &Socket<'_>) -> i32 {
    let (addr, port) = socket.peer();
    match dialled(socket, &addr, port) {
        Ok(dialled) => {
            if let Some(endpoint) = choose(socket, &dialled, &addr, port) {
                socket.set_peer(&endpoint.addr, endpoint.port);
            }
            ALLOW
        }
        // `connect()` of UDP sends nothing that could be refused. Programs use it to ask for routes.
        Err(Some(reason)) if socket.protocol == TCP => refuse(socket, &addr, port, reason),
        Err(_) => ALLOW,
    }
}

/// A datagram is sent. All that one socket sends to one frontend go to the same endpoint while it is there.
#[inline(always)]
fn send(socket: &Socket<'_>) -> i32 {
    let (addr, port) = socket.peer();
    let Ok(dialled) = dialled(socket, &addr, port) else {
        return ALLOW;
    };
    let key = socket.key(&addr, port);
    if let Some(endpoint) = kept(&key, &dialled) {
        remember(socket, endpoint, &dialled, &addr, port);
        socket.set_peer(&endpoint.addr, endpoint.port);
    } else if let Some(endpoint) = choose(socket, &dialled, &addr, port) {
        let value = Peer {
            addr: endpoint.addr,
            service: dialled.frontend.service,
            port: endpoint.port,
            padding: 0,
        };
        // A socket that cannot be remembered is led all the same.
        let _ = SENDERS.insert(&key, &value, 0);
        socket.set_peer(&endpoint.addr, endpoint.port);
    }
    ALLOW
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

/// Shows the frontend where the client would see the endpoint.
#[inline(always)]
fn show_frontend(socket: &Socket<'_>) -> i32 {
    let (addr, port) = socket.peer();
    // SAFETY: only this socket's own calls write the value.
    if let Some(peer) = unsafe { PEERS.get(socket.key(&addr, port)) } {
        socket.set_peer(&peer.addr, peer.port);
    }
    ALLOW
}

/// The frontend that a client dials: the reason of a refusal, or nothing, if it has to be left alone.
#[inline(always)]
fn dialled(socket: &Socket<'_>, addr: &Addr, port: u16) -> Result<Dialled, Option<Counter>> {
    let node = node().ok_or(None)?;
    if !socket.is_led(node) {
        return Err(None);
    }
    let namespace = socket.netns_cookie();
    let client = match namespace == node.netns_cookie {
        true => Client::Node,
        // The loopback addresses of a pod are its own.
        false if is_loopback(addr) => return Err(None),
        false => Client::LocalPod,
    };
    match service::decide(None, addr, port, socket.protocol, |_| client) {
        // The node needs no masquerading: the kernel chooses a source on the way to the endpoint.
        Decision::Balance {
            frontend,
            pool,
            masquerade,
            ..
        } if client == Client::Node || !masquerade => Ok(Dialled {
            frontend,
            pool,
            namespace,
        }),
        Decision::Reject(reason) => Err(Some(reason)),
        _ => Err(None),
    }
}

#[inline(always)]
fn is_loopback(addr: &Addr) -> bool {
    match addr.is_v4() {
        true => u32::from_be(addr.words[3]) >> 24 == 127,
        false => addr.words == [0, 0, 0, 1_u32.to_be()],
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
    let affinity = AffinityKey::of_namespace(dialled.frontend.service, dialled.namespace);
    let before = Tuple {
        // Maglev's choice is by the client's address and port. A socket has none yet.
        source: affinity.client,
        // SAFETY: the helper has no arguments.
        source_port: unsafe { bpf_get_prandom_u32() } as u16,
        ..destination(socket, addr, port)
    };
    let endpoint = service::choose(dialled.frontend, dialled.pool, &affinity, &before)?;
    remember(socket, endpoint, dialled, addr, port);
    count(Counter::Connections as u32 + u32::from(!addr.is_v4()));
    let after = destination(socket, &endpoint.addr, endpoint.port);
    let service = dialled.frontend.service;
    let before = destination(socket, addr, port);
    socket.record(EventKind::Opened, service, 0, &before, &after);
    Some(endpoint)
}

/// The only part of a socket's tuple that is known before its packets.
#[inline(always)]
fn destination(socket: &Socket<'_>, addr: &Addr, port: u16) -> Tuple {
    Tuple {
        destination: *addr,
        destination_port: port,
        protocol: socket.protocol.into(),
        ..Tuple::default()
    }
}

/// Remembers which frontend stands for the endpoint. Entries that are in use are the last to be forgotten.
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

/// Lets `connect()` fail as it would fail by a reset.
#[inline(always)]
fn refuse(socket: &Socket<'_>, addr: &Addr, port: u16, reason: Counter) -> i32 {
    let counter = reason as u32 + u32::from(!addr.is_v4());
    count(counter);
    let tuple = destination(socket, addr, port);
    socket.record(EventKind::Rejected, 0, counter, &tuple, &tuple);
    // SAFETY: the helper takes a number.
    unsafe { bpf_set_retval(-ECONNREFUSED) };
    DENY
}
