//! What becomes of a packet in the end: it passes, it is dropped, or it goes back to the kernel through loopback.

use aya_ebpf::bindings::{BPF_F_INGRESS, TC_ACT_SHOT, TC_ACT_UNSPEC};
use aya_ebpf::helpers::generated::bpf_redirect;
use aya_ebpf::programs::TcContext;
use sluice_bpf_abi::{Counter, EventKind, Flow, FlowKind, Hook, Tuple, flow_flags};

use crate::event::{self, Action};
use crate::maps::count;
use crate::origin::{LOOPBACK, ifindex};
use crate::packet::{ETHERNET, Packet, network_offset};
use crate::rewrite;

/// A locally administered MAC address, which loopback does not have.
const ELSEWHERE: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// `PACKET_OTHERHOST`.
const PACKET_OTHERHOST: u32 = 3;

/// Leaves a packet alone.
#[inline(always)]
pub fn pass(ctx: &TcContext, packet: &Packet, hook: Hook) -> i32 {
    let action = Action {
        hook,
        kind: EventKind::Passed,
        ifindex: ifindex(ctx),
        service: 0,
        counter: 0,
    };
    event::record(&action, &packet.tuple, &packet.tuple);
    TC_ACT_UNSPEC
}

#[inline(always)]
pub fn finish(
    ctx: &TcContext,
    packet: &Packet,
    to: &Tuple,
    action: &Action,
    is_routed_again: impl FnOnce() -> bool,
) -> i32 {
    event::record(action, &packet.tuple, to);
    if rewrite::rewrite(ctx, packet, to) != 0 {
        return deny(ctx, packet, action.hook, Counter::Malformed as i32);
    }
    match is_routed_again() {
        true => route_again(ctx),
        false => TC_ACT_UNSPEC,
    }
}

/// Whether packets of an entry go back to the kernel through loopback.
///
/// Those of the node itself have a route for the address that they had. Replies to the node come from a
/// frontend, whose route does not lead where the reply came from: the kernel drops them at an interface that
/// has no address, or a strict `rp_filter`.
///
/// Asked after the packet was written, and read then: of a flag that is known before that call, the verifier of
/// Linux 6.1 may look at one value only, and cut off the branch of the other.
#[inline(always)]
pub fn is_routed_again(flow: &Flow, hook: Hook) -> bool {
    // SAFETY: these are references.
    let (kind, flags) = unsafe {
        (
            (&raw const flow.kind).read_volatile(),
            (&raw const flow.flags).read_volatile(),
        )
    };
    match hook {
        Hook::Egress => kind == FlowKind::Request as u8,
        _ => kind != FlowKind::Request as u8 && flags & flow_flags::NODE_CLIENT != 0,
    }
}

/// Gives a packet to the kernel as if it had come through loopback.
#[inline(always)]
pub fn route_again(ctx: &TcContext) -> i32 {
    if network_offset(ctx) == 0 {
        let protocol = ctx.skb.protocol() as u16;
        let header = [[0_u16; 3], [0; 3]];
        // SAFETY: the context is valid for the run of the program.
        let grown =
            unsafe { aya_ebpf::helpers::generated::bpf_skb_change_head(ctx.skb.skb, ETHERNET, 0) };
        if grown != 0
            || rewrite::store(ctx, 0, &header).is_none()
            || rewrite::store(ctx, 12, &protocol).is_none()
        {
            return TC_ACT_SHOT;
        }
    } else if rewrite::store(ctx, 0, &[0_u16; 3]).is_none() {
        // The address of loopback; else the packet would be another machine's.
        return TC_ACT_SHOT;
    }
    // SAFETY: the helper takes numbers.
    unsafe { bpf_redirect(LOOPBACK, u64::from(BPF_F_INGRESS)) as i32 }
}

/// Drops a packet and counts it in the [`Counter`] of this number.
#[inline(always)]
pub fn deny(ctx: &TcContext, packet: &Packet, hook: Hook, reason: i32) -> i32 {
    record_denial(ctx, packet, hook, EventKind::Dropped, reason);
    match hook {
        Hook::Egress => vanish(ctx),
        _ => TC_ACT_SHOT,
    }
}

/// Drops a packet of the node without an error for its sender, which a drop here would be (`ENOBUFS`): the
/// packet comes through loopback for another machine.
#[inline(always)]
fn vanish(ctx: &TcContext) -> i32 {
    if network_offset(ctx) == 0 || rewrite::store(ctx, 0, &ELSEWHERE).is_none() {
        return TC_ACT_SHOT;
    }
    // SAFETY: the helper takes numbers.
    unsafe { bpf_redirect(LOOPBACK, u64::from(BPF_F_INGRESS)) as i32 }
}

/// Whether a packet came to loopback to be dropped.
#[inline(always)]
pub fn is_vanishing(ctx: &TcContext) -> bool {
    // SAFETY: the context is valid for the run of the program.
    ifindex(ctx) == LOOPBACK && unsafe { (*ctx.skb.skb).pkt_type } == PACKET_OTHERHOST
}

/// Counts a packet that is dropped or rejected.
#[inline(always)]
pub fn record_denial(ctx: &TcContext, packet: &Packet, hook: Hook, kind: EventKind, reason: i32) {
    let counter = reason as u32 + family_index(packet);
    count(counter);
    let action = Action {
        hook,
        kind,
        ifindex: ifindex(ctx),
        service: 0,
        counter,
    };
    event::record(&action, &packet.tuple, &packet.tuple);
}

/// Counters are in pairs: IPv4, then IPv6.
#[inline(always)]
pub fn family_index(packet: &Packet) -> u32 {
    u32::from(!packet.is_v4)
}
