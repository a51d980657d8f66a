//! The way of a packet through the programs, from top to bottom.

use aya_ebpf::bindings::{TC_ACT_SHOT, TC_ACT_UNSPEC};
use aya_ebpf::programs::TcContext;
use sluice_bpf_abi::{
    Addr, AffinityKey, Client, Counter, EventKind, Flow, FlowKind, Hook, NOT_TUNNELLED, TCP, Tuple,
    UDP, endpoint_flags, flow_flags, frontend_flags, node_flags,
};

use crate::event::Action;
use crate::flow::{self, Connection};
use crate::maps::{Scratch, count, node_flag, scratch};
use crate::origin::{client, from_node, from_socket, ifindex, was_seen};
use crate::outcome::{
    deny, family_index, finish, is_routed_again, is_vanishing, pass, route_again,
};
use crate::packet::{Packet, RST, SYN};
use crate::reuse::{begins_anew, gives_way};
use crate::service::{self, Decision};
use crate::{dns, icmp, reject, tunnel};

/// Result of [`lead`]: an endpoint was found.
const LED: i32 = 1000;
/// Result of [`lead`]: the connection is rejected, for the reason whose counter is added.
pub const REJECTED: i32 = 2000;

/// Packets that arrive through an interface: to frontends, and replies to masqueraded connections.
#[inline(always)]
pub fn ingress(ctx: &TcContext) -> i32 {
    let Some(Scratch { packet, about, to }) = scratch() else {
        return TC_ACT_UNSPEC;
    };
    if is_vanishing(ctx) || !packet.parse(ctx, 0) {
        return TC_ACT_UNSPEC;
    }
    if packet.is_icmp {
        return icmp::translate(ctx, packet, about, to, Hook::Ingress);
    }
    if tunnel::is_tunnel(ctx) {
        return match from_tunnel(ctx, packet, &mut about.tuple, to) {
            // A strict `rp_filter` would drop it here: its client's route leads elsewhere.
            TC_ACT_UNSPEC => route_again(ctx),
            action => action,
        };
    }
    if packet.protocol() == UDP && dns::passes(ctx, packet, Hook::Ingress) {
        return pass(ctx, packet, Hook::Ingress);
    }
    if let Some(known) = flow::find(&packet.tuple) {
        if applies(known, Hook::Ingress) {
            if !begins_anew(known, packet, to) {
                return go_on(ctx, packet, to, known, Hook::Ingress);
            }
        } else if known.kind == FlowKind::Forwarded as u8 {
            return beside(ctx, packet, &mut about.tuple, to, known);
        } else {
            return TC_ACT_UNSPEC;
        }
    }
    begin(ctx, packet, to, Hook::Ingress)
}

/// Packets that leave through an interface: to endpoints, replies to clients, and the node's own.
#[inline(always)]
pub fn egress(ctx: &TcContext) -> i32 {
    let Some(Scratch { packet, about, to }) = scratch() else {
        return TC_ACT_UNSPEC;
    };
    if !packet.parse(ctx, 0) {
        return TC_ACT_UNSPEC;
    }
    if packet.is_icmp {
        return icmp::translate(ctx, packet, about, to, Hook::Egress);
    }
    if packet.protocol() == UDP && dns::passes(ctx, packet, Hook::Egress) {
        return pass(ctx, packet, Hook::Egress);
    }
    if let Some(known) = flow::find(&packet.tuple) {
        if known.flags & flow_flags::MASQUERADE != 0
            && !flow::masquerade(&packet.tuple, known, ifindex(ctx))
        {
            return deny(ctx, packet, Hook::Egress, Counter::NoMasqueradePort as i32);
        }
        // The node dials an endpoint itself from the port of its connection to a Service.
        if known.kind == FlowKind::Forwarded as u8
            && packet.protocol() == TCP
            && packet.opens()
            && from_socket(ctx)
            && gives_way(packet, to, known)
        {
            return TC_ACT_UNSPEC;
        }
        // A packet that leaves through the tunnel is as it has to be.
        if !applies(known, Hook::Egress) || known.flags & flow_flags::DSR != 0 {
            return TC_ACT_UNSPEC;
        }
        if !begins_anew(known, packet, to) {
            return go_on(ctx, packet, to, known, Hook::Egress);
        }
    } else if was_seen(ctx) {
        return TC_ACT_UNSPEC;
    }
    begin(ctx, packet, to, Hook::Egress)
}

