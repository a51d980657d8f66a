//! How the way of a packet ends: it passes, goes on with other addresses, is dropped, or is rejected.

use aya_ebpf::bindings::{BPF_F_INGRESS, TC_ACT_SHOT, TC_ACT_UNSPEC};
use aya_ebpf::helpers::generated::bpf_redirect;
use aya_ebpf::programs::TcContext;
use sluice_bpf_abi::{Counter, EventKind, Flow, FlowKind, Hook, Tuple, flow_flags};

use crate::event::{self, Action};
use crate::maps::count;
use crate::origin::{LOOPBACK, ifindex};
use crate::packet::{ETHERNET, Packet, network_offset};
use crate::{limit, reject, rewrite};

/// A locally administered MAC address. Loopback has another one, so the kernel drops a packet to this one.
const ELSEWHERE: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// The kernel's mark of a packet to another machine's MAC address (`include/uapi/linux/if_packet.h`).
const PACKET_OTHERHOST: u32 = 3;

/// Why a packet goes no further. The counter is the reason that `status` and metrics show.
pub enum Denial {
    /// The packet is dropped.
    Drop(Counter),
    /// The client gets a TCP reset, or an ICMP error, unless [`limit`] says that it gets no answer.
    Reject(Counter),
}

/// Drops or rejects a packet.
#[inline(always)]
pub fn deny(ctx: &TcContext, packet: &Packet, hook: Hook, denial: Denial) -> i32 {
    match denial {
        Denial::Drop(reason) => drop_packet(ctx, packet, hook, reason),
        Denial::Reject(reason) if limit::is_answered(ctx, packet, hook) => {
            record_denial(ctx, packet, hook, EventKind::Rejected, reason);
            reject::reject(ctx, packet, hook)
        }
        Denial::Reject(reason) => {
            count(reason as u32 + family_index(packet));
            drop_packet(ctx, packet, hook, Counter::Unanswered)
        }
    }
}

/// Leaves a packet as it is.
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

/// Gives a packet the addresses and ports of `to`, and lets it go on, perhaps through loopback.
#[inline(always)]
pub fn forward(
    ctx: &TcContext,
    packet: &Packet,
    to: &Tuple,
    action: &Action,
    is_routed_again: impl FnOnce() -> bool,
) -> i32 {
    event::record(action, &packet.tuple, to);
    if rewrite::rewrite(ctx, packet, to) != 0 {
        return drop_packet(ctx, packet, action.hook, Counter::Malformed);
    }
    if !is_routed_again() {
        return TC_ACT_UNSPEC;
    }
    if action.hook == Hook::Egress && ifindex(ctx) == LOOPBACK {
        rewrite::allow_fragments(ctx, packet);
    }
    route_again(ctx)
}

/// Whether packets of an entry go back to the kernel through loopback.
///
/// The kernel chose the route of the node's own packets for the frontend's address. Replies to the node come from a
/// frontend whose route does not lead to where the reply came from: the kernel drops them at an interface without
/// an address, or with a strict `rp_filter`.
///
/// Read after the packet was written: if the flag is known before that call, the verifier of Linux 6.1 may follow one
/// of its values only, and remove the branch of the other.
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

/// Gives a packet to the kernel as if it had arrived through loopback, so that the kernel routes it once more.
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

/// Has a packet arrive once more, behind those that do already.
#[inline(always)]
pub fn arrive_again(ctx: &TcContext) -> i32 {
    // SAFETY: the helper takes numbers.
    unsafe { bpf_redirect(ifindex(ctx), u64::from(BPF_F_INGRESS)) as i32 }
}

/// Drops a packet, and counts it.
#[inline(always)]
pub fn drop_packet(ctx: &TcContext, packet: &Packet, hook: Hook, reason: Counter) -> i32 {
    record_denial(ctx, packet, hook, EventKind::Dropped, reason);
    match hook {
        Hook::Egress => drop_at_egress(ctx),
        _ => TC_ACT_SHOT,
    }
}

/// Drops a packet of the node without an error for its sender. `TC_ACT_SHOT` at egress makes the system call fail
/// with `ENOBUFS`. So the packet goes to loopback with another machine's MAC address, and the kernel drops it there.
#[inline(always)]
fn drop_at_egress(ctx: &TcContext) -> i32 {
    if network_offset(ctx) == 0 || rewrite::store(ctx, 0, &ELSEWHERE).is_none() {
        return TC_ACT_SHOT;
    }
    // SAFETY: the helper takes numbers.
    unsafe { bpf_redirect(LOOPBACK, u64::from(BPF_F_INGRESS)) as i32 }
}

/// Whether [`drop_at_egress`] sent this packet to loopback.
#[inline(always)]
pub fn is_drop_at_egress(ctx: &TcContext) -> bool {
    // SAFETY: the context is valid for the run of the program.
    ifindex(ctx) == LOOPBACK && unsafe { (*ctx.skb.skb).pkt_type } == PACKET_OTHERHOST
}

/// Counts a packet that is dropped or rejected.
#[inline(always)]
pub fn record_denial(
    ctx: &TcContext,
    packet: &Packet,
    hook: Hook,
    kind: EventKind,
    reason: Counter,
) {
    let counter = reason as u32 + family_index(packet);
    count(counter);
    let action = Action {
        hook,
        kind,
        ifindex: ifindex(ctx),
        service: 0,
        counter: counter as u16,
    };
    event::record(&action, &packet.tuple, &packet.tuple);
}

/// Counters are in pairs: IPv4, then IPv6.
#[inline(always)]
pub fn family_index(packet: &Packet) -> u32 {
    u32::from(!packet.is_v4)
}
