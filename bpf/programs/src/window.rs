//! What a packet of TCP may say about its connection: only who is part of a connection may change or end what we know of
//! it.
//!
//! Anybody can send a packet with the addresses of others, but hardly with their sequence numbers. The kernel of the client
//! or the endpoint discards it then; these programs run before, so they ask what it will ask. A packet that is not believed
//! goes on as any other of its connection, and its receiver judges it: nothing that the entries hold changes.
//!
//! | packet | is believed |
//! | --- | --- |
//! | SYN | while no side has acknowledged anything |
//! | RST | at exactly the number that the other side acknowledged last (RFC 5961, 3.2), or at the end of what its own side sent |
//! | others | if both numbers fit what the other side has sent and offered (`tcp_in_window` of nf_conntrack) |
//!
//! A packet with SYN, RST or FIN needs right checksums, too. Each entry holds what its own direction has sent, and that is
//! enough for a packet that goes on where the last one ended. Others are compared with the entry of the answers.
//!
//! Where only one side is seen (the first node of direct server return, answers by another way), its own last numbers must
//! do. Where nothing is known (an entry of an earlier version, or of netfilter's, or a connection that began elsewhere), the
//! first packet without SYN or RST is believed; but of a client whose SYN was seen, none before the endpoint's answer. A
//! reset only shortens the time of the connection (`unchecked_reset`).

use aya_ebpf::programs::TcContext;
use sluice_bpf_abi::{Counter, Flow, FlowKind, TCP, Tuple, flow_flags};

use crate::global::global;
use crate::maps::count;
use crate::outcome::family_index;
use crate::packet::{ACK, FIN, Packet, RST, SYN, load};
use crate::{flow, sum};

/// How far a number may lie from the last one without a look at the other side: more than the largest packet has
/// (`MAXACKWINCONST` of nf_conntrack).
const NEAR: u32 = 66_000;
/// The same where the other side is not seen: packets before this one may have been lost.
const FAR: u32 = 1 << 20;
/// The window of a direction whose SYN was not seen, so that its scale is unknown.
const UNKNOWN_WINDOW: u32 = 1 << 23;
/// The largest scale (RFC 7323, 2.3).
const MAX_SCALE: u8 = 14;
/// How many options are read for the scale.
const OPTIONS: u32 = 16;
/// Length of the header of TCP without options.
const TCP_HEADER: u32 = 20;

/// Renews the entry of a packet of a known connection, if the packet is believed, which it returns. `to` becomes the
/// addresses and ports after the rewrite.
#[inline(always)]
pub fn renew(ctx: &TcContext, packet: &Packet, to: &mut Tuple, own: &mut Flow) -> bool {
    to.protocol = packet.tuple.protocol;
    own.rewrite(to);
    let is_believed = believes(ctx, packet, to, own);
    if is_believed {
        flow::touch(own, packet);
    }
    is_believed
}

/// Whether a packet is believed. Its entry learns its numbers. A packet of another protocol is.
#[inline(always)]
fn believes(ctx: &TcContext, packet: &Packet, to: &Tuple, own: &mut Flow) -> bool {
    if packet.protocol() != TCP {
        return true;
    }
    // A later fragment has no numbers; the first says what there is to say.
    if !packet.has_ports {
        return false;
    }
    if goes_on(packet, own) {
        learn(ctx, packet, own);
        return true;
    }
    let is_believed = judge(ctx, packet, to, own);
    if !is_believed {
        count(Counter::Unbelieved as u32 + family_index(packet));
    }
    is_believed
}

/// Enters the numbers of the first packet of a connection, whose entries are new.
#[inline(always)]
pub fn begin(ctx: &TcContext, packet: &Packet, request: &Tuple) {
    if packet.protocol() == TCP
        && packet.has_ports
        && let Some(own) = flow::find(request)
    {
        start(ctx, packet, own);
    }
}

/// Gives an entry the numbers of another one of the same direction.
#[inline(always)]
pub fn copy(to: &mut Flow, from: &Flow) {
    to.end = from.end;
    to.ack = from.ack;
    to.window = from.window;
}

/// Whether a packet goes on where the last one of its direction ended, or is one of the last once more.
#[inline(always)]
fn goes_on(packet: &Packet, own: &Flow) -> bool {
    packet.flags & (SYN | RST | FIN | ACK) == ACK
        && own.window != 0
        && own.flags & flow_flags::ESTABLISHED != 0
        && own.end.wrapping_sub(packet.sequence) <= NEAR
        && is_around(packet.acknowledged, own.ack, NEAR)
}

