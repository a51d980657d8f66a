//! The programs of Sluice's eBPF data plane. `README.md` draws a packet's way.
#![no_std]
#![no_main]
#![expect(
    clippy::needless_borrows_for_generic_args,
    reason = "a key that is moved is copied, and the stack is small"
)]

mod crc;
mod dns;
mod event;
mod flow;
mod icmp;
mod maps;
mod origin;
mod packet;
mod reject;
mod rewrite;
mod service;
mod socket;
mod sum;
mod tunnel;

use aya_ebpf::bindings::{BPF_F_INGRESS, TC_ACT_SHOT, TC_ACT_UNSPEC};
use aya_ebpf::helpers::generated::bpf_redirect;
use aya_ebpf::macros::classifier;
use aya_ebpf::programs::TcContext;
use sluice_bpf_abi::{
    Addr, AffinityKey, Client, Counter, EventKind, Flow, FlowKind, Hook, NOT_TUNNELLED, TCP, Tuple,
    UDP, endpoint_flags, flow_flags, frontend_flags, node_flags,
};

use event::Action;
use flow::Connection;
use maps::{Scratch, count, node_flag, scratch};
use origin::{LOOPBACK, client, from_node, from_socket, ifindex, was_seen};
use packet::{ETHERNET, Packet, RST, SYN, network_offset};
use service::Decision;

/// A locally administered MAC address, which loopback does not have.
const ELSEWHERE: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// `PACKET_OTHERHOST`.
const PACKET_OTHERHOST: u32 = 3;

/// Result of [`lead`]: an endpoint was found.
const LED: i32 = 1000;
/// Result of [`lead`]: the connection is rejected, for the reason whose counter is added.
const REJECTED: i32 = 2000;

/// Packets that arrive through an interface: to frontends, and replies to masqueraded connections.
#[classifier]
pub fn sluice_ingress(ctx: TcContext) -> i32 {
    let Some(Scratch { packet, about, to }) = scratch() else {
        return TC_ACT_UNSPEC;
    };
    if is_vanishing(&ctx) || !packet.parse(&ctx, 0) {
        return TC_ACT_UNSPEC;
    }
    if packet.is_icmp {
        return icmp::translate(&ctx, packet, about, to, Hook::Ingress);
    }
    if tunnel::is_tunnel(&ctx) {
        return match from_tunnel(&ctx, packet, &mut about.tuple, to) {
            // A strict `rp_filter` would drop it here: its client's route leads elsewhere.
            TC_ACT_UNSPEC => route_again(&ctx),
            action => action,
        };
    }
    if packet.protocol() == UDP && dns::passes(&ctx, packet, Hook::Ingress) {
        return pass(&ctx, packet, Hook::Ingress);
    }
    if let Some(known) = flow::find(&packet.tuple) {
        if applies(known, Hook::Ingress) {
            if !begins_anew(known, packet, to) {
                return go_on(&ctx, packet, to, known, Hook::Ingress);
            }
        } else if known.kind == FlowKind::Forwarded as u8 {
            return beside(&ctx, packet, &mut about.tuple, to, known);
        } else {
            return TC_ACT_UNSPEC;
        }
    }
    begin(&ctx, packet, to, Hook::Ingress)
}

