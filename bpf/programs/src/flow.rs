//! Connections: their entries in FLOWS.

use aya_ebpf::bindings::{BPF_ANY, BPF_NOEXIST};
use aya_ebpf::helpers::generated::bpf_ktime_get_coarse_ns;
use aya_ebpf::programs::TcContext;
use sluice_bpf_abi::{Addr, Counter, Flow, FlowKind, STREAM_SECONDS, TCP, Tuple, UDP, flow_flags};

use crate::global::global;
use crate::maps::{ALLOWANCES, Draft, FLOWS, INTERFACES, draft, node};
use crate::origin::ifindex;
use crate::packet::{ACK, FIN, Packet, RST, SYN};
use crate::service::family;
use crate::{lookup, port, window};

/// The error of a key that has an entry (`EEXIST`). All others of a hash map mean that it is full, or that there is no memory.
pub const IS_THERE: i32 = -17;

/// Fills an entry that was just made.
trait Begin {
    /// Makes the entry one of this kind, whose packets get these addresses and ports: no flags, no numbers, no service port.
    fn begin(&mut self, to: &Tuple, kind: FlowKind);
}

impl Begin for Flow {
    #[inline(always)]
    fn begin(&mut self, to: &Tuple, kind: FlowKind) {
        self.lead_to(to);
        self.kind = kind as u8;
        self.flags = 0;
        self.service = 0;
        self.seen_seconds = now();
        self.scale = 0;
        self.unchecked_reset = 0;
        self.end = 0;
        self.ack = 0;
        self.window = 0;
    }
}

/// Copies an entry field by field: for an assignment between maps the compiler would call `memmove`.
#[inline(always)]
pub fn copy(to: &mut Flow, from: &Flow) {
    to.source.set(&from.source);
    to.destination.set(&from.destination);
    to.source_port = from.source_port;
    to.destination_port = from.destination_port;
    to.kind = from.kind;
    to.flags = from.flags;
    to.scale = from.scale;
    to.unchecked_reset = from.unchecked_reset;
    to.service = from.service;
    to.seen_seconds = from.seen_seconds;
    window::copy(to, from);
}

/// Seconds since the machine started.
#[inline(always)]
pub fn now() -> u32 {
    // SAFETY: the helper has no arguments.
    (unsafe { bpf_ktime_get_coarse_ns() } / 1_000_000_000) as u32
}

/// The entry of a packet's addresses and ports.
#[inline(always)]
pub fn find(tuple: &Tuple) -> Option<&'static mut Flow> {
    // SAFETY: fields are written one by one; what packets on two CPUs write at once is the same but for
    // flags and seconds, where the loss of one write delays a timeout.
    FLOWS.get_ptr_mut(tuple).map(|it| unsafe { &mut *it })
}

/// Whether the connection of an entry has ended.
#[inline(always)]
pub fn is_closed(flow: &Flow) -> bool {
    flow.flags & (flow_flags::FIN | flow_flags::RST) != 0
}

/// A connection that one side has ended has no other side any more after this many seconds without a packet
/// (`nf_conntrack_tcp_timeout_fin_wait`).
const HALF_ENDED: u32 = 120;

/// Whether a connection has ended that has these two entries, one of each direction: both sides have ended it, or one has
/// reset it, or it is long ago that one has ended it.
#[inline(always)]
pub fn have_ended(one: &Flow, other: &Flow) -> bool {
    let (any, both) = (one.flags | other.flags, one.flags & other.flags);
    let since = |it: &Flow| now().wrapping_sub(it.seen_seconds);
    any & flow_flags::RST != 0
        || both & flow_flags::FIN != 0
        || any & flow_flags::FIN != 0 && since(one).min(since(other)) >= HALF_ENDED
}

/// As [`find`], where the verifier does not know that the tuple is of a map: Linux 6.1 takes no other memory as a key.
#[inline(always)]
pub fn find_copy(tuple: &Tuple) -> Option<&'static mut Flow> {
    let key = *tuple;
    find(&key)
}

global!(
    /// Whether the connection has ended that an entry for answers is of, or was forgotten but for this entry. Netfilter
    /// says itself when its own have.
    pub fn has_ended(answer: &Tuple, held: &Flow) -> bool = has_ended_body else false
);

