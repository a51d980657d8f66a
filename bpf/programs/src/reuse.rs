//! Clients that use the port of a connection again.

use sluice_bpf_abi::{Flow, FlowKind, TCP, Tuple, flow_flags};

use crate::flow;
use crate::packet::Packet;

/// Whether a client uses the ports of a connection that has ended for another one. `to` is overwritten.
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
    // Where a reply comes from.
    to.source.set(&flow.destination);
    to.source_port = flow.destination_port;
    to.destination.set(&flow.source);
    to.destination_port = flow.source_port;
    to.protocol = packet.tuple.protocol;
    let anew = flow::is_closed(flow) || flow::find(to).is_some_and(|it| flow::is_closed(it));
    // The address may be no Service's any more. Then nothing takes the entry's place, and it would get the
    // later packets of the new connection.
    if anew {
        flow::forget(&packet.tuple);
    } else {
        // The packet may arrive once more before it leaves, through loopback or a bridge. There it is no connection
        // beside an open one.
        flow.rewrite(to);
        if let Some(forwarded) = flow::find(to) {
            flow::touch(forwarded, packet);
        }
    }
    anew
}

/// Whether a connection to a Service has ended whose port its client now dials the endpoint itself from. Then
/// nothing may rewrite the endpoint's answers any more. `to` is overwritten.
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
