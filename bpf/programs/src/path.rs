//! The way of a packet through the programs, from top to bottom.
//!
//! ```text
//! ingress: a packet arrives                        egress: a packet leaves
//!   read its headers                                 read its headers
//!                                                    policy
//!   from the tunnel: see from_tunnel
//!   a fragment before the first: keep it
//!   for the tunnel, and no node's: drop
//!   ICMP: translate an error                         ICMP: translate an error
//!   the node's own DNS server: pass                  the node's own DNS server: pass
//!   an entry in FLOWS: continue_known                an entry in FLOWS: masquerade, continue_known
//!   no entry: open                                   no entry: open, unless it was seen when it arrived
//!
//! continue_known   the addresses and ports of the entry
//! open             balance: frontend, source ranges, endpoint
//!                  policy (ingress)
//!                  establish: enter the connection in FLOWS, and rewrite its first packet
//! ```

use aya_ebpf::bindings::{TC_ACT_SHOT, TC_ACT_UNSPEC};
use aya_ebpf::programs::TcContext;
use sluice_bpf_abi::{
    Addr, AffinityKey, Client, Counter, EventKind, Flow, FlowKind, Hook, NOT_TUNNELLED, TCP, Tuple,
    UDP, endpoint_flags, flow_flags, frontend_flags, node_flags,
};

use crate::direct::Way;
use crate::event::Action;
use crate::flow::{self, Connection};
use crate::global::global;
use crate::maps::{count, node_flag};
use crate::origin::{client, from_node, from_socket, ifindex, is_to_itself, was_seen};
use crate::outcome::{
    Denial, arrive_again, deny, drop_packet, family_index, forward, is_drop_at_egress,
    is_routed_again, pass, route_again,
};
use crate::packet::{ACK, Packet, Piece, RST, SYN, parse};
use crate::reuse::{begins_anew, is_anothers, is_led_by_another, is_netfilters};
use crate::scratch::{Scratch, scratch};
use crate::service::{self, Decision};
use crate::window::{self, renew};
use crate::{direct, dns, early, icmp, older, source, tunnel};

/// A packet arrives through an interface. Returns the action of tc.
#[inline(always)]
pub fn ingress(ctx: &TcContext) -> i32 {
    let Some(Scratch {
        packet,
        about,
        to,
        connection,
    }) = scratch()
    else {
        return TC_ACT_UNSPEC;
    };
    if is_drop_at_egress(ctx) {
        return TC_ACT_UNSPEC;
    }
    if tunnel::is_tunnel(ctx) {
        return match from_tunnel(ctx, packet, about, to, connection) {
            // A strict `rp_filter` would drop it here: its client's route leads elsewhere.
            TC_ACT_UNSPEC => route_again(ctx),
            action => action,
        };
    }
    let is_read = parse(ctx, packet, 0);
    if packet.piece == Piece::First && early::release(ctx, packet) {
        return arrive_again(ctx);
    }
    if packet.piece == Piece::Early && early::keep(ctx, packet) {
        return TC_ACT_SHOT;
    }
    if !is_read {
        return if tunnel::may_be_forged(packet) {
            TC_ACT_SHOT
        } else {
            TC_ACT_UNSPEC
        };
    }
    if packet.is_icmp {
        return icmp::translate(ctx, packet, about, to, Hook::Ingress);
    }
    if tunnel::is_forged(ctx, packet) {
        return TC_ACT_SHOT;
    }
    if packet.protocol() == UDP && dns::passes(ctx, packet, Hook::Ingress) {
        return pass(ctx, packet, Hook::Ingress);
    }
    if is_to_itself(ctx, &packet.tuple) {
        return TC_ACT_UNSPEC;
    }
    let mut found = flow::find(&packet.tuple);
    if let Some(it) = found.as_deref_mut() {
        if source::may_end(packet) && source::is_foreign(ctx, packet) {
            return TC_ACT_UNSPEC;
        }
        if is_anothers(it, packet) {
            found = None;
        } else if is_netfilters(ctx, it, packet, to) {
            return TC_ACT_UNSPEC;
        }
    }
    let mut is_beside = false;
    if let Some(it) = found.as_ref()
        && it.kind == FlowKind::Forwarded as u8
    {
        match direct::arrives(ctx, packet, &mut about.tuple, to, it) {
            Way::Opens if source::is_foreign(ctx, packet) => return TC_ACT_UNSPEC,
            Way::Opens => {
                connection.begin(packet);
                connection.changes_port = true;
                return establish(ctx, packet, &about.tuple, to, connection, Hook::Ingress);
            }
            Way::Known => {
                is_beside = true;
                found = flow::find(&about.tuple);
            }
            _ => {
                older::arrives(ctx, packet, it);
                return TC_ACT_UNSPEC;
            }
        }
    }
    if let Some(known) = found {
        if !applies(known, Hook::Ingress) {
            if known.kind == FlowKind::Direct as u8 {
                renew(ctx, packet, to, known);
            } else {
                older::arrives(ctx, packet, known);
            }
            return TC_ACT_UNSPEC;
        }
        if is_beside || !begins_anew(known, packet, to) {
            return continue_known(ctx, packet, to, known, Hook::Ingress);
        }
    }
    open(ctx, packet, to, connection, Hook::Ingress)
}

