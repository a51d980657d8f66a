//! Sockets of the node, as the kernel finds them for a packet.

use aya_ebpf::EbpfContext as _;
use aya_ebpf::bindings::{BPF_F_CURRENT_NETNS, bpf_sock, bpf_sock_tuple};
use aya_ebpf::helpers::generated::{bpf_sk_lookup_udp, bpf_sk_release, bpf_skc_lookup_tcp};
use aya_ebpf::programs::TcContext;
use sluice_bpf_abi::{TCP, Tuple, UDP};

use crate::global::global;
use crate::maps::LOOKUP;

/// In place of a socket's state: there is none. States begin with 1.
pub const NO_SOCKET: u32 = 0;
/// The socket has a peer (`TCP_ESTABLISHED`); so has one of UDP after `connect()`.
const CONNECTED: u32 = 1;
/// The socket waits for connections (`TCP_LISTEN`).
pub const LISTENS: u32 = 10;
/// Beside a state: the socket is bound to the packet's destination, and not to all addresses.
pub const BOUND: u32 = 0x100;

const NETNS: u64 = BPF_F_CURRENT_NETNS as u64;

/// Whether a socket of the node is connected with the sender of packets with this tuple: they are its own.
#[inline(always)]
pub fn is_connected(ctx: &TcContext, tuple: &Tuple) -> bool {
    match tuple.protocol as u8 {
        TCP => has_port(ctx, tuple),
        UDP => state_of(ctx, tuple, UDP) & !BOUND == CONNECTED,
        _ => false,
    }
}

/// Whether a socket of the node gets packets with this tuple, and does not only wait for connections.
#[inline(always)]
pub fn has_port(ctx: &TcContext, tuple: &Tuple) -> bool {
    let protocol = tuple.protocol as u8;
    let state = state_of(ctx, tuple, protocol) & !BOUND;
    state != NO_SOCKET && state != LISTENS
}

#[inline(always)]
fn state_of(ctx: &TcContext, tuple: &Tuple, protocol: u8) -> u32 {
    let ports = ports(tuple.source_port, tuple.destination_port);
    find(ctx, tuple, ports, protocol)
}

/// Both ports as `find` wants them.
#[inline(always)]
pub fn ports(source: u16, destination: u16) -> u32 {
    u32::from(source.to_be()) | u32::from(destination.to_be()) << 16
}

/// The state of the socket to which the kernel would give a packet with these addresses and [`ports`], perhaps with
/// [`BOUND`], or [`NO_SOCKET`]. Of TCP that of the connection, else the one that listens.
#[inline(always)]
pub fn find(ctx: &TcContext, tuple: &Tuple, ports: u32, protocol: u8) -> u32 {
    match protocol {
        TCP => find_tcp(ctx, tuple, ports),
        UDP => find_udp(ctx, tuple, ports),
        _ => NO_SOCKET,
    }
}

global!(
    /// [`find`] for TCP. A function of its own, because the verifier takes no instruction for pointers to both kinds of
    /// sockets.
    fn find_tcp(ctx, tuple: &Tuple, ports: u32) -> u32 = find_tcp_body else NO_SOCKET
);

#[inline(always)]
fn find_tcp_body(ctx: &TcContext, tuple: &Tuple, ports: u32) -> u32 {
    let Some((wanted, length)) = wanted(tuple, ports) else {
        return NO_SOCKET;
    };
    // SAFETY: the tuple has this many bytes.
    let socket = unsafe { bpf_skc_lookup_tcp(ctx.as_ptr(), wanted, length, NETNS, 0) };
    state(socket, tuple)
}

global!(
    /// [`find`] for UDP.
    fn find_udp(ctx, tuple: &Tuple, ports: u32) -> u32 = find_udp_body else NO_SOCKET
);

#[inline(always)]
fn find_udp_body(ctx: &TcContext, tuple: &Tuple, ports: u32) -> u32 {
    let Some((wanted, length)) = wanted(tuple, ports) else {
        return NO_SOCKET;
    };
    // SAFETY: the tuple has this many bytes.
    let socket = unsafe { bpf_sk_lookup_udp(ctx.as_ptr(), wanted, length, NETNS, 0) };
    state(socket, tuple)
}

/// A `bpf_sock_tuple`, and its length in bytes.
#[inline(always)]
fn wanted(tuple: &Tuple, ports: u32) -> Option<(*mut bpf_sock_tuple, u32)> {
    let wanted = LOOKUP.get_ptr_mut(0)?;
    let (from, to) = (&tuple.source.words, &tuple.destination.words);
    // SAFETY: no other program runs on this CPU until this one ends, and nobody else borrows it.
    let words = unsafe { &mut *wanted };
    let length = if tuple.destination.is_v4() {
        words[0] = from[3];
        words[1] = to[3];
        words[2] = ports;
        12
    } else {
        words[0] = from[0];
        words[1] = from[1];
        words[2] = from[2];
        words[3] = from[3];
        words[4] = to[0];
        words[5] = to[1];
        words[6] = to[2];
        words[7] = to[3];
        words[8] = ports;
        36
    };
    Some((wanted.cast(), length))
}

/// Reads the state of a socket and releases it.
#[inline(always)]
fn state(socket: *mut bpf_sock, tuple: &Tuple) -> u32 {
    if socket.is_null() {
        return NO_SOCKET;
    }
    let to = &tuple.destination.words;
    // SAFETY: the helper gave the socket, and nobody uses it after its release. The verifier wants each word to be
    // read by itself.
    unsafe {
        let word = |index: usize| (&raw const (*socket).src_ip6[index]).read_volatile();
        let is_bound_to_it = if tuple.destination.is_v4() {
            (&raw const (*socket).src_ip4).read_volatile() == to[3]
        } else {
            word(0) == to[0] && word(1) == to[1] && word(2) == to[2] && word(3) == to[3]
        };
        let state = (&raw const (*socket).state).read_volatile();
        bpf_sk_release(socket.cast());
        if is_bound_to_it { state | BOUND } else { state }
    }
}