/// Whether packets of an entry are rewritten here.
#[inline(always)]
pub fn applies(flow: &Flow, hook: Hook) -> bool {
    let at = |kind: FlowKind| flow.kind == kind as u8;
    match hook {
        Hook::Ingress => {
            at(FlowKind::Request)
                || at(FlowKind::Unmasquerade)
                || (at(FlowKind::Reply) && flow.flags & flow_flags::NODE_CLIENT != 0)
        }
        _ => at(FlowKind::Request) || at(FlowKind::Forwarded) || at(FlowKind::Reply),
    }
}

/// A packet that no entry knows: it opens a connection, or passes.
#[inline(always)]
fn begin(ctx: &TcContext, packet: &Packet, to: &mut Tuple, hook: Hook) -> i32 {
    let opens = packet.opens();
    if !opens && !goes_on_here(packet) {
        return TC_ACT_UNSPEC;
    }
    // A connection to the cluster's DNS has an entry, and goes on.
    if packet.protocol() == TCP && dns::passes(ctx, packet, hook) {
        return pass(ctx, packet, hook);
    }
    let mut connection = Connection::of(&packet.tuple);
    if !opens {
        // As if it had ended, until another packet comes: mostly the endpoint resets it, or says nothing.
        connection.flags = flow_flags::RST;
    }
    match lead(ctx, packet, hook, &mut connection) {
        _ if !opens && connection.service == 0 => TC_ACT_UNSPEC,
        LED => establish(ctx, packet, to, hook, &connection),
        TC_ACT_UNSPEC => pass(ctx, packet, hook),
        reason if reason >= REJECTED => reject::reject(ctx, packet, hook, reason),
        reason => deny(ctx, packet, hook, reason),
    }
}

/// Whether a packet of TCP is of a connection that nobody else can carry: another node's before, or one whose entry
/// was forgotten. Its endpoint resets it, so that the client learns of it; or, with Maglev, goes on with it.
#[inline(always)]
fn goes_on_here(packet: &Packet) -> bool {
    packet.protocol() == TCP
        && packet.has_ports
        && packet.flags & (SYN | RST) == 0
        && node_flag(node_flags::CARRIES_ALL)
}

/// Chooses an endpoint for a new connection: [`LED`], `TC_ACT_UNSPEC` for none of a Service's, the counter of
/// a drop, or [`REJECTED`] and the counter.
#[inline(never)]
fn lead(ctx: &TcContext, packet: &Packet, hook: Hook, connection: &mut Connection<'_>) -> i32 {
    let tuple = &packet.tuple;
    let (addr, port) = (&tuple.destination, tuple.destination_port);
    let decision = service::decide(
        Some(&tuple.source),
        addr,
        port,
        packet.protocol(),
        |family| client(ctx, packet, hook, family),
    );
    let (frontend, pool, masquerade, client) = match decision {
        Decision::Pass => return TC_ACT_UNSPEC,
        Decision::Drop(reason) => return reason as i32,
        Decision::Reject(reason) => return REJECTED + reason as i32,
        Decision::Balance {
            frontend,
            pool,
            masquerade,
            client,
        } => (frontend, pool, masquerade, client),
    };
    let key = AffinityKey {
        client: tuple.source,
        service: frontend.service,
    };
    let Some(endpoint) = service::choose(frontend, pool, &key, tuple) else {
        return Counter::NoEndpointInSlot as i32;
    };
    let is_hairpin = endpoint.flags & endpoint_flags::HAIRPIN != 0 && endpoint.addr == tuple.source;
    connection.endpoint = endpoint.addr;
    connection.port = endpoint.port;
    connection.service = frontend.service;
    if hook == Hook::Egress && from_node(ctx) {
        connection.flags |= flow_flags::NODE_CLIENT;
    }
    let is_direct = frontend.flags & frontend_flags::DSR != 0
        && hook == Hook::Ingress
        && client == Client::Other
        && !service::is_in_list(NOT_TUNNELLED, &tuple.source);
    if is_direct && endpoint.node != Addr::ANY_V6 {
        connection.node = endpoint.node;
    } else if is_hairpin
        || (masquerade && !(is_direct && endpoint.flags & endpoint_flags::HERE != 0))
    {
        connection.forwarded = flow_flags::MASQUERADE;
    }
    LED
}

