//! A direct connection that is older than the one to a Service, which came from the same port and is masqueraded. Nothing
//! knew of it when that one was entered: what is of no Service has no entry. Its endpoint sees two clients and answers both,
//! but on this node both have the same addresses and ports.
//!
//! It is told by a packet that arrives with the addresses between both rewrites, as no packet of a masqueraded connection
//! does: its requests arrive for the frontend, its answers for the address that masquerades it. Then the connection to the
//! Service gets another source port between both rewrites, where nobody sees it, and the older one keeps its own.

use aya_ebpf::bindings::BPF_ANY;
use aya_ebpf::programs::TcContext;
use sluice_bpf_abi::{Flow, FlowKind, TCP, Tuple, flow_flags};

use crate::flow::{self, Entered};
use crate::global::global;
use crate::maps::{Draft, FLOWS, draft};
use crate::origin::arrived_before;
use crate::packet::{ACK, Packet, RST, SYN};
use crate::{port, source, window};

/// A packet arrives with the addresses of an entry Forwarded or Reply, and perhaps is of an older direct connection: the
/// connection of the entry gives the port to that one. The packet passes in any case.
#[inline(always)]
pub fn arrives(ctx: &TcContext, packet: &Packet, own: &Flow) {
    if packet.protocol() == TCP
        && packet.has_ports
        && packet.flags & (SYN | RST | ACK) == ACK
        && own.flags & flow_flags::ESTABLISHED != 0
        && !window::is_near(packet, own)
        && !arrived_before(ctx)
        && !source::is_foreign(ctx, packet)
    {
        give_port(ctx, &packet.tuple, own);
    }
}

global!(
    /// Gives the connection of an entry Forwarded or Reply, whose key is `tuple`, another source port between both rewrites, if
    /// it is masqueraded. Without a free port it keeps its own.
    fn give_port(ctx, tuple: &Tuple, own: &Flow) -> u32 = give_port_body else 0
);

#[inline(always)]
fn give_port_body(ctx: &TcContext, tuple: &Tuple, own: &Flow) -> u32 {
    let mut request = *tuple;
    if own.kind == FlowKind::Reply as u8 {
        request = request.reversed();
    }
    // Never none.
    let Some(Draft { answer, flow }) = draft() else {
        return 0;
    };
    answer.set_reversed(&request);
    let (Some(forwarded), Some(reply)) = (flow::find(&request), flow::find(answer)) else {
        return 0;
    };
    const OTHERS: u8 = flow_flags::MASQUERADE | flow_flags::NODE_CLIENT | flow_flags::NETFILTER;
    let is_masqueraded = forwarded.kind == FlowKind::Forwarded as u8
        && reply.kind == FlowKind::Reply as u8
        && (forwarded.flags | reply.flags) & OTHERS == 0
        && forwarded.source != request.source;
    if !is_masqueraded {
        return 0;
    }
    flow::copy(flow, reply);
    let (taken, port) = port::take(ctx);
    if taken != Entered::Whole {
        return 0;
    }
    let Some(Draft { answer: key, flow }) = draft() else {
        return 0;
    };
    flow::copy(flow, forwarded);
    key.set(&request);
    key.source_port = port;
    if FLOWS.insert(&*key, &*flow, u64::from(BPF_ANY)).is_err() {
        key.set_reversed(&request);
        key.destination_port = port;
        flow::remove(key);
        return 0;
    }
    reply.rewrite_reversed(key);
    if let Some(it) = flow::find(key) {
        it.source_port = port;
    }
    forwarded.rewrite_reversed(key);
    key.protocol = request.protocol;
    if let Some(it) = flow::find(key) {
        it.destination_port = port;
    }
    flow::remove(&request);
    request = request.reversed();
    flow::remove(&request);
    1
}
