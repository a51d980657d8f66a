//! Refusals: a TCP reset, or an ICMP error, in the packet's own buffer.

use aya_ebpf::bindings::bpf_adj_room_mode::BPF_ADJ_ROOM_MAC;
use aya_ebpf::bindings::{BPF_F_INGRESS, BPF_F_PSEUDO_HDR, TC_ACT_SHOT};
use aya_ebpf::helpers::generated::{bpf_redirect, bpf_skb_change_tail};
use aya_ebpf::programs::TcContext;
use core::mem::size_of;
use sluice_bpf_abi::{Hook, SCTP, TCP, Tuple};

use crate::global::global;
use crate::origin::{LOOPBACK, ifindex};
use crate::outcome::route_again;
use crate::packet::{ACK, ICMP, ICMP_V6, Ipv4, Ipv6, Packet, RST, load, network_offset};
use crate::rewrite::{End, V4_CHECKSUM, store, store_addr};
use crate::sum;

/// Time to live, or hop limit, of resets and ICMP errors.
const LIFETIME: u8 = 64;
/// Words that an ICMP error repeats of a packet, behind its IP header: the ports at least (RFC 792).
const REPEATED: usize = 2;
/// Words that an error repeats of SCTP: a client finds its connection by the tag of its INIT (`sctp_err_lookup`).
const REPEATED_LONG: usize = 5;
/// Length of TCP's header without options, in bytes.
const HEADER: u32 = 20;

/// Type, code and the word behind the checksum of an ICMP error (RFC 792, 1191, 4443).
struct Error {
    kind: u8,
    code: u8,
    rest: u32,
}

const PORT_UNREACHABLE: Error = Error {
    kind: 3,
    code: 3,
    rest: 0,
};
const PORT_UNREACHABLE_V6: Error = Error {
    kind: 1,
    code: 4,
    rest: 0,
};
const FRAGMENTATION_NEEDED: Error = Error {
    kind: 3,
    code: 4,
    rest: 0,
};
const PACKET_TOO_BIG: Error = Error {
    kind: 2,
    code: 0,
    rest: 0,
};

global!(
    /// Tells the client that nothing listens.
    pub fn reject(ctx, packet: &Packet, hook: Hook) -> i32 = reject_body else TC_ACT_SHOT
);

#[inline(always)]
fn reject_body(ctx: &TcContext, packet: &Packet, hook: Hook) -> i32 {
    // A fragment without ports has no connection to refuse.
    if !packet.has_ports {
        return TC_ACT_SHOT;
    }
    let written = match packet.protocol() {
        TCP => reset(ctx, packet),
        SCTP if packet.is_v4 => error_v4::<REPEATED_LONG>(ctx, packet, PORT_UNREACHABLE),
        SCTP => error_v6::<REPEATED_LONG>(ctx, packet, PORT_UNREACHABLE_V6),
        _ if packet.is_v4 => error_v4::<REPEATED>(ctx, packet, PORT_UNREACHABLE),
        _ => error_v6::<REPEATED>(ctx, packet, PORT_UNREACHABLE_V6),
    };
    match (written, hook) {
        (None, _) => TC_ACT_SHOT,
        (_, Hook::Egress) => route_again(ctx),
        _ => send_back(ctx),
    }
}

global!(
    /// Tells a sender that its packet is too long for the tunnel, with the tunnel's MTU in bytes.
    pub fn too_long(ctx, packet: &Packet, mtu: u32) -> i32 = too_long_body else TC_ACT_SHOT
);

#[inline(always)]
fn too_long_body(ctx: &TcContext, packet: &Packet, mtu: u32) -> i32 {
    let fragmentation_needed = Error {
        rest: mtu,
        ..FRAGMENTATION_NEEDED
    };
    let too_big = Error {
        rest: mtu,
        ..PACKET_TOO_BIG
    };
    // TCP's checksum must stay in the packet while the kernel has yet to write it (`__bpf_skb_min_len`).
    let written = match (packet.is_v4, packet.protocol()) {
        (true, TCP) => error_v4::<REPEATED_LONG>(ctx, packet, fragmentation_needed),
        (true, _) => error_v4::<REPEATED>(ctx, packet, fragmentation_needed),
        (false, TCP) => error_v6::<REPEATED_LONG>(ctx, packet, too_big),
        (false, _) => error_v6::<REPEATED>(ctx, packet, too_big),
    };
    match written {
        Some(()) => send_back(ctx),
        None => TC_ACT_SHOT,
    }
}

