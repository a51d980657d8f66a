//! Connections with the addresses and ports of another one: an earlier one that ended, or one that netfilter translates.

use aya_ebpf::programs::TcContext;
use sluice_bpf_abi::{Flow, FlowKind, TCP, Tuple, flow_flags};

use crate::global::global;
use crate::packet::{Packet, SYN};
use crate::{flow, window};

/// Whether a packet opens another connection with the ports of one that has ended. `to` is overwritten.
///
/// While a connection has not ended, a SYN from its client's port goes to its endpoint, which answers it, and changes
/// nothing: anybody may have sent it.
#[inline(always)]
pub fn begins_anew(flow: &Flow, packet: &Packet, to: &mut Tuple) -> bool {
    flow.kind == FlowKind::Request as u8
        && packet.protocol() == TCP
        && packet.opens()
        && opens_anew(flow, packet, to)
}

global!(
    /// See [`begins_anew`].
    fn opens_anew(flow: &Flow, packet: &Packet, to: &mut Tuple) -> bool = opens_anew_body else false
);

#[inline(always)]
fn opens_anew_body(flow: &Flow, packet: &Packet, to: &mut Tuple) -> bool {
    flow.rewrite(to);
    to.protocol = packet.tuple.protocol;
    // The key of the answers' first entry: a node's own answers, masqueraded, have no other.
    if flow.flags & flow_flags::NODE_CLIENT != 0
        && let Some(forwarded) = flow::find_copy(to)
    {
        forwarded.rewrite(to);
    }
    let anew = is_over(flow, flow::find(&to.reversed()).as_deref());
    // If the address is no Service's any more, no new entry replaces this one, and it would rewrite the later packets of
    // the new connection.
    if anew {
        flow::forget(&packet.tuple);
    }
    anew
}

/// Whether a connection has ended. Where its answers go another way, the client's end is all that there is to see; else
/// their entry was another's to forget.
#[inline(always)]
fn is_over(request: &Flow, answers: Option<&Flow>) -> bool {
    match answers {
        Some(answers) => flow::have_ended(request, answers),
        None => request.flags & flow_flags::DSR == 0 || flow::is_closed(request),
    }
}

/// Whether a packet accepts another connection than that of its entry, which has ended: netfilter, or a socket of the node,
/// opened it with a port of ours. The programs' own begin with new entries. The entry goes.
#[inline(always)]
pub fn is_anothers(flow: &Flow, packet: &Packet) -> bool {
    let is_answer = flow.kind == FlowKind::Unmasquerade as u8 || flow.kind == FlowKind::Reply as u8;
    let is_anothers = is_answer
        && packet.protocol() == TCP
        && packet.has_ports
        && packet.flags & SYN != 0
        && flow::has_ended(&packet.tuple, flow);
    if is_anothers {
        flow::forget(&packet.tuple);
    }
    is_anothers
}

/// Whether a packet that leaves for an endpoint opens another connection than that of its entry, which has ended: netfilter
/// led it there, or nobody. The entry goes. `to` is overwritten.
#[inline(always)]
pub fn is_led_by_another(ctx: &TcContext, flow: &Flow, packet: &Packet, to: &mut Tuple) -> bool {
    flow.kind == FlowKind::Forwarded as u8
        && packet.protocol() == TCP
        && packet.opens()
        && flow.flags & flow_flags::NETFILTER == 0
        && !has_opened(ctx, packet, to)
        && gives_way(packet, to, flow)
}

global!(
    /// Whether a packet with the addresses of an entry Forwarded is the SYN that opened its connection. `to` is overwritten.
    pub fn has_opened(ctx, packet: &Packet, to: &mut Tuple) -> bool = has_opened_body else false
);

#[inline(always)]
fn has_opened_body(ctx: &TcContext, packet: &Packet, to: &mut Tuple) -> bool {
    if packet.protocol() != TCP {
        return false;
    }
    to.set_reversed(&packet.tuple);
    let Some(reply) = flow::find_copy(to) else {
        return false;
    };
    reply.rewrite_reversed(to);
    flow::find_copy(to).is_some_and(|request| {
        window::has_syn_alone(request) && request.end == window::end(ctx, packet)
    })
}

/// Whether netfilter translates the packets of an entry: they pass as they are. `to` is overwritten.
#[inline(always)]
pub fn is_netfilters(ctx: &TcContext, flow: &mut Flow, packet: &Packet, to: &mut Tuple) -> bool {
    flow.flags & flow_flags::NETFILTER != 0
        && !begins_anew(flow, packet, to)
        && touch_netfilters(ctx, flow, packet, to)
}

global!(
    /// Renews an entry of a connection that netfilter translates. What netfilter rewrites has no entry where it leaves, so a
    /// masqueraded connection's answers count here for both their entries.
    fn touch_netfilters(ctx, flow: &mut Flow, packet: &Packet, to: &mut Tuple) -> bool = touch_netfilters_body else true
);

#[inline(always)]
fn touch_netfilters_body(
    ctx: &TcContext,
    flow: &mut Flow,
    packet: &Packet,
    to: &mut Tuple,
) -> bool {
    if window::renew(ctx, packet, to, flow)
        && flow.kind == FlowKind::Unmasquerade as u8
        && let Some(reply) = flow::find_copy(to)
    {
        flow::touch(reply, packet);
        window::copy(reply, flow);
    }
    true
}

global!(
    /// A client connects to an endpoint directly, from the port of its connection to a Service. Returns whether that one has
    /// ended; its entries are removed then, because nothing may rewrite the endpoint's answers. `to` is overwritten.
    pub fn gives_way(packet: &Packet, to: &mut Tuple, forwarded: &Flow) -> bool = gives_way_body else false
);

#[inline(always)]
fn gives_way_body(packet: &Packet, to: &mut Tuple, forwarded: &Flow) -> bool {
    to.set_reversed(&packet.tuple);
    let has_ended = match flow::find_copy(to) {
        Some(reply) => flow::have_ended(forwarded, reply),
        None => forwarded.flags & flow_flags::RST != 0,
    };
    if has_ended {
        flow::forget(&packet.tuple);
        flow::forget(to);
        // A direct connection of before that was beside it.
        to.set(&packet.tuple);
        to.protocol |= Tuple::BESIDE;
        flow::forget(to);
    }
    has_ended
}