#[inline(always)]
fn has_ended_body(answer: &Tuple, held: &Flow) -> bool {
    if held.flags & flow_flags::NETFILTER != 0 {
        return false;
    }
    if held.kind == FlowKind::Direct as u8 {
        return is_closed(held);
    }
    // The packets that are answered.
    let mut asked = answer.reversed();
    if held.kind == FlowKind::Unmasquerade as u8 {
        held.rewrite_reversed(&mut asked);
    } else if held.kind != FlowKind::Reply as u8 {
        return false;
    }
    if held.flags & flow_flags::BESIDE != 0 {
        asked.protocol |= Tuple::BESIDE;
    }
    match find(&asked) {
        Some(it) => have_ended(held, it),
        // The other entries may be about to be written.
        None => held.seen_seconds != now(),
    }
}

/// Removes an entry.
#[inline(always)]
pub fn forget(tuple: &Tuple) {
    let key = *tuple;
    remove(&key);
}

/// As [`forget`], with a key that is in a map or on the stack.
#[inline(always)]
pub fn remove(key: &Tuple) {
    // Another CPU may have removed the entry already.
    let _ = FLOWS.remove(key);
}

/// Renews the time of an entry, and its flags from those of the packet, which is believed: see [`crate::window`].
#[inline(always)]
pub fn touch(flow: &mut Flow, packet: &Packet) {
    let now = now();
    let has_just_begun = packet.protocol() == UDP
        && flow.kind == FlowKind::Request as u8
        && flow.flags & flow_flags::ESTABLISHED == 0
        && now.wrapping_sub(flow.seen_seconds) < STREAM_SECONDS;
    if has_just_begun {
        return;
    }
    if flow.seen_seconds != now {
        flow.seen_seconds = now;
    }
    let mut flags = flow.flags;
    if packet.protocol() == TCP && packet.has_ports {
        // After a reset a packet, or a SYN from the same port, shows that the connection has not ended.
        flags &= match packet.flags & SYN {
            0 => !flow_flags::RST,
            _ => !(flow_flags::RST | flow_flags::FIN | flow_flags::ESTABLISHED),
        };
        if packet.flags & FIN != 0 {
            flags |= flow_flags::FIN;
        }
        if packet.flags & RST != 0 {
            flags |= flow_flags::RST;
        }
        if packet.flags & (SYN | ACK) == ACK {
            flags |= flow_flags::ESTABLISHED;
        }
    } else {
        flags |= flow_flags::ESTABLISHED;
    }
    if flags != flow.flags {
        flow.flags = flags;
    }
}

/// A connection before it is entered in FLOWS.
pub struct Connection {
    /// Address of the endpoint.
    pub endpoint: Addr,
    /// Port of the endpoint.
    pub port: u16,
    /// Id of the service port.
    pub service: u32,
    /// The endpoint's node, if the packets go there through the tunnel; else unspecified.
    pub node: Addr,
    /// Bits of [`flow_flags`] for all its entries.
    pub flags: u8,
    /// More bits of [`flow_flags`] for the entry Forwarded.
    pub forwarded: u8,
    /// The client's source port is in use: the connection gets another one.
    pub changes_port: bool,
    /// Why the connection is dropped or rejected, if it is.
    pub reason: Counter,
}

impl Connection {
    /// Makes it one whose endpoint is the destination of a packet.
    #[inline(always)]
    pub fn begin(&mut self, packet: &Packet) {
        self.endpoint.set(&packet.tuple.destination);
        self.port = packet.tuple.destination_port;
        self.service = 0;
        self.node.set(&Addr::ANY_V6);
        self.flags = 0;
        self.forwarded = 0;
        self.changes_port = false;
        self.reason = Counter::NoEndpoints;
    }
}

/// What became of a connection that was to be entered. It is returned in a register.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Entered {
    /// The connection has all its entries.
    Whole,
    /// FLOWS has no room for all its entries, and none of them is there.
    NoRoom,
    /// No source port is free for the connection.
    NoPort,
    /// The client has opened as many connections as it may.
    Limited,
}

impl Entered {
    /// Why the connection is refused, if it is.
    #[inline(always)]
    pub fn denial(self) -> Option<Counter> {
        match self {
            Self::Whole => None,
            Self::NoRoom => Some(Counter::FlowsFull),
            Self::NoPort => Some(Counter::NoSourcePort),
            Self::Limited => Some(Counter::ClientLimit),
        }
    }
}

/// Whether a client may open no connection more; counts this one if it may. The draft is overwritten.
#[inline(always)]
fn is_limited(client: &Addr) -> bool {
    let Some(Draft { answer, .. }) = draft() else {
        return false;
    };
    answer.source.set(client);
    let Some(allowance) = ALLOWANCES.get_ptr_mut(&answer.source) else {
        return false;
    };
    // SAFETY: the value is there while this program runs. Processors that count at once may let some more in.
    let allowance = unsafe { &mut *allowance };
    if now() >= allowance.until {
        return false;
    }
    let is_limited = allowance.left == 0;
    allowance.left = allowance.left.saturating_sub(1);
    is_limited
}

