//! Whose packet is it? A packet belongs to the connection that knows it before it belongs to a frontend.
//!
//! An endpoint answers whoever dials it, by way of a Service or directly, and the answers of two connections with the same
//! addresses and ports cannot be told apart. So no two connections have the same answers:
//!
//! ```text
//! answers are of                                  is told by
//!   a connection of ours, while it has not ended     its entry Reply or Unmasquerade
//!   a socket of the node                             bpf_sk_lookup_udp, bpf_skc_lookup_tcp
//!   what leaves from a frontend's address and port   an entry Direct, made when it leaves
//! ```
//!
//! Whoever comes second gets another source port: a connection to a Service ([`crate::port`]), a direct one of a client
//! where it arrives ([`arrives`]), and one of the node, or of what netfilter masquerades, where it leaves ([`leaves`]).
//! Entries of a connection that has ended give way.

use aya_ebpf::programs::TcContext;
use sluice_bpf_abi::{Flow, FlowKind, TCP, Tuple, flow_flags, node_flags};

use crate::global::global;
use crate::maps::{Draft, draft, node_flag};
use crate::origin::{arrived_before, from_socket, is_own, left_before};
use crate::packet::{ACK, Packet, RST, SYN};
use crate::reuse::{gives_way, has_opened};
use crate::window::{has_syn_alone, renew};
use crate::{flow, lookup, port, service, source};

/// What becomes of a packet that may be of a direct connection. It is returned in a register.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Way {
    /// The packet belongs to no direct connection: the programs look for a frontend.
    Unknown,
    /// The packet passes unchanged.
    Pass,
    /// The packet opens a direct connection, which needs another source port.
    Opens,
    /// The packet belongs to a direct connection that has got another source port.
    Known,
}

/// Whether a packet to a frontend is of a connection that a socket of the node has.
#[inline(always)]
pub fn is_of_socket(ctx: &TcContext, packet: &Packet) -> bool {
    !(packet.protocol() == TCP && packet.opens()) && lookup::is_connected(ctx, &packet.tuple)
}

global!(
    /// A packet arrives with the addresses of an entry Forwarded: its client connects to the endpoint directly, from the
    /// port of its connection to a Service. While that one is open, the direct connection gets another source port.
    /// `request` becomes the key of its Request.
    pub fn arrives(ctx, packet: &Packet, request: &mut Tuple, to: &mut Tuple, forwarded: &Flow) -> Way =
        arrives_body else Way::Pass
);

#[inline(always)]
fn arrives_body(
    ctx: &TcContext,
    packet: &Packet,
    request: &mut Tuple,
    to: &mut Tuple,
    forwarded: &Flow,
) -> Way {
    if arrived_before(ctx) {
        return Way::Pass;
    }
    match beside(packet, request, to, forwarded) {
        // The first packet of the connection to the Service, which came by way of an interface that the programs do not know.
        Way::Opens if has_opened(ctx, packet, to) => Way::Pass,
        way => way,
    }
}

global!(
    /// A socket of the node sends a packet with the addresses of an entry Forwarded: as in [`arrives`]. `key` becomes the
    /// key of its entry Direct.
    pub fn leaves_beside(packet: &Packet, key: &mut Tuple, to: &mut Tuple, forwarded: &Flow) -> Way =
        beside else Way::Pass
);

/// Whether a packet that leaves opens another direct connection from the port of one whose entry Direct is `direct`. That
/// one's port may be another's by now. If it is not, it is given back.
#[inline(always)]
pub fn begins_anew(packet: &Packet, direct: &Flow) -> bool {
    const BEGUN: u8 = flow_flags::FIN | flow_flags::RST | flow_flags::ESTABLISHED;
    packet.protocol() == TCP
        && packet.opens()
        && direct.flags & BEGUN != 0
        && give_back(&packet.tuple, direct)
}

global!(
    /// Gives the port of a direct connection back, unless another one has it. True.
    fn give_back(tuple: &Tuple, direct: &Flow) -> bool = give_back_body else true
);

#[inline(always)]
fn give_back_body(tuple: &Tuple, direct: &Flow) -> bool {
    let mut answer = *tuple;
    direct.rewrite(&mut answer);
    answer = answer.reversed();
    let is_its_own = flow::find(&answer).is_some_and(|it| {
        it.kind == FlowKind::Unmasquerade as u8
            && it.destination == tuple.source
            && it.destination_port == tuple.source_port
    });
    if is_its_own {
        flow::forget(&answer);
    }
    flow::forget(tuple);
    true
}

/// A later packet of a direct connection leaves.
#[inline(always)]
pub fn leaves_again(ctx: &TcContext, direct: &mut Flow, packet: &Packet, to: &mut Tuple) -> Way {
    renew(ctx, packet, to, direct);
    Way::Known
}