/// Whether a packet's number lies near those that its direction has sent: another connection's hardly do.
#[inline(always)]
pub fn is_near(packet: &Packet, own: &Flow) -> bool {
    is_around(packet.sequence, own.end, FAR)
}

/// Whether a direction has sent its SYN alone.
#[inline(always)]
pub fn has_syn_alone(own: &Flow) -> bool {
    own.window != 0 && own.ack == 0
}

/// Whether a number lies around another one.
#[inline(always)]
fn is_around(number: u32, of: u32, distance: u32) -> bool {
    number.wrapping_sub(of).wrapping_add(distance) <= 2 * distance
}

/// Whether a number lies behind another one. Numbers wrap around.
#[inline(always)]
fn is_after(number: u32, other: u32) -> bool {
    (other.wrapping_sub(number) as i32) < 0
}

global!(
    /// Judges every packet that does not merely continue its connection.
    fn judge(ctx, packet: &Packet, to: &Tuple, own: &mut Flow) -> bool = judge_body else false
);

#[inline(always)]
fn judge_body(ctx: &TcContext, packet: &Packet, to: &Tuple, own: &mut Flow) -> bool {
    if packet.flags & (SYN | RST | FIN) != 0 && !sum::is_right(ctx, packet) {
        return false;
    }
    let other = find_other(packet, to, own);
    match other {
        _ if packet.flags & SYN != 0 => {
            opens(packet, own, other) && {
                start(ctx, packet, own);
                true
            }
        }
        _ if packet.flags & RST != 0 => ends(packet, own, other.as_deref()),
        // RFC 9293, 3.4: every packet of an open connection acknowledges.
        _ if packet.flags & ACK == 0 => false,
        Some(other) if other.window != 0 => {
            fits(packet, own, other) && {
                learn_or_start(ctx, packet, own);
                true
            }
        }
        // Else two forged packets would open a connection for a day.
        Some(other) if is_unanswered(own, other) => false,
        _ => {
            fits_alone(packet, own) && {
                learn_or_start(ctx, packet, own);
                true
            }
        }
    }
}

/// The entry of the packets that answer this one.
#[inline(always)]
fn find_other(packet: &Packet, to: &Tuple, own: &Flow) -> Option<&'static mut Flow> {
    let mut key = to.reversed();
    // Of a direct connection beside one to a Service, the answers come from the address that the client dialled.
    let is_beside = match own.kind {
        kind if kind == FlowKind::Reply as u8 => {
            to.source == packet.tuple.source && to.source_port == packet.tuple.source_port
        }
        kind if kind == FlowKind::Unmasquerade as u8 => own.flags & flow_flags::BESIDE != 0,
        _ => false,
    };
    if is_beside {
        key.protocol |= Tuple::BESIDE;
    }
    flow::find(&key)
}

/// Whether a SYN is believed: no side has acknowledged anything yet. The first acceptance of another SYN than the last one that
/// was seen tells that this one was somebody else's: nothing is known of the client then, until its next packet.
#[inline(always)]
fn opens(packet: &Packet, own: &Flow, other: Option<&mut Flow>) -> bool {
    let is_open = |it: &Flow| it.flags & flow_flags::ESTABLISHED != 0;
    if packet.flags & (RST | FIN) != 0 || is_open(own) || other.as_deref().is_some_and(is_open) {
        return false;
    }
    match other {
        Some(other) if other.window != 0 && packet.flags & ACK != 0 => {
            let fits = other.end.wrapping_sub(packet.acknowledged) <= NEAR;
            let is_first = own.window == 0;
            if !fits && is_first {
                other.window = 0;
            }
            fits || is_first
        }
        _ => true,
    }
}

/// Whether a reset is believed. One that nothing here can check is written down.
#[inline(always)]
fn ends(packet: &Packet, own: &mut Flow, other: Option<&Flow>) -> bool {
    let has_ack = packet.flags & ACK != 0;
    let is_at_end = own.window != 0 && packet.sequence == own.end;
    let ends = match other {
        Some(other) if other.window != 0 => {
            // The packet answers a SYN, or another first packet.
            let answers = own.window == 0 && has_ack && packet.acknowledged == other.end;
            answers || is_at_end || other.ack != 0 && packet.sequence == other.ack
        }
        _ => {
            is_at_end
                || own.flags & flow_flags::ESTABLISHED != 0
                    && own.window != 0
                    && has_ack
                    && is_around(packet.sequence, own.end, NEAR)
                    && is_around(packet.acknowledged, own.ack, NEAR)
        }
    };
    let is_known = |it: &Flow| it.window != 0;
    if !ends && !is_known(own) && !other.is_some_and(is_known) {
        own.unchecked_reset = 1;
    }
    ends
}