global!(
    /// Enters a connection, whose packets from the client to the frontend are `request`. `to` becomes the addresses and ports
    /// that they are rewritten to.
    ///
    /// Two connections of one client port to one endpoint, by way of two frontends, cannot be told apart by their
    /// replies: the second gets another source port.
    pub fn enter(ctx, connection: &Connection, request: &Tuple, to: &mut Tuple) -> Entered = enter_body else Entered::NoRoom
);

#[inline(always)]
fn enter_body(
    ctx: &TcContext,
    connection: &Connection,
    request: &Tuple,
    to: &mut Tuple,
) -> Entered {
    if is_limited(&request.source) {
        return Entered::Limited;
    }
    to.source.set(&request.source);
    to.destination.set(&connection.endpoint);
    to.source_port = request.source_port;
    to.destination_port = connection.port;
    to.protocol = request.protocol & Tuple::PROTOCOL;
    // Replies to a packet that goes through the tunnel do not come back this way.
    let has_replies = connection.node == Addr::ANY_V6;
    if has_replies {
        let replies = enter_replies(ctx, connection, request, to);
        if replies != Entered::Whole {
            return replies;
        }
    }
    // A key is in a map, or on the stack, which has no room for it.
    let Some(Draft { answer: key, flow }) = draft() else {
        return Entered::NoRoom;
    };
    flow.begin(to, FlowKind::Forwarded);
    flow.flags = connection.flags | connection.forwarded;
    flow.service = connection.service;
    if !has_replies {
        flow.flags |= flow_flags::DSR;
        flow.destination.set(&connection.node);
    }
    key.set(to);
    if FLOWS.insert(&*key, &*flow, u64::from(BPF_ANY)).is_ok() {
        flow.kind = FlowKind::Request as u8;
        flow.flags &= !flow_flags::MASQUERADE;
        flow.destination.set(&to.destination);
        key.set(request);
        if FLOWS.insert(&*key, &*flow, u64::from(BPF_ANY)).is_ok() {
            return Entered::Whole;
        }
        remove(key);
        key.set(to);
        remove(key);
    }
    if has_replies {
        key.set_reversed(to);
        remove(key);
    }
    Entered::NoRoom
}

/// Enters the entry Reply. If its key is of another connection, or of a socket of the node that dialled the endpoint
/// itself, this one gets another source port.
#[inline(always)]
fn enter_replies(
    ctx: &TcContext,
    connection: &Connection,
    request: &Tuple,
    to: &mut Tuple,
) -> Entered {
    let Some(draft) = draft() else {
        return Entered::NoRoom;
    };
    draft.answer.set_reversed(request);
    draft.flow.begin(&draft.answer, FlowKind::Reply);
    draft.answer.set_reversed(to);
    draft.flow.flags = connection.flags;
    draft.flow.service = connection.service;
    let is_of_node = connection.flags & flow_flags::NODE_CLIENT != 0;
    let changes_port =
        connection.changes_port || (is_of_node && lookup::is_connected(ctx, &draft.answer));
    if !changes_port {
        let entered = enter_reply(draft);
        if entered != Entered::NoPort {
            return entered;
        }
    }
    let (taken, port) = port::take(ctx);
    to.source_port = port;
    taken
}

/// Enters the entry Reply if its key is free, has the same value, or is of a connection that has ended. Netfilter
/// remembers its own for longer: it gives another source port to a connection with the same reply.
#[inline(always)]
fn enter_reply(draft: &mut Draft) -> Entered {
    let Draft {
        answer,
        flow: reply,
    } = draft;
    match FLOWS.insert(&*answer, &*reply, u64::from(BPF_NOEXIST)) {
        Ok(()) => return Entered::Whole,
        Err(IS_THERE) => {}
        Err(_) => return Entered::NoRoom,
    }
    let Some(held) = find(answer) else {
        return Entered::NoPort;
    };
    let is_same = held.kind == reply.kind
        && held.source == reply.source
        && held.destination == reply.destination
        && held.source_port == reply.source_port
        && held.destination_port == reply.destination_port;
    if held.flags & flow_flags::NETFILTER != 0 || !(is_same || has_ended(answer, held)) {
        return Entered::NoPort;
    }
    match FLOWS.insert(&*answer, &*reply, u64::from(BPF_ANY)) {
        Ok(()) => Entered::Whole,
        Err(_) => Entered::NoRoom,
    }
}

