//! Connections with the addresses and ports of another one: an earlier one that ended, or one that netfilter translates.

use sluice_bpf_abi::{Flow, FlowKind, TCP, Tuple, flow_flags};

use crate::flow;
use crate::global::global;
use crate::packet::{Packet, SYN};

/// Whether a packet opens another connection with the ports of one that has ended. `to` is overwritten.
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
    // The key of the replies' entry.
    to.source.set(&flow.destination);
    to.source_port = flow.destination_port;
    to.destination.set(&flow.source);
    to.destination_port = flow.source_port;
    to.protocol = packet.tuple.protocol;
    let anew = flow::is_closed(flow) || flow::find_copy(to).is_some_and(|it| flow::is_closed(it));
    // If the address is no Service's any more, no new entry replaces this one, and it would rewrite the later packets of
    // the new connection.
    if anew {
        flow::forget(&packet.tuple);
    } else {
        // The packet may arrive once more before it leaves, through loopback or a bridge. There it must not count as a
        // direct connection beside an open one.
        flow.rewrite(to);
        if let Some(forwarded) = flow::find_copy(to) {
            flow::touch(forwarded, packet);
        }
    }
    anew
}

/// Whether a packet accepts another connection than that of its entry, which the endpoint has ended: netfilter, or a
/// socket of the node, opened it with a port of ours. The programs' own begin with new entries. The entry goes.
#[inline(always)]
pub fn is_anothers(flow: &Flow, packet: &Packet) -> bool {
    let is_answer = flow.kind == FlowKind::Unmasquerade as u8 || flow.kind == FlowKind::Reply as u8;
    let is_anothers = is_answer
        && packet.protocol() == TCP
        && packet.has_ports
        && packet.flags & SYN != 0
        && flow.flags & flow_flags::NETFILTER == 0
        && flow::is_closed(flow);
    if is_anothers {
        flow::forget(&packet.tuple);
    }
    is_anothers
}

/// Whether netfilter translates the packets of an entry: they pass as they are. `to` is overwritten.
#[inline(always)]
pub fn is_netfilters(flow: &mut Flow, packet: &Packet, to: &mut Tuple) -> bool {
    flow.flags & flow_flags::NETFILTER != 0
        && !begins_anew(flow, packet, to)
        && touch_netfilters(flow, packet, to)
}

global!(
    /// Renews an entry of a connection that netfilter translates. What netfilter rewrites has no entry where it leaves, so a
    /// masqueraded connection's answers count here for both their entries.
    fn touch_netfilters(flow: &mut Flow, packet: &Packet, to: &mut Tuple) -> bool = touch_netfilters_body else true
);

#[inline(always)]
fn touch_netfilters_body(flow: &mut Flow, packet: &Packet, to: &mut Tuple) -> bool {
    flow::touch(flow, packet);
    if flow.kind == FlowKind::Unmasquerade as u8 {
        flow.rewrite(to);
        to.protocol = packet.tuple.protocol;
        if let Some(reply) = flow::find_copy(to) {
            flow::touch(reply, packet);
        }
    }
    true
}

/// A client connects to an endpoint directly, from the port of its connection to a Service. Returns whether that one has
/// ended; its entries are removed then, because nothing may rewrite the endpoint's answers. `to` is overwritten.
#[inline(always)]
pub fn gives_way(packet: &Packet, to: &mut Tuple, forwarded: &Flow) -> bool {
    to.set_reversed(&packet.tuple);
    let replied = flow::find_copy(to).map_or(0, |it| it.flags);
    let any = forwarded.flags | replied;
    let both = forwarded.flags & replied;
    let has_ended = any & flow_flags::RST != 0 || both & flow_flags::FIN != 0;
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