/// Whether a packet's numbers fit what the other side has sent and offered.
#[inline(always)]
fn fits(packet: &Packet, own: &Flow, other: &Flow) -> bool {
    let behind = other.window.max(NEAR);
    let is_in_window = if other.ack == 0 {
        // The other side has sent its SYN alone.
        own.window == 0 || is_around(packet.sequence, own.end, NEAR)
    } else {
        let ahead = packet.sequence.wrapping_sub(other.ack);
        ahead.wrapping_add(behind) <= behind + other.window
    };
    // What was not sent cannot be acknowledged, and what was acknowledged long ago is not.
    is_in_window && other.end.wrapping_sub(packet.acknowledged) <= own.window.max(NEAR)
}

/// Whether the client alone has sent anything yet, and the answers come this way.
#[inline(always)]
fn is_unanswered(own: &Flow, other: &Flow) -> bool {
    let is_clients = own.kind == FlowKind::Request as u8 || own.kind == FlowKind::Forwarded as u8;
    let is_open = flow_flags::ESTABLISHED | flow_flags::NETFILTER | flow_flags::DSR;
    is_clients && own.window != 0 && own.flags & is_open == 0 && other.window == 0
}

/// Whether a packet's numbers fit those of its own side: the other is not seen.
#[inline(always)]
fn fits_alone(packet: &Packet, own: &Flow) -> bool {
    own.window == 0
        || is_around(packet.sequence, own.end, FAR)
            && (own.flags & flow_flags::ESTABLISHED == 0
                || is_around(packet.acknowledged, own.ack, FAR))
}

#[inline(always)]
fn learn_or_start(ctx: &TcContext, packet: &Packet, own: &mut Flow) {
    if own.window == 0 {
        start(ctx, packet, own);
    } else {
        learn(ctx, packet, own);
    }
}

/// Takes the numbers of a packet that is believed. Each is written only if it changes.
#[inline(always)]
fn learn(ctx: &TcContext, packet: &Packet, own: &mut Flow) {
    // The SYN before may have been another's.
    let is_first = own.flags & flow_flags::ESTABLISHED == 0;
    let end = end(ctx, packet);
    if is_first || is_after(end, own.end) {
        own.end = end;
    }
    let acknowledged = packet.acknowledged;
    if is_first || is_after(acknowledged, own.ack) {
        own.ack = acknowledged;
    }
    let window = u32::from(packet.window) << (own.scale & 15);
    if window > own.window {
        own.window = window;
    }
    if own.unchecked_reset != 0 {
        own.unchecked_reset = 0;
    }
}

/// Takes the numbers of the first packet of a direction.
#[inline(always)]
fn start(ctx: &TcContext, packet: &Packet, own: &mut Flow) {
    own.end = end(ctx, packet);
    own.ack = if packet.flags & ACK != 0 {
        packet.acknowledged
    } else {
        0
    };
    if packet.flags & SYN != 0 {
        own.window = u32::from(packet.window).max(1);
        own.scale = scale(ctx, packet) as u8;
    } else {
        own.window = UNKNOWN_WINDOW;
        own.scale = 0;
    }
    own.unchecked_reset = 0;
}

/// The sequence number behind a packet.
#[inline(always)]
pub fn end(ctx: &TcContext, packet: &Packet) -> u32 {
    let payload = packet.payload(ctx);
    let marks = packet.flags & (SYN | FIN);
    let marks = u32::from(marks & SYN != 0) + u32::from(marks & FIN != 0);
    packet.sequence.wrapping_add(payload).wrapping_add(marks)
}

global!(
    /// The scale that a SYN offers (RFC 7323, 2.2); 0 without.
    fn scale(ctx, packet: &Packet) -> u32 = scale_body else 0
);

#[inline(always)]
fn scale_body(ctx: &TcContext, packet: &Packet) -> u32 {
    const END: u8 = 0;
    const NOTHING: u8 = 1;
    const SCALE: u8 = 3;
    let end = packet.transport + packet.header;
    let mut at = packet.transport + TCP_HEADER;
    let mut option = 0;
    while option < OPTIONS && at < end {
        let [kind, length, value]: [u8; 3] = match load(ctx, at) {
            Some(read) => read,
            None => return 0,
        };
        at += match kind {
            END => return 0,
            NOTHING => 1,
            SCALE => return value.min(MAX_SCALE).into(),
            _ => u32::from(length).max(2),
        };
        option += 1;
    }
    0
}