/// Sends the packet back through the interface that it came from, with its MAC addresses exchanged.
#[inline(always)]
fn send_back(ctx: &TcContext) -> i32 {
    if network_offset(ctx) != 0 {
        let (Ok(destination), Ok(source)) = (ctx.load::<[u16; 3]>(0), ctx.load::<[u16; 3]>(6))
        else {
            return TC_ACT_SHOT;
        };
        if store(ctx, 0, &source).is_none() || store(ctx, 6, &destination).is_none() {
            return TC_ACT_SHOT;
        }
    }
    let flags = match ifindex(ctx) {
        LOOPBACK => u64::from(BPF_F_INGRESS),
        _ => 0,
    };
    // SAFETY: the helper takes numbers.
    unsafe { bpf_redirect(ifindex(ctx), flags) as i32 }
}

/// Turns a packet of TCP into a reset without options and contents. It has the number that the packet acknowledges,
/// or acknowledges the packet (RFC 9293, 3.10.7.1).
#[inline(always)]
fn reset(ctx: &TcContext, packet: &Packet) -> Option<()> {
    let network = network_offset(ctx);
    let at = network + packet.transport;
    let [_, sequence, acknowledged, rest, last]: [u32; 5] = load(ctx, packet.transport)?;
    let [_, flags, ..] = rest.to_ne_bytes();
    let [sequence, answered, flags] = if flags & ACK != 0 {
        [acknowledged, 0, RST.into()]
    } else {
        let next = u32::from_be(sequence).wrapping_add(1).to_be();
        [0, next, u32::from(RST | ACK)]
    };
    let tuple = &packet.tuple;
    let words: [u32; 4] = [
        (u32::from(tuple.destination_port) << 16 | u32::from(tuple.source_port)).to_be(),
        sequence,
        answered,
        (((HEADER / 4) << 28) | (flags << 16)).to_be(),
    ];
    let [a, b, _, _] = last.to_ne_bytes();
    shorten(ctx, packet, network)?;
    replace_checksum(ctx, packet, at, &words, u16::from_ne_bytes([a, b]))?;
    store(ctx, at, &words)?;
    // No urgent data.
    store(ctx, at + 18, &0_u16)?;
    turn_round(ctx, packet, network)
}

/// Cuts a packet of TCP behind the header that has no options.
#[inline(always)]
fn shorten(ctx: &TcContext, packet: &Packet, network: u32) -> Option<()> {
    let length = packet.transport + HEADER;
    if ctx.len() != network + length {
        // SAFETY: the context is valid for the run of the program.
        let cut = unsafe { bpf_skb_change_tail(ctx.skb.skb, network + length, 0) };
        if cut != 0 {
            return None;
        }
    }
    if !packet.is_v4 {
        let length = (length - size_of::<Ipv6>() as u32) as u16;
        return store(ctx, network + 4, &length.to_be());
    }
    let old: u16 = load(ctx, 2)?;
    let new = (length as u16).to_be();
    let offset = (network + V4_CHECKSUM) as usize;
    ctx.l3_csum_replace(offset, old.into(), new.into(), 2)
        .ok()?;
    store(ctx, network + 2, &new)
}

/// Makes the checksum that of a header with these words and without contents. `old`: the checksum as in the packet.
///
/// The first change gives the checksum of the new header with the old length, and is not made where a network card has
/// yet to complete the checksum, which is that of addresses, protocol and length then (`inet_proto_csum_replace_by_diff`).
/// The second one is that of the length, which is made in any case.
#[inline(always)]
fn replace_checksum(
    ctx: &TcContext,
    packet: &Packet,
    at: u32,
    words: &[u32; 4],
    old: u16,
) -> Option<()> {
    let checksum = (at + 16) as usize;
    let [length, new_length] = [packet.length as u16, HEADER as u16].map(u16::to_be);
    let seed = u32::from(length) + u32::from(u16::from(TCP).to_be());
    let tuple = &packet.tuple;
    let seed = sum::of(&tuple.source, sum::of(&tuple.destination, seed));
    let wanted = sum::checksum_of(sum::of(words, seed));
    let changed = u32::from(!wanted) + u32::from(old);
    ctx.l4_csum_replace(checksum, 0, changed.into(), 0).ok()?;
    let flags = u64::from(BPF_F_PSEUDO_HDR) | 2;
    ctx.l4_csum_replace(checksum, length.into(), new_length.into(), flags)
        .ok()
}

/// Exchanges source and destination address, and sets the time to live.
#[inline(always)]
fn turn_round(ctx: &TcContext, packet: &Packet, network: u32) -> Option<()> {
    let Tuple {
        source,
        destination,
        ..
    } = &packet.tuple;
    let is_v4 = packet.is_v4;
    store_addr(ctx, is_v4, network, source, destination, End::Source)?;
    store_addr(ctx, is_v4, network, destination, source, End::Destination)?;
    if !is_v4 {
        return store(ctx, network + 7, &LIFETIME);
    }
    let old: u16 = load(ctx, 8)?;
    let [_, protocol] = old.to_ne_bytes();
    let new = u16::from_ne_bytes([LIFETIME, protocol]);
    let offset = (network + V4_CHECKSUM) as usize;
    ctx.l3_csum_replace(offset, old.into(), new.into(), 2)
        .ok()?;
    store(ctx, network + 8, &new)
}