/// A packet leaves through an interface. Returns the action of tc.
#[inline(always)]
pub fn egress(ctx: &TcContext) -> i32 {
    let Some(Scratch {
        packet,
        about,
        to,
        connection,
    }) = scratch()
    else {
        return TC_ACT_UNSPEC;
    };
    if !parse(ctx, packet, 0) {
        return TC_ACT_UNSPEC;
    }
    let (addr, port) = (&packet.tuple.destination, packet.tuple.destination_port);
    if let Some(denial) = policy(packet, addr, port, Hook::Egress) {
        return deny(ctx, packet, Hook::Egress, denial);
    }
    if packet.is_icmp {
        return icmp::translate(ctx, packet, about, to, Hook::Egress);
    }
    if packet.protocol() == UDP && dns::passes(ctx, packet, Hook::Egress) {
        return pass(ctx, packet, Hook::Egress);
    }
    let mut found = flow::find(&packet.tuple);
    if let Some(it) = found.as_deref_mut() {
        if is_anothers(it, packet) || is_led_by_another(ctx, it, packet, to) {
            found = None;
        } else if is_netfilters(ctx, it, packet, to) {
            return TC_ACT_UNSPEC;
        }
    }
    let key = &mut about.tuple;
    let way = match found.as_deref_mut() {
        Some(it) if it.kind == FlowKind::Forwarded as u8 && from_socket(ctx) => {
            match direct::leaves_beside(packet, key, to, it) {
                Way::Known => match flow::find(key) {
                    Some(it) => direct::leaves_again(ctx, it, packet, to),
                    None => Way::Pass,
                },
                way => way,
            }
        }
        Some(it) if it.kind == FlowKind::Direct as u8 && direct::begins_anew(packet, it) => {
            found = None;
            direct::leaves(ctx, packet, key)
        }
        Some(it) if it.kind == FlowKind::Direct as u8 => direct::leaves_again(ctx, it, packet, to),
        None if packet.opens() => direct::leaves(ctx, packet, key),
        _ => Way::Unknown,
    };
    if way != Way::Unknown {
        return leave_directly(ctx, packet, key, to, way);
    }
    if let Some(known) = found {
        if known.flags & flow_flags::MASQUERADE != 0
            && let Some(reason) = flow::masquerade(ctx, &packet.tuple, known).denial()
        {
            return drop_packet(ctx, packet, Hook::Egress, reason);
        }
        // Packets that leave through the tunnel were rewritten when they arrived.
        if !applies(known, Hook::Egress) || known.flags & flow_flags::DSR != 0 {
            return TC_ACT_UNSPEC;
        }
        if direct::was_before(ctx, packet, known, to) {
            return leave_directly(ctx, packet, key, to, Way::Known);
        }
        if !begins_anew(known, packet, to) {
            return continue_known(ctx, packet, to, known, Hook::Egress);
        }
    } else if was_seen(ctx) {
        return TC_ACT_UNSPEC;
    }
    open(ctx, packet, to, connection, Hook::Egress)
}

/// A packet of a direct connection leaves, perhaps from another port: `key` is that of its entry, `to` what it is rewritten
/// to if it has one.
#[inline(always)]
fn leave_directly(ctx: &TcContext, packet: &Packet, key: &Tuple, to: &mut Tuple, way: Way) -> i32 {
    let kind = match way {
        Way::Unknown | Way::Pass => return TC_ACT_UNSPEC,
        Way::Opens => match flow::enter_direct(ctx, key, to).denial() {
            Some(reason) => return drop_packet(ctx, packet, Hook::Egress, reason),
            None => {
                window::begin(ctx, packet, key);
                EventKind::Opened
            }
        },
        Way::Known => EventKind::Rewritten,
    };
    let action = Action {
        hook: Hook::Egress,
        kind,
        ifindex: ifindex(ctx),
        service: 0,
        counter: 0,
    };
    forward(ctx, packet, to, &action, || false)
}

