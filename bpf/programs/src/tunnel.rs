//! Direct server return: packets to endpoints of other nodes go through a tunnel, and the replies straight
//! to the clients.
//!
//! Who sends through the tunnel can name any client, so the tunnel is for nodes alone, and for what nodes send:
//!
//! - Where a packet leaves the tunnel, its sender must be a node ([`receive`]). A connection must be of a frontend that
//!   this node knows to have direct server return, of a source that may connect to it, and to an endpoint of it on this
//!   node ([`service::is_direct`](crate::service::is_direct)). An ICMP error must be about a connection that this node
//!   has. Everything else is dropped, whatever it is.
//! - Where a packet for the tunnel arrives at a node, its sender must be a node, too ([`is_forged`]): a network plugin
//!   may give the packets of pods the node's address, and the other node could not tell.
//! - No Service leads to the tunnel ([`is_entrance`]).
//!
//! The tunnel is VXLAN, whose header has no room for the frontend that the reply has to come from. But the
//! Ethernet addresses of the inner frame have no other use, so they carry it, with the network identifier, and for
//! IPv6 the group policy and the flow label, which no checksum covers:
//!
//! ```text
//! network identifier     the frontend's port, plus MARK
//! inner destination MAC  bytes 4 to 9 of the frontend's address; those of IPv4 are 12 to 15
//! inner source MAC       bytes 10 to 15
//! group policy           bytes 0 and 1
//! inner flow label       bytes 2 and 3
//! ```

use aya_ebpf::bindings::{BPF_F_TUNINFO_IPV6, BPF_F_ZERO_CSUM_TX, TC_ACT_SHOT, bpf_tunnel_key};
use aya_ebpf::helpers::generated::{
    bpf_redirect, bpf_skb_get_tunnel_key, bpf_skb_get_tunnel_opt, bpf_skb_set_tunnel_key,
    bpf_skb_set_tunnel_opt,
};
use aya_ebpf::programs::TcContext;
use core::mem::{MaybeUninit, offset_of};
use sluice_bpf_abi::{
    Addr, Counter, EventKind, Hook, TCP, TUNNEL_PEERS, Tuple, UDP, interface_flags,
};

use crate::event::{self, Action};
use crate::global::global;
use crate::maps::{INTERFACES, count, node};
use crate::origin::ifindex;
use crate::outcome::{drop_packet, family_index, record_denial};
use crate::packet::{Packet, is_v6, load, network_offset};
use crate::rewrite::store;
use crate::service::is_in_list;
use crate::{flow, reject, rewrite};

/// Network identifiers of this tunnel: the high byte.
const MARK: u32 = 0x51_0000;
/// Offset of the low 16 bits of the flow label (RFC 8200, 3).
const FLOW_LABEL: u32 = 2;
/// Flag of VXLAN: the packet has a network identifier (RFC 7348, 5). The kernel drops packets without.
const HAS_IDENTIFIER: u32 = 0x0800_0000;
/// Length of the header of UDP (RFC 768).
const UDP_HEADER: u32 = 8;
/// Size of the tunnel key on every kernel since 4.18: without the local address.
const KEY: usize = offset_of!(bpf_tunnel_key, __bindgen_anon_3);

/// Whether a packet arrived through the tunnel.
#[inline(always)]
pub fn is_tunnel(ctx: &TcContext) -> bool {
    node().is_some_and(|it| it.tunnel_ifindex == ifindex(ctx))
}

/// The MTU inside the tunnel if a packet, or a segment of it, is longer and must not be fragmented; else 0.
///
/// A packet that may be fragmented is, by the kernel, outside the tunnel.
#[inline(always)]
pub fn too_long(ctx: &TcContext, packet: &Packet) -> u32 {
    let Some(node) = node() else { return 0 };
    // SAFETY: the agent replaces whole values.
    let Some(tunnel) = (unsafe { INTERFACES.get(&node.tunnel_ifindex) }) else {
        return 0;
    };
    // SAFETY: the context is valid for the run of the program.
    let segment = unsafe { (*ctx.skb.skb).gso_size };
    let length = match segment {
        0 => ctx.len().wrapping_sub(network_offset(ctx)),
        _ => segment + packet.transport + header(ctx, packet),
    };
    if length > tunnel.mtu && !packet.may_be_fragmented {
        tunnel.mtu
    } else {
        0
    }
}

