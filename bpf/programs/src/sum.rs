//! Sums of 16-bit words, from which checksums are made (RFC 1071, RFC 1624).

use core::mem::size_of;
use sluice_bpf_abi::{Addr, Tuple};

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