#[inline(always)]
fn establish(
    ctx: &TcContext,
    packet: &Packet,
    to: &mut Tuple,
    hook: Hook,
    connection: &Connection<'_>,
) -> i32 {
    if !flow::enter(connection, to) {
        return deny(ctx, packet, hook, Counter::FlowsFull as i32);
    }
    count(Counter::Connections as u32 + family_index(packet));
    if connection.node != Addr::ANY_V6 {
        return tunnel::go_through_tunnel(ctx, packet, to, connection.service);
    }
    let action = Action {
        hook,
        kind: EventKind::Opened,
        ifindex: ifindex(ctx),
        service: connection.service,
        counter: 0,
    };
    finish(ctx, packet, to, &action, || hook == Hook::Egress)
}

/// A packet of a known connection.
#[inline(always)]
fn go_on(ctx: &TcContext, packet: &Packet, to: &mut Tuple, known: &mut Flow, hook: Hook) -> i32 {
    flow::touch(known, packet);
    to.protocol = packet.tuple.protocol;
    known.rewrite(to);
    if known.flags & flow_flags::DSR != 0 && hook == Hook::Ingress {
        return tunnel::go_through_tunnel(ctx, packet, to, known.service);
    }
    let action = Action {
        hook,
        kind: EventKind::Rewritten,
        ifindex: ifindex(ctx),
        service: known.service,
        counter: 0,
    };
    finish(ctx, packet, to, &action, || is_routed_again(known, hook))
}

/// A packet that arrives with the addresses of a forwarded one. It was rewritten by us before, on a port of a
/// bridge; or a client dials the endpoint itself from the port of its connection to a Service. If that one is open,
/// it gets another port.
#[inline(always)]
fn beside(
    ctx: &TcContext,
    packet: &Packet,
    request: &mut Tuple,
    to: &mut Tuple,
    forwarded: &Flow,
) -> i32 {
    if packet.protocol() != TCP {
        return TC_ACT_UNSPEC;
    }
    let opens = packet.opens();
    if opens && gives_way(packet, to, forwarded) {
        return TC_ACT_UNSPEC;
    }
    request.source.set(&packet.tuple.source);
    request.destination.set(&packet.tuple.destination);
    request.source_port = packet.tuple.source_port;
    request.destination_port = packet.tuple.destination_port;
    request.protocol = packet.tuple.protocol | Tuple::BESIDE;
    if let Some(known) = flow::find(request)
        && !(opens && flow::is_closed(known))
    {
        return go_on(ctx, packet, to, known, Hook::Ingress);
    }
    if !opens || forwarded.flags & flow_flags::ESTABLISHED == 0 {
        return TC_ACT_UNSPEC;
    }
    let connection = Connection {
        changes_port: true,
        ..Connection::of(request)
    };
    establish(ctx, packet, to, Hook::Ingress, &connection)
}

/// A packet that another node sent through the tunnel, rewritten to its endpoint already. Its reply has to
/// come from the frontend that the client dialled.
#[inline(always)]
fn from_tunnel(ctx: &TcContext, packet: &Packet, request: &mut Tuple, to: &mut Tuple) -> i32 {
    request.source = packet.tuple.source;
    request.source_port = packet.tuple.source_port;
    request.protocol = packet.tuple.protocol;
    if !tunnel::receive(ctx, packet.is_v4, request) {
        return TC_ACT_SHOT;
    }
    match flow::find(request) {
        Some(known) if !begins_anew(known, packet, to) => {
            go_on(ctx, packet, to, known, Hook::Ingress)
        }
        _ => {
            let connection = Connection {
                request,
                endpoint: packet.tuple.destination,
                port: packet.tuple.destination_port,
                ..Connection::of(request)
            };
            establish(ctx, packet, to, Hook::Ingress, &connection)
        }
    }
}