/// Sends a packet to the node of its endpoint, which answers the client directly.
#[inline(always)]
pub fn forward(ctx: &TcContext, packet: &Packet, to: &Tuple, service: u32) -> i32 {
    let mtu = too_long(ctx, packet);
    if mtu != 0 {
        // Here, because `reject::too_long` has no room on its stack for an event on Linux 6.1.
        let reason = Counter::TooLongForTunnel;
        record_denial(ctx, packet, Hook::Ingress, EventKind::Rejected, reason);
        return reject::too_long(ctx, packet, mtu);
    }
    let Some(forwarded) = flow::find(to) else {
        // The next packet opens the connection again.
        flow::forget(&packet.tuple);
        return drop_packet(ctx, packet, Hook::Ingress, Counter::FlowsFull);
    };
    let node = forwarded.destination;
    let action = Action {
        hook: Hook::Ingress,
        kind: EventKind::Tunnelled,
        ifindex: ifindex(ctx),
        service,
        counter: 0,
    };
    event::record(&action, &packet.tuple, to);
    count(Counter::Tunnelled as u32 + family_index(packet));
    if rewrite::rewrite(ctx, packet, to) != 0 {
        return TC_ACT_SHOT;
    }
    send(ctx, &packet.tuple, &node)
}

/// The length of the transport header that each segment has.
#[inline(always)]
fn header(ctx: &TcContext, packet: &Packet) -> u32 {
    if packet.protocol() != TCP {
        return UDP_HEADER;
    }
    // RFC 9293, 3.1.
    let words = load::<u8>(ctx, packet.transport + 12).unwrap_or(0) >> 4;
    u32::from(words) * 4
}

global!(
    /// Sends a packet, rewritten to its endpoint, to the endpoint's node. `frontend`: the addresses that the client
    /// sent it with.
    pub fn send(ctx, frontend: &Tuple, to_node: &Addr) -> i32 = send_body else TC_ACT_SHOT
);

#[inline(always)]
fn send_body(ctx: &TcContext, frontend: &Tuple, to_node: &Addr) -> i32 {
    match encapsulate(ctx, frontend, to_node) {
        // SAFETY: the helper takes numbers.
        Some(tunnel) => unsafe { bpf_redirect(tunnel, 0) as i32 },
        None => TC_ACT_SHOT,
    }
}

#[inline(always)]
fn encapsulate(ctx: &TcContext, frontend: &Tuple, to_node: &Addr) -> Option<u32> {
    let tunnel = node()?.tunnel_ifindex;
    // SAFETY: all zeros is a key.
    let mut key: bpf_tunnel_key = unsafe { MaybeUninit::zeroed().assume_init() };
    key.tunnel_id = MARK | u32::from(frontend.destination_port);
    key.tunnel_ttl = 64;
    let flags = if to_node.is_v4() {
        key.__bindgen_anon_1.remote_ipv4 = u32::from_be(to_node.words[3]);
        u64::from(BPF_F_ZERO_CSUM_TX)
    } else {
        key.__bindgen_anon_1.remote_ipv6 = to_node.words;
        u64::from(BPF_F_TUNINFO_IPV6)
    };
    let [first, second, third, fourth] = frontend.destination.words;
    let first = u32::from_be(first);
    let mut policy = first >> 16;
    let skb = ctx.skb.skb;
    // SAFETY: the helpers read what they are given.
    let set = unsafe {
        bpf_skb_set_tunnel_key(skb, &raw mut key, KEY as u32, flags) == 0
            && bpf_skb_set_tunnel_opt(skb, (&raw mut policy).cast(), 4) == 0
    };
    let network = network_offset(ctx);
    if !set || network == 0 {
        return None;
    }
    if !frontend.destination.is_v4() {
        store(ctx, network + FLOW_LABEL, &(first as u16).to_be())?;
    }
    store(ctx, 0, &[second, third, fourth])?;
    Some(tunnel)
}

