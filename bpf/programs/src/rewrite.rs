//! Rewriting of addresses and ports, with checksums.

use aya_ebpf::bindings::{BPF_F_MARK_MANGLED_0, BPF_F_PSEUDO_HDR};
use aya_ebpf::helpers::generated::bpf_get_prandom_u32;
use aya_ebpf::programs::TcContext;
use sluice_bpf_abi::{Addr, SCTP, TCP, Tuple, UDP, node_flags};

use crate::crc;
use crate::global::global;
use crate::maps::node_flag;
use crate::packet::{Packet, load, network_offset};
use crate::sum;

/// Flag of the IPv4 header: the packet must not be fragmented (RFC 791, 3.1).
const V4_DO_NOT_FRAGMENT: u16 = 0x4000;
/// Offsets in the IPv4 header.
const V4_ID: u32 = 4;
pub const V4_CHECKSUM: u32 = 10;
const V4_SOURCE: u32 = 12;
const V4_DESTINATION: u32 = 16;
/// Offsets in the IPv6 header.
const V6_SOURCE: u32 = 8;
const V6_DESTINATION: u32 = 24;

/// Flag of `bpf_l4_csum_replace` (Linux 6.16): the sum of the whole packet, which some network cards compute, stays.
/// The new IPv6 address and the new checksum change it by as much in opposite directions.
const BPF_F_IPV6: u64 = 1 << 7;

/// The source or the destination of a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum End {
    Source,
    Destination,
}

global!(
    /// Gives the packet these addresses and ports. Returns 0, or 1 when the kernel refused: then it must be dropped.
    pub fn rewrite(ctx, packet: &Packet, to: &Tuple) -> i32 = rewrite_body else 1
);

#[inline(always)]
fn rewrite_body(ctx: &TcContext, packet: &Packet, to: &Tuple) -> i32 {
    match try_rewrite(ctx, packet, to) {
        Some(()) => 0,
        None => 1,
    }
}

global!(
    /// Lets the kernel fragment a datagram of IPv4 that the node sends to an address of its own. Its length is right for
    /// loopback, and no error would teach its sender the MTU of the way to the endpoint: the route of the node's own address has
    /// none. IPv6 knows no fragments but its sender's.
    pub fn allow_fragments(ctx, packet: &Packet) -> bool = allow_fragments_body else false
);

#[inline(always)]
fn allow_fragments_body(ctx: &TcContext, packet: &Packet) -> bool {
    if !packet.is_v4 || packet.protocol() != UDP || packet.may_be_fragmented {
        return true;
    }
    let network = network_offset(ctx);
    let Some([id, flags]) = load::<[u16; 2]>(ctx, V4_ID) else {
        return false;
    };
    // The fragments of two datagrams without a number would be mixed up (RFC 6864, 4.1).
    let new_id = if id == 0 {
        // SAFETY: the helper has no arguments.
        let random = unsafe { bpf_get_prandom_u32() };
        random as u16 | 1
    } else {
        id
    };
    let new = [new_id, flags & !V4_DO_NOT_FRAGMENT.to_be()];
    let words = [[id, flags], new].map(|[a, b]| u32::from(a) | u32::from(b) << 16);
    let checksum = (network + V4_CHECKSUM) as usize;
    ctx.l3_csum_replace(checksum, words[0].into(), words[1].into(), 4)
        .is_ok()
        && store(ctx, network + V4_ID, &new).is_some()
}

#[inline(always)]
fn try_rewrite(ctx: &TcContext, packet: &Packet, to: &Tuple) -> Option<()> {
    let from = &packet.tuple;
    let network = network_offset(ctx);
    let checksum = Checksum::of(packet, network);
    if from.source != to.source || from.destination != to.destination {
        checksum.replace_addrs(ctx, packet.is_v4, from, to)?;
        store_addrs(ctx, packet, network, to)?;
    }
    let (old, new) = (ports(from), ports(to));
    if packet.has_ports && old != new {
        let transport = network + packet.transport;
        match packet.protocol() {
            SCTP => correct_crc(ctx, packet, transport, to)?,
            _ => checksum.replace_ports(ctx, old, new)?,
        }
        store(ctx, transport, &new)?;
    }
    Some(())
}

/// Corrects the checksum of SCTP for other ports. A network card that has yet to compute the checksum ignores the
/// field.
#[inline(always)]
fn correct_crc(ctx: &TcContext, packet: &Packet, transport: u32, to: &Tuple) -> Option<()> {
    let from = &packet.tuple;
    let [high, low] = [
        from.source_port ^ to.source_port,
        from.destination_port ^ to.destination_port,
    ];
    if high | low == 0 {
        return Some(());
    }
    let [a, b] = high.to_be_bytes();
    let [c, d] = low.to_be_bytes();
    let changed = u32::from_le_bytes([a, b, c, d]);
    let offset = transport + 8;
    let old: u32 = load(ctx, packet.transport + 8)?;
    let new = u32::from_le(old) ^ crc::difference(changed, packet.length.wrapping_sub(4));
    store(ctx, offset, &new.to_le())
}

