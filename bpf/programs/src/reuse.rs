//! Clients that open a connection from the port of an earlier one.

use sluice_bpf_abi::{Flow, FlowKind, TCP, Tuple, flow_flags};

use crate::flow;
use crate::packet::Packet;

/// Whether a packet opens another connection with the ports of one that has ended. `to` is overwritten.
#[inline(always)]
pub fn begins_anew(flow: &Flow, packet: &Packet, to: &mut Tuple) -> bool {
    flow.kind == FlowKind::Request as u8
        && packet.protocol() == TCP
        && packet.opens()
        && opens_anew(flow, packet, to)
}

/// See [`begins_anew`]. A function of its own, because the stack is small.
#[inline(never)]
fn opens_anew(flow: &Flow, packet: &Packet, to: &mut Tuple) -> bool {
    // The key of the replies' entry.
    to.source.set(&flow.destination);
    to.source_port = flow.destination_port;
    to.destination.set(&flow.source);
    to.destination_port = flow.source_port;
    to.protocol = packet.tuple.protocol;
    let anew = flow::is_closed(flow) || flow::find(to).is_some_and(|it| flow::is_closed(it));
    // If the address is no Service's any more, no new entry replaces this one, and it would rewrite the later packets of
    // the new connection.
    if anew {
        flow::forget(&packet.tuple);
    } else {
        // The packet may arrive once more before it leaves, through loopback or a bridge. There it must not count as a
        // direct connection beside an open one.
        flow.rewrite(to);
        if let Some(forwarded) = flow::find(to) {
            flow::touch(forwarded, packet);
        }
    }
    anew
}

/// A client connects to an endpoint directly, from the port of its connection to a Service. Returns whether that one has
/// ended; its entries are removed then, because nothing may rewrite the endpoint's answers. `to` is overwritten.
#[inline(always)]
pub fn gives_way(packet: &Packet, to: &mut Tuple, forwarded: &Flow) -> bool {
    to.source.set(&packet.tuple.destination);
    to.source_port = packet.tuple.destination_port;
    to.destination.set(&packet.tuple.source);
    to.destination_port = packet.tuple.source_port;
    to.protocol = packet.tuple.protocol;
    let replied = flow::find(to).map_or(0, |it| it.flags);
    let any = forwarded.flags | replied;
    let both = forwarded.flags & replied;
    let has_ended = any & flow_flags::RST != 0 || both & flow_flags::FIN != 0;
    if has_ended {
        flow::forget(&packet.tuple);
        flow::forget(to);
    }
    has_ended
}