/// Whether a packet may lead to an entrance of the tunnel and is no node's. `packet` was read.
///
/// A datagram is dropped only if its contents begin as those of our tunnel do, or cannot be read: clients may have the
/// tunnel's port by chance. Later fragments have the port of the first.
#[inline(always)]
pub fn is_forged(ctx: &TcContext, packet: &Packet) -> bool {
    let Some(node) = node() else { return false };
    let port = node.tunnel_port();
    if port == 0 || packet.protocol() != UDP || packet.tuple.destination_port != port {
        return false;
    }
    // SAFETY: the agent replaces whole values.
    let is_of_pod = unsafe { INTERFACES.get(&ifindex(ctx)) }
        .is_some_and(|it| it.flags & interface_flags::POD != 0 || it.back != 0);
    if !is_of_pod && is_in_list(TUNNEL_PEERS, &packet.tuple.source) {
        return false;
    }
    match load::<[u32; 2]>(ctx, packet.transport + UDP_HEADER) {
        Some([flags, identifier]) if packet.has_ports => {
            u32::from_be(flags) & HAS_IDENTIFIER != 0
                && (u32::from_be(identifier) >> 8) & !0xffff == MARK
        }
        _ => true,
    }
}

/// Whether a packet that could not be read may lead to an entrance of the tunnel: the kernel reads more extension
/// headers than the programs do.
#[inline(always)]
pub fn may_be_forged(packet: &Packet) -> bool {
    packet.has_more_extensions() && node().is_some_and(|it| it.tunnel_port() != 0)
}

/// Whether this is an entrance of the tunnel: the tunnel's port at a node.
#[inline(always)]
pub fn is_entrance(addr: &Addr, port: u16, protocol: u8) -> bool {
    let is_port = || node().is_some_and(|it| it.tunnel_port() == port);
    protocol == UDP && port != 0 && is_port() && is_in_list(TUNNEL_PEERS, addr)
}

global!(
    /// Reads from a packet that came through the tunnel the address and port that its client dialled. False: it was not
    /// sent by a node of the cluster.
    pub fn receive(ctx, request: &mut Tuple) -> bool = receive_body else false
);

#[inline(always)]
fn receive_body(ctx: &TcContext, request: &mut Tuple) -> bool {
    // SAFETY: all zeros is a key.
    let mut key: bpf_tunnel_key = unsafe { MaybeUninit::zeroed().assume_init() };
    let mut policy = 0_u32;
    let skb = ctx.skb.skb;
    // SAFETY: the helpers write at most the size that they are given. The flag is the family of the tunnel,
    // which has to be right; the field of the union is that of the family.
    let peer = unsafe {
        let peer = if bpf_skb_get_tunnel_key(skb, &raw mut key, KEY as u32, 0) == 0 {
            Addr::v4(key.__bindgen_anon_1.remote_ipv4.to_be())
        } else if bpf_skb_get_tunnel_key(skb, &raw mut key, KEY as u32, BPF_F_TUNINFO_IPV6.into())
            == 0
        {
            Addr {
                words: key.__bindgen_anon_1.remote_ipv6,
            }
        } else {
            return false;
        };
        // Without the option the policy is 0.
        let _ = bpf_skb_get_tunnel_opt(skb, (&raw mut policy).cast(), 4);
        peer
    };
    // Any machine can send a datagram to the tunnel's port.
    if key.tunnel_id & !0xffff != MARK || !is_in_list(TUNNEL_PEERS, &peer) {
        return false;
    }
    let Ok([second, third, fourth]) = ctx.load::<[u32; 3]>(0) else {
        return false;
    };
    let label = if is_v6(ctx) {
        load::<u16>(ctx, FLOW_LABEL).map_or(0, u16::from_be)
    } else {
        0
    };
    let first = (policy & 0xffff) << 16 | u32::from(label);
    request.destination.words = [first.to_be(), second, third, fourth];
    request.destination_port = key.tunnel_id as u16;
    true
}
