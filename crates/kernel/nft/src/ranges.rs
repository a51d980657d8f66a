//! The ranges of a set with [`SetFlags::INTERVAL`](crate::SetFlags), from its elements.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use sluice_netlink::Family;

use crate::element::Reader;
use crate::object::ElementRef;

/// A range of addresses in the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first address.
    pub first: IpAddr,
    /// The first address after the range; `None` when the range reaches the end of the address space.
    pub end: Option<IpAddr>,
    /// The comment of the range's first element.
    pub comment: Option<Arc<str>>,
}

impl Range {
    /// The prefix that holds exactly these addresses; `None` when they are no prefix.
    #[must_use]
    pub fn prefix(&self) -> Option<IpNet> {
        let last = match (self.end, self.first) {
            (Some(IpAddr::V4(end)), _) => IpAddr::V4(u32::from(end).checked_sub(1)?.into()),
            (Some(IpAddr::V6(end)), _) => IpAddr::V6(u128::from(end).checked_sub(1)?.into()),
            (None, IpAddr::V4(_)) => IpAddr::V4(u32::MAX.into()),
            (None, IpAddr::V6(_)) => IpAddr::V6(u128::MAX.into()),
        };
        prefix(self.first, last)
    }
}

/// Takes in the elements of a set in any order and puts starts and ends together.
#[derive(Clone, Debug)]
pub struct Ranges {
    family: Family,
    /// Address, whether a range begins there, comment.
    ends: Vec<(IpAddr, bool, Option<Arc<str>>)>,
}

impl Ranges {
    /// No ranges yet, for a set of this family.
    #[must_use]
    pub const fn new(family: Family) -> Self {
        Self {
            family,
            ends: Vec::new(),
        }
    }

    /// Takes in one element.
    pub fn add(&mut self, element: &ElementRef<'_>) {
        let address = Reader(element.key).address(self.family);
        let comment = element.comment.map(Arc::from);
        self.ends
            .extend(address.map(|it| (it, !element.interval_end, comment)));
    }

    /// The ranges, by address.
    pub fn finish(mut self) -> impl Iterator<Item = Range> {
        // Where one range ends and the next begins, the end comes first.
        self.ends.sort_by_key(|(addr, begins, _)| (*addr, *begins));
        let mut rest = self.ends.into_iter().peekable();
        std::iter::from_fn(move || {
            let (first, _, comment) = rest.find(|(_, begins, _)| *begins)?;
            let end = rest.next_if(|(_, begins, _)| !begins);
            Some(Range {
                first,
                end: end.map(|(addr, ..)| addr),
                comment,
            })
        })
    }
}

fn prefix(first: IpAddr, last: IpAddr) -> Option<IpNet> {
    let (span, width) = match (first, last) {
        (IpAddr::V4(first), IpAddr::V4(last)) => {
            (u128::from(u32::from(first) ^ u32::from(last)), 32)
        }
        (IpAddr::V6(first), IpAddr::V6(last)) => (u128::from(first) ^ u128::from(last), 128),
        _ => return None,
    };
    let host_bits = u128::BITS - span.leading_zeros();
    let len = u8::try_from(width - host_bits).ok()?;
    let net = IpNet::new(first, len).ok()?;
    (net.network() == first && net.broadcast() == last).then_some(net)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_found_from_both_ends() {
        let check = |first: &str, last: &str, expected: Option<&str>| {
            let found = prefix(first.parse().unwrap(), last.parse().unwrap());
            assert_eq!(
                found,
                expected.map(|it| it.parse().unwrap()),
                "{first}-{last}"
            );
        };
        check("10.0.0.0", "10.255.255.255", Some("10.0.0.0/8"));
        check("10.0.0.1", "10.0.0.1", Some("10.0.0.1/32"));
        check("0.0.0.0", "255.255.255.255", Some("0.0.0.0/0"));
        check("fd00::", "fd00::ffff:ffff:ffff:ffff", Some("fd00::/64"));
        check("10.0.0.1", "10.0.0.2", None);
        check("10.0.0.4", "10.0.0.3", None);
    }
}