/// The place of a network policy's verdict. There is no policy yet: every packet is allowed.
///
/// Each direction calls it at one point, with the address and port to which the kernel routes the packet: those of
/// the endpoint, not of the frontend. The packet still has its client's address.
///
/// - Ingress, what a pod sends (the egress rules of its policies): [`open`] calls it with the first packet of each
///   connection, of a Service or not, when the endpoint is chosen and nothing is entered. So a denied connection
///   leaves nothing behind, and later packets are not looked at.
/// - Egress, what a pod receives (the ingress rules of its policies): [`egress`] calls it with every packet, before
///   the client is masqueraded. Whether the packet is of a connection that was allowed before is the policy's to know.
///   A packet by which the node itself dials a frontend leaves twice, the first time to the frontend.
///
/// It may allow the packet (`None`), drop it, or reject it. It must not change the packet or its destination: the
/// connection's entries say what becomes of later packets.
#[inline(always)]
fn policy(_packet: &Packet, _destination: &Addr, _port: u16, _hook: Hook) -> Option<Denial> {
    None
}

/// Whether the programs of this direction rewrite the packets of an entry.
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

/// A later packet of a connection: it gets the addresses and ports of its entry.
#[inline(always)]
fn continue_known(
    ctx: &TcContext,
    packet: &Packet,
    to: &mut Tuple,
    known: &mut Flow,
    hook: Hook,
) -> i32 {
    renew(ctx, packet, to, known);
    if known.flags & flow_flags::DSR != 0 && hook == Hook::Ingress {
        return tunnel::forward(ctx, packet, to, known.service);
    }
    let action = Action {
        hook,
        kind: EventKind::Rewritten,
        ifindex: ifindex(ctx),
        service: known.service,
        counter: 0,
    };
    forward(ctx, packet, to, &action, || is_routed_again(known, hook))
}

/// A packet without an entry: the first of a connection to a Service, or of no Service.
#[inline(always)]
fn open(
    ctx: &TcContext,
    packet: &Packet,
    to: &mut Tuple,
    connection: &mut Connection,
    hook: Hook,
) -> i32 {
    let opens = packet.opens();
    if node_flag(node_flags::WAITS) || !opens && !is_taken_over(packet) {
        return TC_ACT_UNSPEC;
    }
    // A connection of TCP to the cluster's DNS has an entry, so it keeps its endpoint.
    if packet.protocol() == TCP && dns::passes(ctx, packet, hook) {
        return pass(ctx, packet, hook);
    }
    connection.begin(packet);
    if !opens {
        // The entry counts as closed until another packet comes: mostly the endpoint resets the connection, or
        // does not answer.
        connection.flags = flow_flags::RST;
    }
    let fate = balance(ctx, packet, connection, hook);
    if !opens && connection.service == 0 {
        return TC_ACT_UNSPEC;
    }
    if fate != Fate::Pass && hook == Hook::Ingress && direct::is_of_socket(ctx, packet) {
        return pass(ctx, packet, hook);
    }
    let denial = match fate {
        Fate::Drop => Some(Denial::Drop(connection.reason)),
        Fate::Reject => Some(Denial::Reject(connection.reason)),
        Fate::Pass | Fate::Forward if hook == Hook::Ingress => {
            policy(packet, &connection.endpoint, connection.port, hook)
        }
        Fate::Pass | Fate::Forward => None,
    };
    match (denial, fate) {
        (Some(denial), _) => deny(ctx, packet, hook, denial),
        (None, Fate::Forward) => establish(ctx, packet, &packet.tuple, to, connection, hook),
        (None, _) => pass(ctx, packet, hook),
    }
}

/// Whether a packet of TCP that opens no connection is ours to answer: the connection was another node's, or its entry
/// was forgotten. The frontend resets it, which tells the client; or, with Maglev, an endpoint carries it on.
#[inline(always)]
fn is_taken_over(packet: &Packet) -> bool {
    is_in_the_middle(packet) && node_flag(node_flags::CARRIES_ALL)
}

/// Whether a packet of TCP is of a connection that others opened, and has an acknowledgement, as all of these have (RFC
/// 9293, 3.4).
#[inline(always)]
fn is_in_the_middle(packet: &Packet) -> bool {
    packet.protocol() == TCP && packet.has_ports && packet.flags & (SYN | RST | ACK) == ACK
}

/// What [`balance`] decides. It is returned in a register, because [`balance`] is a function of the kernel's.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
enum Fate {
    /// The packet is of no Service.
    Pass,
    /// The connection has an endpoint.
    Forward,
    /// The connection is dropped, for [`Connection::reason`].
    Drop,
    /// The connection is rejected, for [`Connection::reason`].
    Reject,
}

global!(
    /// Finds the frontend of a new connection, and chooses its endpoint.
    fn balance(ctx, packet: &Packet, connection: &mut Connection, hook: Hook) -> Fate = balance_body else Fate::Pass
);