/// Whose a packet is that has the addresses of an entry Forwarded and is not of its connection. `key` becomes the key of
/// the first entry of its own.
#[inline(always)]
fn beside(packet: &Packet, key: &mut Tuple, to: &mut Tuple, forwarded: &Flow) -> Way {
    let opens = packet.opens();
    if packet.protocol() == TCP && opens && gives_way(packet, to, forwarded) {
        return Way::Pass;
    }
    key.set(&packet.tuple);
    key.protocol |= Tuple::BESIDE;
    match flow::find_copy(key) {
        Some(known) if !(opens && flow::is_closed(known)) => Way::Known,
        _ if opens => Way::Opens,
        _ => Way::Pass,
    }
}

/// Whether an endpoint answers the SYN of a connection to a Service as a packet of another connection (RFC 9293,
/// 3.10.7.4): its client had dialled the endpoint itself from this port before, which no entry told. That one keeps the
/// port, with `reply` as its entry Direct. The one to the Service is forgotten, and gets another port with its next SYN.
/// `to` becomes what this one packet is rewritten to: a client that gets it, as an answer to its SYN, resets what the
/// frontend seems to have, which goes nowhere, and sends the SYN again at once (`tcp_rcv_synsent_state_process`).
#[inline(always)]
pub fn was_before(ctx: &TcContext, packet: &Packet, reply: &mut Flow, to: &mut Tuple) -> bool {
    reply.kind == FlowKind::Reply as u8
        && reply.window == 0
        && packet.protocol() == TCP
        && packet.has_ports
        && packet.flags & (SYN | RST | ACK) == ACK
        && !source::was_foreign(ctx, packet)
        && answers_another(packet, reply, to)
}

global!(
    /// See [`was_before`].
    fn answers_another(packet: &Packet, reply: &mut Flow, to: &mut Tuple) -> bool = answers_another_body else false
);

#[inline(always)]
fn answers_another_body(packet: &Packet, reply: &mut Flow, to: &mut Tuple) -> bool {
    to.set_reversed(&packet.tuple);
    // One that is to be masqueraded where it leaves keeps its port to an endpoint of the node itself.
    let keeps_port = flow::find_copy(to).is_some_and(|it| {
        it.flags & flow_flags::ESTABLISHED == 0
            && it.source == to.source
            && it.source_port == to.source_port
    });
    let forwarded = *to;
    reply.rewrite(to);
    let key = to.reversed();
    let Some(request) = flow::find(&key) else {
        return false;
    };
    // It has sent its SYN alone, and this packet does not acknowledge that.
    let has_sent_syn = request.kind == FlowKind::Request as u8
        && has_syn_alone(request)
        && packet.acknowledged != request.end;
    if !keeps_port || !has_sent_syn {
        return false;
    }
    flow::forget(&key);
    flow::forget(&forwarded);
    reply.lead_to(&packet.tuple);
    reply.kind = FlowKind::Direct as u8;
    reply.flags = 0;
    reply.service = 0;
    true
}

/// A packet without an entry leaves, and opens a connection. `key` becomes the key of its entry Direct, if it needs one.
///
/// Only what leaves from an address of the node and from certain ports is looked at: those that a frontend has, whose
/// answers would be taken for requests, and those that others may have been given, whose answers it would get.
#[inline(always)]
pub fn leaves(ctx: &TcContext, packet: &Packet, key: &mut Tuple) -> Way {
    let Tuple {
        source,
        source_port: port,
        ..
    } = &packet.tuple;
    if (port::is_for_others(*port) || service::is_frontends(*port))
        && (from_socket(ctx) || is_own(source))
    {
        leaves_node(ctx, packet, key)
    } else {
        Way::Unknown
    }
}

global!(
    /// See [`leaves`].
    fn leaves_node(ctx, packet: &Packet, key: &mut Tuple) -> Way = leaves_node_body else Way::Unknown
);

#[inline(always)]
fn leaves_node_body(ctx: &TcContext, packet: &Packet, key: &mut Tuple) -> Way {
    let tuple = &packet.tuple;
    let is_frontend = !node_flag(node_flags::WAITS)
        && service::frontend(&tuple.source, tuple.source_port, packet.protocol()).is_some();
    if !(is_frontend || port::is_for_others(tuple.source_port)) || left_before(ctx) {
        return Way::Unknown;
    }
    let Some(Draft { answer, flow }) = draft() else {
        return Way::Unknown;
    };
    key.set(tuple);
    answer.set_reversed(tuple);
    if let Some(held) = flow::find(answer) {
        if held.kind == FlowKind::Direct as u8 {
            flow::touch(held, packet);
            // The answers have numbers of their own once more.
            held.window = 0;
            return Way::Unknown;
        }
        if held.kind != FlowKind::Unmasquerade as u8 || held.flags & flow_flags::NETFILTER != 0 {
            return Way::Unknown;
        }
        if !flow::has_ended(answer, held) {
            return Way::Opens;
        }
        flow::forget(answer);
    }
    if is_frontend {
        flow::enter_passing(answer, flow);
    }
    Way::Unknown
}
