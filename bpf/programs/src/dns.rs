//! The node's own DNS server: packets between it and its clients pass unchanged.
//!
//! A query passes while the server's process wants it: while a socket is bound to the owner's port of its destination.
//! The kernel closes that socket with the process, also after `kill -9`, and the next query is led to the cluster's
//! DNS.

use aya_ebpf::EbpfContext as _;
use aya_ebpf::bindings::{BPF_F_CURRENT_NETNS, bpf_sock};
use aya_ebpf::helpers::generated::{bpf_sk_lookup_udp, bpf_sk_release, bpf_skc_lookup_tcp};
use aya_ebpf::programs::TcContext;
use sluice_bpf_abi::{Addr, Client, Hook, MAX_DNS_ADDRESSES, TCP, Tuple, UDP};

use crate::global::global;
use crate::maps::{DNS, node};
use crate::origin::{LOOPBACK, client, ifindex};
use crate::packet::Packet;
use crate::service;

/// In place of a socket's state: no socket is bound to the destination. States begin with 1 (`TCP_ESTABLISHED`).
const NO_SOCKET: u32 = 0;
/// The socket waits for connections (`TCP_LISTEN`).
const LISTENS: u32 = 10;

/// Words of the longest [`bpf_sock_tuple`].
///
/// [`bpf_sock_tuple`]: aya_ebpf::bindings::bpf_sock_tuple
const TUPLE_WORDS: usize = 9;

/// Whether this address and port are the DNS server's.
#[inline(always)]
pub fn is_served(addr: &Addr, port: u16) -> bool {
    DNS.get(0)
        .is_some_and(|it| it.index_of(addr, port).is_some())
}

/// Whether a packet comes from the server, or is one that the server wants.
///
/// A reply to the node itself may go to a ClusterIP: the kernel takes the address of a query as its source, too.
#[inline(always)]
pub fn passes(ctx: &TcContext, packet: &Packet, hook: Hook) -> bool {
    is_served(&packet.tuple.source, packet.tuple.source_port) || gets(ctx, packet, hook)
}

/// Whether a packet is to the server, and the server wants it.
#[inline(always)]
fn gets(ctx: &TcContext, packet: &Packet, hook: Hook) -> bool {
    let tuple = &packet.tuple;
    let Some(dns) = DNS.get(0) else {
        return false;
    };
    let Some(index) = dns.index_of(&tuple.destination, tuple.destination_port) else {
        return false;
    };
    if dns.for_this_node[index & (MAX_DNS_ADDRESSES - 1)] != 0
        && !is_of_this_node(ctx, packet, hook)
    {
        return false;
    }
    match packet.protocol() {
        TCP if !packet.opens() => match tcp_socket(ctx, packet) {
            NO_SOCKET => false,
            LISTENS => is_wanted(ctx, packet, dns.owner_port),
            // Connections go on until they end, also when the queries were given back.
            _ => true,
        },
        TCP | UDP => is_wanted(ctx, packet, dns.owner_port),
        _ => false,
    }
}

#[inline(always)]
fn is_of_this_node(ctx: &TcContext, packet: &Packet, hook: Hook) -> bool {
    let Some(node) = node() else {
        return false;
    };
    let family = service::family(node, &packet.tuple.destination);
    ifindex(ctx) == LOOPBACK || client(ctx, packet, hook, family) != Client::Other
}

global!(
    /// Whether a process wants queries to the destination: it has a socket of UDP at this port of it.
    fn is_wanted(ctx, packet: &Packet, owner_port: u32) -> bool = is_wanted_body else false
);

#[inline(always)]
fn is_wanted_body(ctx: &TcContext, packet: &Packet, owner_port: u32) -> bool {
    // With source port 0 no connected socket matches.
    let (mut tuple, length) = wanted(packet, 0, owner_port as u16);
    // SAFETY: the tuple has this many bytes.
    let socket = unsafe {
        bpf_sk_lookup_udp(
            ctx.as_ptr(),
            tuple.as_mut_ptr().cast(),
            length,
            BPF_F_CURRENT_NETNS as u64,
            0,
        )
    };
    state(socket, packet) != NO_SOCKET
}

global!(
    /// The state of the socket to which the kernel would give a packet of TCP: of its connection, else the listening one.
    fn tcp_socket(ctx, packet: &Packet) -> u32 = tcp_socket_body else NO_SOCKET
);

#[inline(always)]
fn tcp_socket_body(ctx: &TcContext, packet: &Packet) -> u32 {
    let ports = (packet.tuple.source_port, packet.tuple.destination_port);
    let (mut tuple, length) = wanted(packet, ports.0, ports.1);
    // SAFETY: the tuple has this many bytes.
    let socket = unsafe {
        bpf_skc_lookup_tcp(
            ctx.as_ptr(),
            tuple.as_mut_ptr().cast(),
            length,
            BPF_F_CURRENT_NETNS as u64,
            0,
        )
    };
    state(socket, packet)
}

/// A `bpf_sock_tuple` with the packet's addresses and these ports, and its length in bytes.
#[inline(always)]
fn wanted(packet: &Packet, from_port: u16, to_port: u16) -> ([u32; TUPLE_WORDS], u32) {
    let Tuple {
        source: Addr { words: from },
        destination: Addr { words: to },
        ..
    } = &packet.tuple;
    let ports = u32::from(from_port.to_be()) | u32::from(to_port.to_be()) << 16;
    if packet.is_v4 {
        return ([from[3], to[3], ports, 0, 0, 0, 0, 0, 0], 12);
    }
    let [a, b, c, d] = *from;
    let [e, f, g, h] = *to;
    ([a, b, c, d, e, f, g, h, ports], 36)
}

/// Reads the state of a socket and releases it. [`NO_SOCKET`] for a socket that is bound to all addresses.
#[inline(always)]
fn state(socket: *mut bpf_sock, packet: &Packet) -> u32 {
    if socket.is_null() {
        return NO_SOCKET;
    }
    let to = &packet.tuple.destination.words;
    // SAFETY: the helper gave the socket, and nobody uses it after its release. The verifier wants each word to be
    // read by itself.
    unsafe {
        let word = |index: usize| (&raw const (*socket).src_ip6[index]).read_volatile();
        let is_bound_to_it = if packet.is_v4 {
            (&raw const (*socket).src_ip4).read_volatile() == to[3]
        } else {
            word(0) == to[0] && word(1) == to[1] && word(2) == to[2] && word(3) == to[3]
        };
        let state = (&raw const (*socket).state).read_volatile();
        bpf_sk_release(socket.cast());
        if is_bound_to_it { state } else { NO_SOCKET }
    }
}