/// Packets that leave through an interface: to endpoints, replies to clients, and the node's own.
#[classifier]
pub fn sluice_egress(ctx: TcContext) -> i32 {
    let Some(Scratch { packet, about, to }) = scratch() else {
        return TC_ACT_UNSPEC;
    };
    if !packet.parse(&ctx, 0) {
        return TC_ACT_UNSPEC;
    }
    if packet.is_icmp {
        return icmp::translate(&ctx, packet, about, to, Hook::Egress);
    }
    if packet.protocol() == UDP && dns::passes(&ctx, packet, Hook::Egress) {
        return pass(&ctx, packet, Hook::Egress);
    }
    if let Some(known) = flow::find(&packet.tuple) {
        if known.flags & flow_flags::MASQUERADE != 0
            && !flow::masquerade(&packet.tuple, known, ifindex(&ctx))
        {
            return deny(&ctx, packet, Hook::Egress, Counter::NoMasqueradePort as i32);
        }
        // The node dials an endpoint itself from the port of its connection to a Service.
        if known.kind == FlowKind::Forwarded as u8
            && packet.protocol() == TCP
            && packet.opens()
            && from_socket(&ctx)
            && gives_way(packet, to, known)
        {
            return TC_ACT_UNSPEC;
        }
        // A packet that leaves through the tunnel is as it has to be.
        if !applies(known, Hook::Egress) || known.flags & flow_flags::DSR != 0 {
            return TC_ACT_UNSPEC;
        }
        if !begins_anew(known, packet, to) {
            return go_on(&ctx, packet, to, known, Hook::Egress);
        }
    } else if was_seen(&ctx) {
        return TC_ACT_UNSPEC;
    }
    begin(&ctx, packet, to, Hook::Egress)
}

/// Whether packets of an entry are rewritten here.
#[inline(always)]
fn applies(flow: &Flow, hook: Hook) -> bool {
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

/// Whether a client uses the ports of a connection that has ended for another one. `to` is overwritten.
#[inline(always)]
fn begins_anew(flow: &Flow, packet: &Packet, to: &mut Tuple) -> bool {
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

/// Whether a connection to a Service has ended whose port its client now dials the endpoint itself from. Then
/// nothing may rewrite the endpoint's answers any more. `to` is overwritten.
#[inline(always)]
fn gives_way(packet: &Packet, to: &mut Tuple, forwarded: &Flow) -> bool {
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

/// A packet of a known connection.
#[inline(always)]
fn go_on(ctx: &TcContext, packet: &Packet, to: &mut Tuple, known: &mut Flow, hook: Hook) -> i32 {
    flow::touch(known, packet);
    to.protocol = packet.tuple.protocol;
    known.rewrite(to);
    if known.flags & flow_flags::DSR != 0 && hook == Hook::Ingress {
        return go_through_tunnel(ctx, packet, to, known.service);
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

/// A packet whose endpoint is on another node, which answers the client itself.
#[inline(always)]
fn go_through_tunnel(ctx: &TcContext, packet: &Packet, to: &Tuple, service: u32) -> i32 {
    let mtu = tunnel::too_long(ctx, packet);
    if mtu != 0 {
        // Here, because the error's function has no stack for it on Linux 6.1.
        let reason = Counter::TooLongForTunnel as i32;
        record_denial(ctx, packet, Hook::Ingress, EventKind::Rejected, reason);
        return reject::too_long(ctx, packet, mtu);
    }
    let Some(forwarded) = flow::find(to) else {
        // The next packet opens the connection again.
        flow::forget(&packet.tuple);
        return deny(ctx, packet, Hook::Ingress, Counter::FlowsFull as i32);
    };
    let node = forwarded.destination;
    let action = Action {
        hook: Hook::Ingress,
        kind: EventKind::Tunnelled,
        ifindex: ifindex(ctx),
        service,
        counter: 0,
    };
    event::record(&action, &packet.tuple, to);
    count(Counter::Tunnelled as u32 + family_index(packet));
    if rewrite::rewrite(ctx, packet, to) != 0 {
        return TC_ACT_SHOT;
    }
    tunnel::send(ctx, &packet.tuple, &node)
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

#[inline(always)]
fn finish(
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
fn is_routed_again(flow: &Flow, hook: Hook) -> bool {
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

/// Leaves a packet alone.
#[inline(always)]
fn pass(ctx: &TcContext, packet: &Packet, hook: Hook) -> i32 {
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
        return go_through_tunnel(ctx, packet, to, connection.service);
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
fn is_vanishing(ctx: &TcContext) -> bool {
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
fn family_index(packet: &Packet) -> u32 {
    u32::from(!packet.is_v4)
}

#[cfg(not(test))]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 11] = *b"Apache-2.0\0";
