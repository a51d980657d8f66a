//! Connections: their entries in FLOWS.

use aya_ebpf::bindings::{BPF_ANY, BPF_NOEXIST};
use aya_ebpf::helpers::generated::{bpf_get_prandom_u32, bpf_ktime_get_coarse_ns};
use sluice_bpf_abi::{Addr, Counter, Flow, FlowKind, PortRange, TCP, Tuple, flow_flags};

use crate::global::global;
use crate::maps::{FLOWS, INTERFACES, node};
use crate::packet::{ACK, FIN, Packet, RST, SYN};
use crate::service::family;

/// How many source ports are tried before a connection is refused.
const ATTEMPTS: u32 = 16;

/// Seconds since the machine started.
#[inline(always)]
fn now() -> u32 {
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

/// As [`find`], where the verifier does not know that the tuple is of a map: Linux 6.1 takes no other memory as a key.
#[inline(always)]
pub fn find_copy(tuple: &Tuple) -> Option<&'static mut Flow> {
    let key = *tuple;
    find(&key)
}

/// Removes an entry.
#[inline(always)]
pub fn forget(tuple: &Tuple) {
    let key = *tuple;
    // It may be gone already.
    let _ = FLOWS.remove(&key);
}

/// Renews the time of an entry, and its flags from those of the packet.
#[inline(always)]
pub fn touch(flow: &mut Flow, packet: &Packet) {
    let now = now();
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

global!(
    /// Enters a connection, whose packets from the client to the frontend are `request`. `to` becomes the addresses and ports
    /// that they are rewritten to. False: the table took no entry, or no source port is free.
    ///
    /// Two connections of one client port to one endpoint, by way of two frontends, cannot be told apart by their
    /// replies: the second gets another source port.
    pub fn enter(connection: &Connection, request: &Tuple, to: &mut Tuple) -> bool = enter_body else false
);

#[inline(always)]
fn enter_body(connection: &Connection, request: &Tuple, to: &mut Tuple) -> bool {
    to.source.set(&request.source);
    to.destination.set(&connection.endpoint);
    to.source_port = request.source_port;
    to.destination_port = connection.port;
    to.protocol = request.protocol & Tuple::PROTOCOL;
    let mut flow = Flow {
        source: request.destination,
        destination: request.source,
        source_port: request.destination_port,
        destination_port: request.source_port,
        kind: FlowKind::Reply as u8,
        flags: connection.flags,
        padding: 0,
        service: connection.service,
        seen_seconds: now(),
    };
    // Replies to a packet that goes through the tunnel do not come back this way.
    if connection.node == Addr::ANY_V6 && !enter_replies(connection, to, &flow) {
        return false;
    }
    flow.source = to.source;
    flow.destination = to.destination;
    flow.source_port = to.source_port;
    flow.destination_port = to.destination_port;
    flow.kind = FlowKind::Forwarded as u8;
    flow.flags = connection.flags | connection.forwarded;
    if connection.node != Addr::ANY_V6 {
        flow.flags |= flow_flags::DSR;
        flow.destination = connection.node;
    }
    let key = *to;
    if FLOWS.insert(&key, &flow, u64::from(BPF_ANY)).is_err() {
        return false;
    }
    flow.kind = FlowKind::Request as u8;
    flow.flags &= !flow_flags::MASQUERADE;
    flow.destination = to.destination;
    let key = *request;
    FLOWS.insert(&key, &flow, u64::from(BPF_ANY)).is_ok()
}

/// Enters the entry Reply. If another connection has its key, this one gets another source port.
#[inline(always)]
fn enter_replies(connection: &Connection, to: &mut Tuple, flow: &Flow) -> bool {
    // The count begins with a constant. The verifier of Linux 6.1 forgets the value of a flag on the stack, and would not
    // see the end of a loop that begins with it.
    let mut attempt = 0;
    while attempt < ATTEMPTS {
        if attempt > 0 || connection.changes_port {
            match random_port() {
                Some(port) => to.source_port = port,
                None => return false,
            }
        }
        if enter_reply(&to.reversed(), flow) {
            return true;
        }
        attempt += 1;
    }
    false
}

/// Enters the entry Reply if its key is free, has the same value, or is of a connection that has ended. Netfilter
/// remembers its own for longer: it gives another source port to a connection with the same reply.
#[inline(always)]
fn enter_reply(key: &Tuple, reply: &Flow) -> bool {
    if FLOWS.insert(key, reply, u64::from(BPF_NOEXIST)).is_ok() {
        return true;
    }
    let Some(held) = find(key) else {
        return false;
    };
    let is_same = held.kind == reply.kind
        && held.source == reply.source
        && held.destination == reply.destination
        && held.source_port == reply.source_port
        && held.destination_port == reply.destination_port;
    let is_ours = held.flags & flow_flags::NETFILTER == 0;
    is_ours && (is_same || is_closed(held)) && FLOWS.insert(key, reply, u64::from(BPF_ANY)).is_ok()
}

global!(
    /// Chooses address and port that masquerade a connection where it leaves, and enters the way back. False: no
    /// port is free.
    pub fn masquerade(tuple: &Tuple, flow: &mut Flow, ifindex: u32) -> bool = masquerade_body else false
);

#[inline(always)]
fn masquerade_body(tuple: &Tuple, flow: &mut Flow, ifindex: u32) -> bool {
    let mut key = tuple.reversed();
    let Some(reply) = find(&key) else {
        return false;
    };
    let mut way_back = *reply;
    if !masquerading(&mut key.destination, ifindex) {
        return false;
    }
    if key.destination == tuple.source {
        flow.flags &= !flow_flags::MASQUERADE;
        return true;
    }
    way_back.kind = FlowKind::Unmasquerade as u8;
    // A reply that leaves again is rewritten once more, to come from the frontend. One that is delivered to
    // this node leaves nowhere, so it is rewritten at once.
    if flow.flags & flow_flags::NODE_CLIENT == 0 {
        way_back.source = tuple.destination;
        way_back.source_port = tuple.destination_port;
        way_back.destination = tuple.source;
        way_back.destination_port = tuple.source_port;
    }
    let mut attempt = 0;
    while attempt < ATTEMPTS {
        match random_port() {
            Some(port) => key.destination_port = port,
            None => return false,
        }
        if FLOWS
            .insert(&key, &way_back, u64::from(BPF_NOEXIST))
            .is_ok()
        {
            flow.source = key.destination;
            flow.source_port = key.destination_port;
            flow.flags &= !flow_flags::MASQUERADE;
            return true;
        }
        attempt += 1;
    }
    false
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

/// A port to masquerade with; `None` without settings.
#[inline(always)]
fn random_port() -> Option<u16> {
    let node = node()?;
    let [low, high] = &node.masquerade_ports;
    let total = size(low) + size(high);
    if total == 0 {
        return None;
    }
    // SAFETY: the helper has no arguments.
    let chosen = unsafe { bpf_get_prandom_u32() } % total;
    Some(if chosen < size(low) {
        low.first.wrapping_add(chosen as u16)
    } else {
        high.first.wrapping_add((chosen - size(low)) as u16)
    })
}

#[inline(always)]
fn size(range: &PortRange) -> u32 {
    (u32::from(range.last) + 1).saturating_sub(u32::from(range.first))
}
