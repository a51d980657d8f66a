//! Where a packet comes from: interface, socket, pod, node.

use aya_ebpf::programs::TcContext;
use sluice_bpf_abi::{Addr, Client, FamilyNode, Hook, Tuple, interface_flags};

use crate::maps::{INTERFACES, OWN};
use crate::packet::Packet;

/// The loopback interface is the first of every network namespace (`loopback_net_init`).
pub const LOOPBACK: u32 = 1;

/// The interface of a packet.
#[inline(always)]
pub fn ifindex(ctx: &TcContext) -> u32 {
    // SAFETY: the context is valid for the run of the program.
    unsafe { (*ctx.skb.skb).ifindex }
}

/// Whether the programs saw a packet that leaves when it arrived, and found no Service.
#[inline(always)]
pub fn was_seen(ctx: &TcContext) -> bool {
    // SAFETY: the context is valid for the run of the program.
    let from = unsafe { (*ctx.skb.skb).ingress_ifindex };
    // SAFETY: the agent replaces whole values.
    let interface = unsafe { INTERFACES.get(&from) };
    interface.is_some_and(|it| it.flags & interface_flags::SEEN != 0)
}

/// Whether a packet arrived at another interface before, where the programs saw it: this one is a bridge, a bond, a
/// VLAN, or loopback, through which packets that leave are routed again.
#[inline(always)]
pub fn arrived_before(ctx: &TcContext) -> bool {
    ifindex(ctx) == LOOPBACK || has_flag(ctx, interface_flags::UPPER)
}

/// Whether the programs saw a packet before it leaves here: where it arrived at or left a bridge or a bond whose port
/// this is, or left a VLAN.
#[inline(always)]
pub fn left_before(ctx: &TcContext) -> bool {
    // SAFETY: the context is valid for the run of the program.
    let is_of_vlan = unsafe { (*ctx.skb.skb).vlan_present != 0 };
    is_of_vlan || has_flag(ctx, interface_flags::PORT)
}

#[inline(always)]
fn has_flag(ctx: &TcContext, flag: u32) -> bool {
    // SAFETY: the agent replaces whole values.
    let interface = unsafe { INTERFACES.get(&ifindex(ctx)) };
    interface.is_some_and(|it| it.flags & flag != 0)
}

/// Whether a packet arrives at loopback from the address and port that it goes to: it answers a socket of the node whose own
/// port is the NodePort that it dials. A request has the same addresses, but was rewritten when it left.
#[inline(always)]
pub fn is_to_itself(ctx: &TcContext, tuple: &Tuple) -> bool {
    tuple.source_port == tuple.destination_port
        && ifindex(ctx) == LOOPBACK
        && tuple.source == tuple.destination
}

/// Whether a packet that leaves comes from a socket of the node, and not from loopback.
#[inline(always)]
pub fn from_socket(ctx: &TcContext) -> bool {
    // SAFETY: the context is valid for the run of the program.
    unsafe { (*ctx.skb.skb).ingress_ifindex == 0 }
}

/// Whether an address is the node's own.
#[inline(always)]
pub fn is_own(addr: &Addr) -> bool {
    OWN.get_ptr(addr).is_some()
}

/// Whether the node itself sends a packet that leaves.
#[inline(always)]
pub fn from_node(ctx: &TcContext) -> bool {
    // SAFETY: the context is valid for the run of the program.
    let from = unsafe { (*ctx.skb.skb).ingress_ifindex };
    from == 0 || from == LOOPBACK
}

/// Who sends a packet. Pods are told by their range, or by the interface that they come through.
#[inline(always)]
pub fn client(ctx: &TcContext, packet: &Packet, hook: Hook, family: &FamilyNode) -> Client {
    if family.pods.contains(&packet.tuple.source) {
        return Client::LocalPod;
    }
    let from = match hook {
        Hook::Ingress => ifindex(ctx),
        _ if from_node(ctx) => return Client::Node,
        // SAFETY: the context is valid for the run of the program.
        _ => unsafe { (*ctx.skb.skb).ingress_ifindex },
    };
    // SAFETY: the agent replaces whole values.
    match unsafe { INTERFACES.get(&from) } {
        Some(it) if it.flags & interface_flags::POD != 0 => Client::LocalPod,
        _ => Client::Other,
    }
}
