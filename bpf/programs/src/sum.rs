//! Sums of 16-bit words, from which checksums are made (RFC 1071, RFC 1624).

use aya_ebpf::programs::TcContext;
use core::mem::size_of;
use sluice_bpf_abi::{Addr, SCTP, TCP, Tuple, UDP};

use crate::crc;
use crate::global::global;
use crate::packet::{Ipv6, Packet, load};

/// Bytes that are summed at a time.
const BLOCK: u32 = 64;
/// A packet of more blocks is not summed: one of a card or a pod that left its checksums to the next.
const BLOCKS: u32 = 24;

/// What to add to a sum of 16-bit words when both addresses of a packet change.
#[inline(always)]
pub fn difference(from: &Tuple, to: &Tuple) -> u32 {
    let source = added(0, &from.source, &to.source);
    reduced(added(source, &from.destination, &to.destination))
}

/// What to add to a sum of 16-bit words when one address changes.
#[inline(always)]
pub fn difference_of(from: &Addr, to: &Addr) -> u32 {
    reduced(added(0, from, to))
}

#[inline(always)]
fn added(mut sum: u64, from: &Addr, to: &Addr) -> u64 {
    for word in 0..4 {
        sum += u64::from(!from.words[word]) + u64::from(to.words[word]);
    }
    sum
}

#[inline(always)]
fn reduced(sum: u64) -> u32 {
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    (sum + (sum >> 32)) as u32
}

/// A checksum after this difference was added to its sum.
#[inline(always)]
pub fn updated(checksum: u16, difference: u32) -> u16 {
    let sum = u32::from(!checksum) + (difference & 0xffff) + (difference >> 16);
    checksum_of(sum)
}

/// The checksum of a sum: its 16 bits, inverted.
#[inline(always)]
pub fn checksum_of(sum: u32) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    !(sum as u16)
}

/// Adds the 16-bit words of a value to the sum `seed`.
#[inline(always)]
pub fn of<T>(value: &T, seed: u32) -> u32 {
    // SAFETY: the value is read only; its size is a multiple of four.
    let sum = unsafe {
        aya_ebpf::helpers::bpf_csum_diff(
            core::ptr::null_mut(),
            0,
            core::ptr::from_ref(value).cast_mut().cast(),
            size_of::<T>() as u32,
            seed,
        )
    };
    sum as u32
}

global!(
    /// Whether the checksums of a packet are right, as far as they can be known: not those of fragments, behind extension
    /// headers, and of what is longer than [`BLOCKS`].
    ///
    /// A sender on this machine may leave the rest of a checksum to the network card (`CHECKSUM_PARTIAL`): then the field has
    /// the sum of the addresses, protocol and length.
    pub fn is_right(ctx, packet: &Packet) -> bool = is_right_body else false
);

#[inline(always)]
fn is_right_body(ctx: &TcContext, packet: &Packet) -> bool {
    if packet.is_v4 {
        // SAFETY: it was read when the packet was parsed.
        let fragment = unsafe { packet.head.v4.network.fragment };
        if checksum_of(of_bytes(ctx, 0, packet.transport, 0) as u32) != 0 {
            return false;
        }
        if u16::from_be(fragment) & 0x3fff != 0 {
            return true;
        }
    } else if packet.transport != size_of::<Ipv6>() as u32 {
        return true;
    }
    if packet.protocol() == SCTP {
        return crc::is_crc_right(ctx, packet);
    }
    let at = packet.transport + if packet.protocol() == TCP { 16 } else { 6 };
    let Some(field) = load::<u16>(ctx, at) else {
        return false;
    };
    if field == 0 && packet.protocol() == UDP && packet.is_v4 {
        return true;
    }
    let pseudo = of_pseudo_header(packet);
    if field == !checksum_of(pseudo) {
        return true;
    }
    let sum = of_bytes(ctx, packet.transport, packet.length, pseudo);
    sum == UNKNOWN || checksum_of(sum as u32) == 0
}

/// The sum of what a checksum covers beside the packet's transport header and payload (RFC 9293, 3.1; RFC 8200, 8.1).
#[inline(always)]
fn of_pseudo_header(packet: &Packet) -> u32 {
    let Tuple {
        source,
        destination,
        ..
    } = &packet.tuple;
    let length = packet.length.to_be();
    let rest = [length, u32::from(packet.protocol()).to_be()];
    let seed = of(&rest, 0);
    if packet.is_v4 {
        of(&[source.words[3], destination.words[3]], seed)
    } else {
        of(&source.words, of(&destination.words, seed))
    }
}

/// A sum that is not known.
const UNKNOWN: u64 = u64::MAX;
/// A sum that is never right.
const WRONG: u64 = 0;

global!(
    /// Adds `length` bytes at this offset from the network header to the sum `seed`. [`UNKNOWN`] if they are too many, [`WRONG`]
    /// if the packet is shorter. A number, because a function of the kernel's returns a register.
    fn of_bytes(ctx, offset: u32, length: u32, seed: u32) -> u64 = of_bytes_body else WRONG
);

#[inline(always)]
fn of_bytes_body(ctx: &TcContext, offset: u32, length: u32, seed: u32) -> u64 {
    let (mut at, mut left, mut sum) = (offset, length, seed);
    let mut block = 0;
    while block < BLOCKS && left >= BLOCK {
        if !add::<16>(ctx, at, &mut sum) {
            return WRONG;
        }
        at += BLOCK;
        left -= BLOCK;
        block += 1;
    }
    if left >= BLOCK {
        return UNKNOWN;
    }
    // The rest has at most 63 bytes. The verifier wants constant lengths, so it is read in halves.
    macro_rules! rest {
        ($($words:literal)*) => {$(
            if left & ($words * 4) != 0 {
                if !add::<$words>(ctx, at, &mut sum) {
                    return WRONG;
                }
                at += $words * 4;
            }
        )*};
    }
    rest!(8 4 2 1);
    if left & 2 != 0 {
        let Some([first, second]) = load::<[u8; 2]>(ctx, at) else {
            return WRONG;
        };
        sum = of(&[first, second, 0, 0], sum);
        at += 2;
    }
    if left & 1 != 0 {
        let Some(last) = load::<u8>(ctx, at) else {
            return WRONG;
        };
        sum = of(&[last, 0, 0, 0], sum);
    }
    sum.into()
}

/// Adds words of the packet to a sum. False: the packet is shorter.
#[inline(always)]
fn add<const WORDS: usize>(ctx: &TcContext, at: u32, sum: &mut u32) -> bool {
    let words = load::<[u32; WORDS]>(ctx, at);
    if let Some(words) = &words {
        *sum = of(words, *sum);
    }
    words.is_some()
}
