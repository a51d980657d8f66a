//! ICMP errors about packets of Services: an endpoint's "port unreachable", a router's "fragmentation
//! needed". They repeat the packet that they are about, with the addresses that it had there.

use aya_ebpf::bindings::{BPF_F_PSEUDO_HDR, TC_ACT_SHOT, TC_ACT_UNSPEC};
use aya_ebpf::programs::TcContext;
use sluice_bpf_abi::{Addr, EventKind, Flow, FlowKind, Hook, Tuple, flow_flags};

use crate::event::{self, Action};
use crate::global::global;
use crate::origin::ifindex;
use crate::outcome::{is_routed_again, route_again};
use crate::packet::{Packet, load, network_offset, parse};
use crate::path::applies;
use crate::rewrite::{End, ipv6_flag, store, store_addr};
use crate::{flow, sum, tunnel};

global!(
    /// Rewrites an ICMP error about a packet of a known connection. Other ICMP packets pass.
    pub fn translate(ctx, packet: &Packet, about: &mut Packet, to: &mut Tuple, hook: Hook) -> i32 = translate_body else TC_ACT_UNSPEC
);

#[inline(always)]
fn translate_body(
    ctx: &TcContext,
    packet: &Packet,
    about: &mut Packet,
    to: &mut Tuple,
    hook: Hook,
) -> i32 {
    if !read_about(ctx, packet, about) {
        return TC_ACT_UNSPEC;
    }
    // The error goes the way of the replies to the packet.
    let answer = about.tuple.reversed();
    let Some(known) = flow::find(&answer) else {
        return TC_ACT_UNSPEC;
    };
    // What leaves through the tunnel was rewritten when it arrived.
    if known.flags & flow_flags::NETFILTER != 0
        || !applies(known, hook)
        || (is_tunnelled(known) && hook == Hook::Egress)
    {
        return TC_ACT_UNSPEC;
    }
    to.protocol = answer.protocol;
    known.rewrite(to);
    let action = Action {
        hook,
        kind: EventKind::Rewritten,
        ifindex: ifindex(ctx),
        service: known.service,
        counter: 0,
    };
    event::record(&action, &packet.tuple, to);
    match rewrite(ctx, packet, about, &answer, to) {
        // Its source is the frontend now, whose route does not lead to where the error came from.
        Some(()) if is_routed_again(known, hook) => route_again(ctx),
        // It goes the way of the packets that it answers: the endpoint is another node's.
        Some(()) if is_tunnelled(known) => match flow::find_copy(to) {
            Some(forwarded) => tunnel::send(ctx, &answer, &forwarded.destination),
            None => TC_ACT_SHOT,
        },
        Some(()) => TC_ACT_UNSPEC,
        None => TC_ACT_SHOT,
    }
}

/// Whether the packets of an entry go through the tunnel. Read anew each time, as in [`is_routed_again`].
#[inline(always)]
fn is_tunnelled(flow: &Flow) -> bool {
    // SAFETY: this is a reference.
    let flags = unsafe { (&raw const flow.flags).read_volatile() };
    flags & flow_flags::DSR != 0
}

global!(
    /// Whether a packet of ICMP is an error about what an endpoint of this node sent to a client whose packets come through
    /// the tunnel: about a connection that this node has.
    pub fn is_about_endpoint(ctx, packet: &Packet, about: &mut Packet) -> bool = is_about_endpoint_body else false
);

#[inline(always)]
fn is_about_endpoint_body(ctx: &TcContext, packet: &Packet, about: &mut Packet) -> bool {
    if !read_about(ctx, packet, about) {
        return false;
    }
    flow::find(&about.tuple.reversed())
        .is_some_and(|it| it.kind == FlowKind::Forwarded as u8 && !is_tunnelled(it))
}

