//! Direct server return: packets to endpoints of other nodes go through a tunnel, and the replies straight
//! to the clients.
//!
//! The tunnel is VXLAN, whose header has no room for the frontend that the reply has to come from. But the
//! Ethernet addresses of the inner frame have no other use, so they carry it, with the network identifier and
//! the group policy:
//!
//! ```text
//! inner destination MAC  bytes 0 to 5 of the frontend's address
//! inner source MAC       bytes 6 to 11
//! group policy           bytes 12 to 15
//! network identifier     the frontend's port, plus MARK
//! ```

use aya_ebpf::bindings::{BPF_F_TUNINFO_IPV6, BPF_F_ZERO_CSUM_TX, TC_ACT_SHOT, bpf_tunnel_key};
use aya_ebpf::helpers::generated::{
    bpf_redirect, bpf_skb_get_tunnel_key, bpf_skb_get_tunnel_opt, bpf_skb_set_tunnel_key,
    bpf_skb_set_tunnel_opt,
};
use aya_ebpf::programs::TcContext;
use core::mem::{MaybeUninit, offset_of};
use sluice_bpf_abi::{Addr, Tuple};

use crate::ifindex;
use crate::maps::{INTERFACES, node};
use crate::packet::{Packet, network_offset};
use crate::rewrite::store;

/// Network identifiers of this tunnel: the high byte.
const MARK: u32 = 0x51_0000;
/// Size of the tunnel key on every kernel since 4.18: without the local address.
const KEY: usize = offset_of!(bpf_tunnel_key, __bindgen_anon_3);
const LONGEST_TCP_HEADER: u32 = 60;
/// `PACKET_HOST`.
const TO_THIS_HOST: u32 = 0;
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
        _ => segment + packet.transport + LONGEST_TCP_HEADER,
    };
    match length > tunnel.mtu && !packet.may_be_fragmented {
        true => tunnel.mtu,
        false => 0,
    }
}

/// Sends a packet, rewritten to its endpoint, to the endpoint's node. `frontend`: the addresses that the client
/// sent it with.
#[inline(never)]
pub fn send(ctx: &TcContext, frontend: &Tuple, to_node: &Addr) -> i32 {
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
    let flags = match to_node.is_v4() {
        true => {
            key.__bindgen_anon_1.remote_ipv4 = u32::from_be(to_node.words[3]);
            u64::from(BPF_F_ZERO_CSUM_TX)
        }
        false => {
            key.__bindgen_anon_1.remote_ipv6 = to_node.words;
            u64::from(BPF_F_TUNINFO_IPV6)
        }
    };
    let [first, second, third, mut last] = frontend.destination.words;
    let skb = ctx.skb.skb;
    // SAFETY: the helpers read what they are given.
    let set = unsafe {
        bpf_skb_set_tunnel_key(skb, &raw mut key, KEY as u32, flags) == 0
            && bpf_skb_set_tunnel_opt(skb, (&raw mut last).cast(), 4) == 0
    };
    if !set || network_offset(ctx) == 0 {
        return None;
    }
    store(ctx, 0, &[first, second, third])?;
    Some(tunnel)
}

/// A packet that came through the tunnel, and the addresses that its client sent it with. False: it is none of
/// ours.
#[inline(never)]
pub fn receive(ctx: &TcContext, request: &mut Tuple) -> bool {
    // SAFETY: all zeros is a key.
    let mut key: bpf_tunnel_key = unsafe { MaybeUninit::zeroed().assume_init() };
    let mut last = 0_u32;
    let skb = ctx.skb.skb;
    // SAFETY: the helpers write at most the size that they are given. The flag is the family of the tunnel,
    // which has to be right.
    let got = unsafe {
        (bpf_skb_get_tunnel_key(skb, &raw mut key, KEY as u32, 0) == 0
            || bpf_skb_get_tunnel_key(skb, &raw mut key, KEY as u32, BPF_F_TUNINFO_IPV6.into())
                == 0)
            && bpf_skb_get_tunnel_opt(skb, (&raw mut last).cast(), 4) >= 0
    };
    if !got || key.tunnel_id & !0xffff != MARK {
        return false;
    }
    let Ok([first, second, third]) = ctx.load::<[u32; 3]>(0) else {
        return false;
    };
    request.destination.words = [first, second, third, last];
    request.destination_port = key.tunnel_id as u16;
    // The frame's destination is no address of the tunnel's.
    ctx.change_type(TO_THIS_HOST).is_ok()
}
