//! The order in which addresses and ports are tried.
//!
//! The lower part of a range is for Services that ask for a number (KEP-3070, KEP-3668): the others get a number of the
//! upper part while one is free. Kubernetes starts at a random number, we start at a hash of the Service's name.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use ipnet::IpNet;

/// Most addresses of a range that are used.
const MOST: u128 = 1 << 62;

/// Offsets of the addresses that Services can have: without the network address, and IPv4's broadcast address.
fn usable(net: &IpNet) -> RangeInclusive<u64> {
    let (bits, last) = match net {
        IpNet::V4(_) => (32 - net.prefix_len(), 2),
        IpNet::V6(_) => (128 - net.prefix_len(), 1),
    };
    let size = 1_u128.checked_shl(bits.into()).unwrap_or(MOST).min(MOST);
    let size = u64::try_from(size).expect("at most 2^62");
    1..=size.saturating_sub(last)
}

/// Whether a Service can have this address of the range.
pub(crate) fn is_usable(net: &IpNet, ip: IpAddr) -> bool {
    let number = match (net.network(), ip) {
        (IpAddr::V4(first), IpAddr::V4(ip)) => {
            u128::from(u32::from(ip).saturating_sub(u32::from(first)))
        }
        (IpAddr::V6(first), IpAddr::V6(ip)) => u128::from(ip).saturating_sub(u128::from(first)),
        _ => return false,
    };
    net.contains(&ip) && u64::try_from(number).is_ok_and(|it| usable(net).contains(&it))
}

/// The addresses of a range, in the order in which they are tried.
pub(crate) fn addresses(net: &IpNet, seed: u64) -> impl Iterator<Item = IpAddr> + use<> {
    let (all, first) = (usable(net), net.network());
    // `calculateRangeOffset` in `pkg/registry/core/service/ipallocator/bitmap.go`.
    let size = all.end().saturating_add(2);
    upper_first(all, band(size, 16, 256), seed).map(move |number| match first {
        IpAddr::V4(first) => {
            let number = u32::try_from(number).expect("a range of IPv4");
            Ipv4Addr::from(u32::from(first) + number).into()
        }
        IpAddr::V6(first) => Ipv6Addr::from(u128::from(first) + u128::from(number)).into(),
    })
}

/// The ports of a range, in the order in which they are tried.
pub(crate) fn ports(range: &RangeInclusive<u16>, seed: u64) -> impl Iterator<Item = u16> + use<> {
    let first = u64::from(*range.start());
    let size = u64::try_from(range.len()).expect("at most 65,536");
    // `calculateRangeOffset` in `pkg/registry/core/service/portallocator/allocator.go`.
    let numbers = upper_first(0..=size.saturating_sub(1), band(size, 32, 128), seed);
    numbers.map(move |it| u16::try_from(first + it).expect("of the range"))
}

/// Size of the lower part: `size / share`, between 16 and `most`; 0 for a small range.
fn band(size: u64, share: u64, most: u64) -> u64 {
    if size < 16 {
        0
    } else {
        (size / share).clamp(16, most)
    }
}

/// The numbers above the first `band`, starting at a position that the seed chooses and wrapping around; then the first
/// `band`.
fn upper_first(all: RangeInclusive<u64>, band: u64, seed: u64) -> impl Iterator<Item = u64> {
    let (first, last) = all.into_inner();
    let upper = first + band;
    let length = (last + 1).saturating_sub(upper);
    let start = seed.checked_rem(length).unwrap_or_default();
    let above = (0..length).map(move |it| upper + (start + it) % length);
    above.chain(first..upper.min(last + 1))
}