/// Writes both addresses, and the checksum of the IPv4 header, which is before them.
#[inline(always)]
fn store_addrs(ctx: &TcContext, packet: &Packet, network: u32, to: &Tuple) -> Option<()> {
    if !packet.is_v4 {
        return store(
            ctx,
            network + V6_SOURCE,
            &[to.source.words, to.destination.words],
        );
    }
    // SAFETY: an IPv4 header was read.
    let old = unsafe { packet.head.v4.network.checksum };
    let changed = sum::difference(&packet.tuple, to);
    let new = sum::updated(old, changed);
    let [a, b] = halves(to.source.words[3]);
    let [c, d] = halves(to.destination.words[3]);
    store(ctx, network + V4_CHECKSUM, &[new, a, b, c, d])
}

/// Both ports as a word of a packet.
#[inline(always)]
fn ports(tuple: &Tuple) -> u32 {
    let [a, b] = tuple.source_port.to_be_bytes();
    let [c, d] = tuple.destination_port.to_be_bytes();
    u32::from_ne_bytes([a, b, c, d])
}

/// The halves of a word of a packet, in its order.
#[inline(always)]
fn halves(word: u32) -> [u16; 2] {
    let [a, b, c, d] = word.to_ne_bytes();
    [u16::from_ne_bytes([a, b]), u16::from_ne_bytes([c, d])]
}

/// Writes one address into the IP header at offset `network`, and corrects that header's own checksum.
#[inline(always)]
pub fn store_addr(
    ctx: &TcContext,
    is_v4: bool,
    network: u32,
    from: &Addr,
    to: &Addr,
    end: End,
) -> Option<()> {
    if is_v4 {
        let (from, to) = (from.words[3], to.words[3]);
        let offset = (network + V4_CHECKSUM) as usize;
        ctx.l3_csum_replace(offset, from.into(), to.into(), 4)
            .ok()?;
        let offset = match end {
            End::Source => V4_SOURCE,
            End::Destination => V4_DESTINATION,
        };
        store(ctx, network + offset, &to)
    } else {
        let offset = match end {
            End::Source => V6_SOURCE,
            End::Destination => V6_DESTINATION,
        };
        store(ctx, network + offset, &to.words)
    }
}

/// Writes a value at this offset from the start of the packet.
#[inline(always)]
pub fn store<T>(ctx: &TcContext, offset: u32, value: &T) -> Option<()> {
    ctx.store(offset as usize, value, 0).ok()
}

/// The checksum of TCP or UDP. That of SCTP covers no addresses, and is a CRC: see [`correct_crc`].
struct Checksum {
    offset: usize,
    flags: u64,
    is_there: bool,
}

impl Checksum {
    #[inline(always)]
    fn of(packet: &Packet, network: u32) -> Self {
        let transport = network + packet.transport;
        let (offset, flags) = match packet.protocol() {
            TCP => (16, 0),
            // UDP may have none: 0 stays 0.
            UDP => (6, u64::from(BPF_F_MARK_MANGLED_0)),
            _ => (2, 0),
        };
        Self {
            offset: (transport + offset) as usize,
            flags,
            is_there: packet.has_ports && packet.protocol() != SCTP,
        }
    }

    #[inline(always)]
    fn replace_addrs(&self, ctx: &TcContext, is_v4: bool, from: &Tuple, to: &Tuple) -> Option<()> {
        if !self.is_there {
            return Some(());
        }
        let family = if is_v4 { 0 } else { ipv6_flag() };
        let flags = self.flags | u64::from(BPF_F_PSEUDO_HDR) | family;
        let changed = sum::difference(from, to);
        ctx.l4_csum_replace(self.offset, 0, changed.into(), flags)
            .ok()
    }

    #[inline(always)]
    fn replace_ports(&self, ctx: &TcContext, from: u32, to: u32) -> Option<()> {
        ctx.l4_csum_replace(self.offset, from.into(), to.into(), self.flags | 4)
            .ok()
    }
}

/// [`BPF_F_IPV6`] where the kernel knows it.
#[inline(always)]
pub fn ipv6_flag() -> u64 {
    if node_flag(node_flags::CSUM_IPV6) {
        BPF_F_IPV6
    } else {
        0
    }
}
