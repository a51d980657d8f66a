//! Rewriting of addresses and ports, with checksums.

use aya_ebpf::bindings::{BPF_F_MARK_MANGLED_0, BPF_F_PSEUDO_HDR};
use aya_ebpf::helpers::bpf_csum_diff;
use aya_ebpf::programs::TcContext;
use sluice_bpf_abi::{Addr, SCTP, TCP, Tuple, UDP, node_flags};

use crate::crc;
use crate::maps::node_flag;
use crate::packet::{Packet, network_offset};

/// Offsets in the IPv4 header.
pub const V4_CHECKSUM: u32 = 10;
const V4_SOURCE: u32 = 12;
const V4_DESTINATION: u32 = 16;
/// Offsets in the IPv6 header.
const V6_SOURCE: u32 = 8;
const V6_DESTINATION: u32 = 24;

/// Of `bpf_l4_csum_replace`: the checksum of the whole packet, which some network cards give, is right
/// already (Linux 6.16, `BPF_F_IPV6`).
const BPF_F_IPV6: u64 = 1 << 7;

/// Which end of a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum End {
    Source,
    Destination,
}

/// Gives the packet these addresses and ports. Not 0: it could not be written, and must not go on.
#[inline(never)]
pub fn rewrite(ctx: &TcContext, packet: &Packet, to: &Tuple) -> i32 {
    match try_rewrite(ctx, packet, to) {
        Some(()) => 0,
        None => 1,
    }
}

#[inline(always)]
fn try_rewrite(ctx: &TcContext, packet: &Packet, to: &Tuple) -> Option<()> {
    let network = network_offset(ctx);
    let from = &packet.tuple;
    let checksum = Checksum::of(packet, network);
    if from.source != to.source {
        replace_addr(
            ctx,
            packet,
            network,
            &checksum,
            &from.source,
            &to.source,
            End::Source,
        )?;
    }
    if from.destination != to.destination {
        let (from, to) = (&from.destination, &to.destination);
        replace_addr(ctx, packet, network, &checksum, from, to, End::Destination)?;
    }
    if packet.has_ports {
        let transport = network + packet.transport;
        if packet.protocol() == SCTP {
            correct_crc(ctx, packet, transport, to)?;
        }
        if from.source_port != to.source_port {
            checksum.replace_port(ctx, from.source_port, to.source_port)?;
            store(ctx, transport, &to.source_port.to_be())?;
        }
        if from.destination_port != to.destination_port {
            checksum.replace_port(ctx, from.destination_port, to.destination_port)?;
            store(ctx, transport + 2, &to.destination_port.to_be())?;
        }
    }
    Some(())
}

/// Corrects the checksum of SCTP for other ports. Of a packet whose checksum a network card has yet to compute
/// the field does not count.
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
    let old: u32 = crate::packet::load(ctx, packet.transport + 8)?;
    let new = u32::from_le(old) ^ crc::difference(changed, packet.length.wrapping_sub(4));
    store(ctx, offset, &new.to_le())
}

#[inline(always)]
fn replace_addr(
    ctx: &TcContext,
    packet: &Packet,
    network: u32,
    checksum: &Checksum,
    from: &Addr,
    to: &Addr,
    end: End,
) -> Option<()> {
    checksum.replace_addr(ctx, packet.is_v4, from, to)?;
    store_addr(ctx, packet.is_v4, network, from, to, end)
}

/// Writes one address into the IP header at this offset, with the header's own checksum.
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

#[inline(always)]
pub fn store<T>(ctx: &TcContext, offset: u32, value: &T) -> Option<()> {
    ctx.store(offset as usize, value, 0).ok()
}

/// The difference that one address in place of another makes to a checksum.
#[inline(always)]
pub fn difference(from: &Addr, to: &Addr) -> u64 {
    // SAFETY: both have 16 bytes; the helper writes neither.
    let sum = unsafe {
        bpf_csum_diff(
            from.words.as_ptr().cast_mut(),
            16,
            to.words.as_ptr().cast_mut(),
            16,
            0,
        )
    };
    sum as u64
}

/// Where the checksum of the transport header is; SCTP's covers neither addresses nor is it a sum.
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
            // No checksum is no error in UDP.
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
    fn replace_addr(&self, ctx: &TcContext, is_v4: bool, from: &Addr, to: &Addr) -> Option<()> {
        if !self.is_there {
            return Some(());
        }
        let flags = self.flags | u64::from(BPF_F_PSEUDO_HDR);
        let replaced = if is_v4 {
            let (from, to) = (from.words[3].into(), to.words[3].into());
            ctx.l4_csum_replace(self.offset, from, to, flags | 4)
        } else {
            let flags = flags | ipv6_flag();
            ctx.l4_csum_replace(self.offset, 0, difference(from, to), flags)
        };
        replaced.ok()
    }

    #[inline(always)]
    fn replace_port(&self, ctx: &TcContext, from: u16, to: u16) -> Option<()> {
        if !self.is_there {
            return Some(());
        }
        let (from, to) = (from.to_be().into(), to.to_be().into());
        ctx.l4_csum_replace(self.offset, from, to, self.flags | 2)
            .ok()
    }
}

/// [`BPF_F_IPV6`] where the kernel knows it.
#[inline(always)]
pub fn ipv6_flag() -> u64 {
    match node_flag(node_flags::CSUM_IPV6) {
        true => BPF_F_IPV6,
        false => 0,
    }
}