global!(
    /// Chooses address and port that masquerade a connection where it leaves, and enters the way back.
    pub fn masquerade(ctx, tuple: &Tuple, forwarded: &mut Flow) -> Entered = masquerade_body else Entered::NoPort
);

#[inline(always)]
fn masquerade_body(ctx: &TcContext, tuple: &Tuple, forwarded: &mut Flow) -> Entered {
    let Some(Draft { answer, flow }) = draft() else {
        return Entered::NoRoom;
    };
    answer.set_reversed(tuple);
    let Some(reply) = find(answer) else {
        return Entered::NoPort;
    };
    flow.begin(answer, FlowKind::Unmasquerade);
    // A reply that leaves again is rewritten once more, to come from the frontend. One that is delivered to
    // this node leaves nowhere, so it is rewritten at once.
    if forwarded.flags & flow_flags::NODE_CLIENT != 0 {
        flow.source.set(&reply.source);
        flow.destination.set(&reply.destination);
        flow.source_port = reply.source_port;
        flow.destination_port = reply.destination_port;
    }
    flow.flags = reply.flags;
    flow.service = reply.service;
    if !masquerading(&mut answer.destination, ifindex(ctx)) {
        return Entered::NoPort;
    }
    let source = answer.destination;
    if source != tuple.source {
        let (taken, port) = port::take(ctx);
        if taken == Entered::NoRoom {
            forget_connection(tuple);
        }
        if taken != Entered::Whole {
            return taken;
        }
        forwarded.source.set(&source);
        forwarded.source_port = port;
    }
    forwarded.flags &= !flow_flags::MASQUERADE;
    Entered::Whole
}

/// Removes the entries of a connection that is not masqueraded yet, whose entry Forwarded has this key.
#[inline(always)]
fn forget_connection(forwarded: &Tuple) {
    let Some(Draft { answer: key, .. }) = draft() else {
        return;
    };
    key.set_reversed(forwarded);
    if let Some(reply) = find(key) {
        reply.rewrite_reversed(key);
        // The request.
        remove(key);
        key.set_reversed(forwarded);
        remove(key);
    }
    key.set(forwarded);
    remove(key);
}

global!(
    /// Enters a connection of no Service, which gets another source port where it leaves, since its own is taken: `key` is
    /// of its packets, perhaps with [`Tuple::BESIDE`], and `to` becomes what they are rewritten to.
    pub fn enter_direct(ctx, key: &Tuple, to: &mut Tuple) -> Entered = enter_direct_body else Entered::NoRoom
);

#[inline(always)]
fn enter_direct_body(ctx: &TcContext, key: &Tuple, to: &mut Tuple) -> Entered {
    let Some(Draft { answer, flow }) = draft() else {
        return Entered::NoRoom;
    };
    to.set(key);
    to.protocol &= Tuple::PROTOCOL;
    answer.set_reversed(to);
    flow.begin(answer, FlowKind::Unmasquerade);
    if key.protocol & Tuple::BESIDE != 0 {
        flow.flags = flow_flags::BESIDE;
    }
    let (taken, port) = port::take(ctx);
    if taken != Entered::Whole {
        return taken;
    }
    to.source_port = port;
    let Some(Draft { answer, flow }) = draft() else {
        return Entered::NoRoom;
    };
    flow.begin(to, FlowKind::Direct);
    let key = *key;
    if FLOWS.insert(&key, &*flow, u64::from(BPF_ANY)).is_ok() {
        return Entered::Whole;
    }
    remove(answer);
    Entered::NoRoom
}

/// Enters packets that pass as they are: the answers of a connection of no Service that came from the port of a
/// frontend. An entry that is there stays.
#[inline(always)]
pub fn enter_passing(answer: &Tuple, flow: &mut Flow) {
    flow.begin(answer, FlowKind::Direct);
    // Without it the packets are looked for among frontends.
    let _ = FLOWS.insert(answer, &*flow, u64::from(BPF_NOEXIST));
}

/// Sets `addr` to the address of its family that masquerades packets which leave through an interface. False: there is
/// none.
#[inline(always)]
fn masquerading(addr: &mut Addr, ifindex: u32) -> bool {
    // SAFETY: the agent replaces whole values.
    let interface = unsafe { INTERFACES.get(&ifindex) };
    let own = interface.map_or(Addr::ANY_V6, |it| if addr.is_v4() { it.v4 } else { it.v6 });
    if own != Addr::ANY_V6 {
        addr.set(&own);
        return true;
    }
    let Some(node) = node() else {
        return false;
    };
    let own = &family(node, addr).node_ip;
    let is_known = *own != Addr::ANY_V4 && *own != Addr::ANY_V6;
    addr.set(own);
    is_known
}