/// Reads the packet that an ICMP error is about. False: it is no error, or one about ICMP, or it cannot be read.
#[inline(always)]
fn read_about(ctx: &TcContext, packet: &Packet, about: &mut Packet) -> bool {
    let Some(kind) = load::<u8>(ctx, packet.transport) else {
        return false;
    };
    let is_error = if packet.is_v4 {
        // Unreachable, time exceeded, parameter problem.
        matches!(kind, 3 | 11 | 12)
    } else {
        // Unreachable, packet too big, time exceeded, parameter problem.
        matches!(kind, 1..=4)
    };
    is_error && parse(ctx, about, packet.transport + 8) && !about.is_icmp
}

/// `answer`: addresses of a reply to the packet inside, as it would arrive; `to`: as it would go on.
#[inline(always)]
fn rewrite(
    ctx: &TcContext,
    packet: &Packet,
    about: &Packet,
    answer: &Tuple,
    to: &Tuple,
) -> Option<()> {
    let network = network_offset(ctx);
    let message = Message {
        is_v4: packet.is_v4,
        network,
        checksum: (network + packet.transport + 2) as usize,
        about: network + packet.transport + 8,
    };
    // The packet inside has the addresses of the reply the other way round.
    message.replace_inside(ctx, &answer.destination, &to.destination, End::Source)?;
    message.replace_inside(ctx, &answer.source, &to.source, End::Destination)?;
    if about.has_ports {
        let ports = network + about.transport;
        let (from, new) = (answer.destination_port, to.destination_port);
        message.replace_port(ctx, ports, from, new)?;
        let (from, new) = (answer.source_port, to.source_port);
        message.replace_port(ctx, ports + 2, from, new)?;
    }
    // The error itself goes to the client. If the endpoint sends it, the frontend does.
    let outer = &packet.tuple;
    if outer.destination == answer.destination {
        message.replace_outside(ctx, &outer.destination, &to.destination, End::Destination)?;
    }
    if outer.source == answer.source {
        message.replace_outside(ctx, &outer.source, &to.source, End::Source)?;
    }
    Some(())
}

/// Where the parts of an ICMP error are, from the start of the packet.
struct Message {
    is_v4: bool,
    /// Offset of the outer IP header.
    network: u32,
    /// Offset of the message's checksum.
    checksum: usize,
    /// Offset of the inner IP header.
    about: u32,
}

impl Message {
    /// Replaces an address of the inner header. In IPv4 that header's own checksum changes by as much in the opposite
    /// direction, so the checksum of the message stays.
    #[inline(always)]
    fn replace_inside(&self, ctx: &TcContext, from: &Addr, to: &Addr, end: End) -> Option<()> {
        if from == to {
            return Some(());
        }
        if !self.is_v4 {
            ctx.l4_csum_replace(self.checksum, 0, sum::difference_of(from, to).into(), 0)
                .ok()?;
        }
        store_addr(ctx, self.is_v4, self.about, from, to, end)
    }

    #[inline(always)]
    fn replace_port(&self, ctx: &TcContext, offset: u32, from: u16, to: u16) -> Option<()> {
        if from == to {
            return Some(());
        }
        let (old, new) = (from.to_be(), to.to_be());
        ctx.l4_csum_replace(self.checksum, old.into(), new.into(), 2)
            .ok()?;
        store(ctx, offset, &new)
    }

    /// Replaces an address of the outer header. ICMPv6's checksum covers it, ICMP's does not.
    #[inline(always)]
    fn replace_outside(&self, ctx: &TcContext, from: &Addr, to: &Addr, end: End) -> Option<()> {
        if from == to {
            return Some(());
        }
        if !self.is_v4 {
            let flags = u64::from(BPF_F_PSEUDO_HDR) | ipv6_flag();
            ctx.l4_csum_replace(self.checksum, 0, sum::difference_of(from, to).into(), flags)
                .ok()?;
        }
        store_addr(ctx, self.is_v4, self.network, from, to, end)
    }
}