#[inline(always)]
fn balance_body(ctx: &TcContext, packet: &Packet, connection: &mut Connection, hook: Hook) -> Fate {
    let tuple = &packet.tuple;
    let (addr, port) = (&tuple.destination, tuple.destination_port);
    let decision = service::decide(
        Some(&tuple.source),
        addr,
        port,
        packet.protocol(),
        |family| client(ctx, packet, hook, family),
    );
    let is_foreign = || hook == Hook::Ingress && source::is_foreign(ctx, packet);
    let (frontend, pool, masquerade, client) = match decision {
        Decision::Pass => return Fate::Pass,
        Decision::Drop(reason) => {
            connection.reason = reason;
            return Fate::Drop;
        }
        Decision::Reject(_) if is_foreign() => return Fate::Pass,
        Decision::Reject(reason) => {
            connection.reason = reason;
            return Fate::Reject;
        }
        Decision::Balance {
            frontend,
            pool,
            masquerade,
            client,
        } => (frontend, pool, masquerade, client),
    };
    if is_foreign() {
        return Fate::Pass;
    }
    // In the middle of a connection that no entry knows. By Maglev the client's endpoint may be found again, and go on; any
    // other would reset it, and so does the frontend.
    if !packet.opens() && frontend.maglev_size == 0 {
        connection.service = frontend.service;
        connection.reason = Counter::UnknownConnection;
        return Fate::Reject;
    }
    let key = AffinityKey {
        client: tuple.source,
        service: frontend.service,
    };
    let Some(endpoint) = service::choose(frontend, pool, &key, tuple) else {
        connection.reason = Counter::NoEndpointInSlot;
        return Fate::Drop;
    };
    let is_hairpin = endpoint.flags & endpoint_flags::HAIRPIN != 0 && endpoint.addr == tuple.source;
    if tunnel::is_entrance(&endpoint.addr, endpoint.port, packet.protocol()) {
        connection.reason = Counter::NoEndpointInSlot;
        return Fate::Drop;
    }
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
    Fate::Forward
}

/// Enters a connection, and rewrites its first packet.
#[inline(always)]
fn establish(
    ctx: &TcContext,
    packet: &Packet,
    request: &Tuple,
    to: &mut Tuple,
    connection: &Connection,
    hook: Hook,
) -> i32 {
    if let Some(reason) = flow::enter(ctx, connection, request, to).denial() {
        return drop_packet(ctx, packet, hook, reason);
    }
    window::begin(ctx, packet, request);
    count(Counter::Connections as u32 + family_index(packet));
    if connection.node != Addr::ANY_V6 {
        return tunnel::forward(ctx, packet, to, connection.service);
    }
    let action = Action {
        hook,
        kind: EventKind::Opened,
        ifindex: ifindex(ctx),
        service: connection.service,
        counter: 0,
    };
    forward(ctx, packet, to, &action, || hook == Hook::Egress)
}

/// A packet that came through the tunnel, with the endpoint's address. The reply must come from the frontend that the
/// client dialled, so the connection is entered here as well. What no node sent, or has no such connection, is dropped.
#[inline(always)]
fn from_tunnel(
    ctx: &TcContext,
    packet: &mut Packet,
    about: &mut Packet,
    to: &mut Tuple,
    connection: &mut Connection,
) -> i32 {
    if !tunnel::receive(ctx, &mut about.tuple) || !parse(ctx, packet, 0) {
        return TC_ACT_SHOT;
    }
    if packet.is_icmp {
        return if icmp::is_about_endpoint(ctx, packet, about) {
            TC_ACT_UNSPEC
        } else {
            TC_ACT_SHOT
        };
    }
    let request = &mut about.tuple;
    request.source.set(&packet.tuple.source);
    request.source_port = packet.tuple.source_port;
    request.protocol = packet.tuple.protocol;
    match flow::find(request) {
        // The network moved the connection: it came to this node first, which sent it to another one's endpoint. The node
        // that has it now chose an endpoint of this one.
        Some(known) if known.flags & flow_flags::DSR != 0 => {}
        Some(known) if !begins_anew(known, packet, to) => {
            return continue_known(ctx, packet, to, known, Hook::Ingress);
        }
        _ => {}
    }
    let opens = packet.opens();
    if !(opens || is_in_the_middle(packet)) || !service::is_direct(request, packet) {
        return TC_ACT_SHOT;
    }
    connection.begin(packet);
    if !opens {
        // The entry counts as closed until another packet comes, as in `open`.
        connection.flags = flow_flags::RST;
    }
    establish(ctx, packet, request, to, connection, Hook::Ingress)
}