/// An ICMP error with the beginning of the packet that it is about.
#[repr(C)]
struct ErrorV4<const WORDS: usize> {
    kind: u8,
    code: u8,
    checksum: u16,
    rest: u32,
    header: Ipv4,
    begin: [u32; WORDS],
}

/// [`ErrorV4`] for IPv6.
#[repr(C)]
struct ErrorV6<const WORDS: usize> {
    kind: u8,
    code: u8,
    checksum: u16,
    rest: u32,
    header: Ipv6,
    begin: [u32; WORDS],
}

/// Turns a packet into an ICMP error about itself.
#[inline(always)]
fn error_v4<const WORDS: usize>(ctx: &TcContext, packet: &Packet, error: Error) -> Option<()> {
    let network = network_offset(ctx);
    let mut header: Ipv4 = load(ctx, 0)?;
    let begin: [u32; WORDS] = load(ctx, packet.transport)?;
    let repeated = size_of::<[u32; WORDS]>() as u32;
    let (source, destination) = (header.source, header.destination);
    // Options are left out, and the header's checksum is that of a header without.
    if header.version_length != 0x45 {
        header.version_length = 0x45;
        header.checksum = 0;
    }
    let room = (size_of::<Ipv4>() + 8) as u32;
    make_room(ctx, network, size_of::<Ipv4>() as u32 + repeated, room)?;
    let outer = Ipv4 {
        version_length: 0x45,
        service: 0,
        length: ((room + size_of::<Ipv4>() as u32 + repeated) as u16).to_be(),
        id: 0,
        fragment: 0,
        lifetime: LIFETIME,
        protocol: ICMP,
        checksum: 0,
        source: destination,
        destination: source,
    };
    let message = ErrorV4 {
        kind: error.kind,
        code: error.code,
        checksum: 0,
        rest: error.rest.to_be(),
        header,
        begin,
    };
    store(ctx, network, &outer)?;
    store(ctx, network + size_of::<Ipv4>() as u32, &message)?;
    let checksum = sum::checksum_of(sum::of(&outer, 0));
    store(ctx, network + V4_CHECKSUM, &checksum)?;
    store(
        ctx,
        network + size_of::<Ipv4>() as u32 + 2,
        &sum::checksum_of(sum::of(&message, 0)),
    )
}

/// [`error_v4`] for IPv6.
#[inline(always)]
fn error_v6<const WORDS: usize>(ctx: &TcContext, packet: &Packet, error: Error) -> Option<()> {
    let network = network_offset(ctx);
    let mut header: Ipv6 = load(ctx, 0)?;
    let begin: [u32; WORDS] = load(ctx, packet.transport)?;
    let repeated = size_of::<[u32; WORDS]>() as u32;
    let (source, destination) = (header.source, header.destination);
    // Extension headers are left out.
    header.next = packet.protocol();
    let room = (size_of::<Ipv6>() + 8) as u32;
    make_room(ctx, network, size_of::<Ipv6>() as u32 + repeated, room)?;
    let length = (size_of::<ErrorV6<WORDS>>() as u16).to_be();
    let outer = Ipv6 {
        version: 0x6000_0000_u32.to_be(),
        length,
        next: ICMP_V6,
        lifetime: LIFETIME,
        source: destination,
        destination: source,
    };
    let message = ErrorV6 {
        kind: error.kind,
        code: error.code,
        checksum: 0,
        rest: error.rest.to_be(),
        header,
        begin,
    };
    // The sum covers both addresses, the length and the protocol (RFC 8200, 8.1).
    let pseudo = [
        u32::from(length),
        u32::from(u16::from(ICMP_V6).to_be()) << 16,
    ];
    let seed = sum::of(
        &outer.source,
        sum::of(&outer.destination, sum::of(&pseudo, 0)),
    );
    store(ctx, network, &outer)?;
    store(ctx, network + size_of::<Ipv6>() as u32, &message)?;
    let checksum = sum::checksum_of(sum::of(&message, seed));
    store(ctx, network + size_of::<Ipv6>() as u32 + 2, &checksum)
}

/// Cuts the packet to `kept` bytes from the network header on, and inserts `room` bytes before them.
#[inline(always)]
fn make_room(ctx: &TcContext, network: u32, kept: u32, room: u32) -> Option<()> {
    let length = network + kept;
    if ctx.len() != length {
        // SAFETY: the context is valid for the run of the program.
        let cut = unsafe { bpf_skb_change_tail(ctx.skb.skb, length, 0) };
        if cut != 0 {
            return None;
        }
    }
    ctx.adjust_room(room as i32, BPF_ADJ_ROOM_MAC, 0).ok()
}
