//! Keys and values of elements as they lie in the kernel's registers.
//!
//! Each field of a concatenation starts at a multiple of four bytes. Addresses and ports are in
//! network byte order, numbers in the host's: `numgen` writes a plain `u32`.

use std::fmt::{self, Display};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use sluice_netlink::Family;

use crate::object::ElementRef;
use crate::text::{prefix, protocol_word};

/// One field of a key or value. Displays as nft writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Datum {
    Address(IpAddr),
    /// The addresses of a prefix, in sets of ranges.
    Range(IpNet),
    /// `IPPROTO_*`.
    Protocol(u8),
    Port(u16),
    /// The ports from the first to the second, in [sets of concatenated
    /// ranges](crate::Shape::set_of_ranges).
    Ports(u16, u16),
    Number(u32),
}

impl Datum {
    /// Appends the bytes of the value; of a range, those of its first address or port.
    #[inline]
    pub fn put(self, out: &mut Vec<u8>) {
        match self {
            Self::Address(IpAddr::V4(it)) => out.extend(it.octets()),
            Self::Address(IpAddr::V6(it)) => out.extend(it.octets()),
            Self::Range(net) => Self::Address(net.network()).put(out),
            Self::Protocol(it) => out.extend([it, 0, 0, 0]),
            Self::Port(it) => {
                let [high, low] = it.to_be_bytes();
                out.extend([high, low, 0, 0]);
            }
            Self::Ports(first, _) => Self::Port(first).put(out),
            Self::Number(it) => out.extend(it.to_ne_bytes()),
        }
    }

    fn is_range(&self) -> bool {
        matches!(self, Self::Range(_) | Self::Ports(..))
    }

    /// The last value of a range, or the value itself.
    fn last(self) -> Self {
        match self {
            Self::Range(net) => Self::Address(net.broadcast()),
            Self::Ports(_, last) => Self::Port(last),
            single => single,
        }
    }
}

impl Display for Datum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(it) => write!(f, "{it}"),
            Self::Range(net) => prefix(f, net),
            Self::Protocol(it) => f.write_str(&protocol_word(*it)),
            Self::Port(it) => write!(f, "{it}"),
            Self::Ports(first, last) if first == last => write!(f, "{first}"),
            Self::Ports(first, last) => write!(f, "{first}-{last}"),
            Self::Number(it) => write!(f, "{it}"),
        }
    }
}

/// Writes fields side by side, as nft does.
///
/// # Errors
/// As of `out`.
pub fn write_fields(out: &mut impl fmt::Write, fields: &[Datum]) -> fmt::Result {
    for (position, field) in fields.iter().enumerate() {
        if position > 0 {
            out.write_str(" . ")?;
        }
        write!(out, "{field}")?;
    }
    Ok(())
}

/// The bytes of an element's key. Reused from element to element, so that many do not allocate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyBytes {
    /// The key, of a range its first address.
    pub start: Vec<u8>,
    /// The first address after the range, or empty when it reaches the end of the address space; only in sets
    /// with [`SetFlags::INTERVAL`](crate::SetFlags).
    pub end: Option<Vec<u8>>,
    /// The last key of a concatenation of ranges.
    last: Option<Vec<u8>>,
}

impl KeyBytes {
    /// Replaces the bytes by those of these fields.
    #[inline]
    pub fn set(&mut self, fields: &[Datum]) {
        self.start.clear();
        (self.end, self.last) = (None, None);
        for field in fields {
            field.put(&mut self.start);
        }
        if fields.iter().any(Datum::is_range) {
            self.set_ranges(fields);
        }
    }

    fn set_ranges(&mut self, fields: &[Datum]) {
        let mut bytes = Vec::new();
        if let [Datum::Range(net)] = fields {
            if let Some(next) = successor(net.broadcast()) {
                Datum::Address(next).put(&mut bytes);
            }
            self.end = Some(bytes);
        } else {
            fields.iter().for_each(|it| it.last().put(&mut bytes));
            self.last = Some(bytes);
        }
    }

    /// Shows `element` with this key to `write`. A range in a set with
    /// [`SetFlags::INTERVAL`](crate::SetFlags) is two elements: its first address, and the first one after it with
    /// a flag (`nft_set_rbtree.c`).
    pub fn write(&self, element: ElementRef<'_>, mut write: impl FnMut(&ElementRef<'_>)) {
        write(&ElementRef {
            key: &self.start,
            key_end: self.last.as_deref(),
            ..element
        });
        if let Some(end) = self.end.as_deref().filter(|it| !it.is_empty()) {
            write(&ElementRef {
                key: end,
                interval_end: true,
                ..ElementRef::default()
            });
        }
    }
}

/// Decodes a key or value. Every method returns `None` for bytes that we would not have written.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(pub &'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*bytes)
    }

    pub fn address(&mut self, family: Family) -> Option<IpAddr> {
        Some(match family {
            Family::Ipv4 => IpAddr::from(self.take::<4>()?),
            Family::Ipv6 => IpAddr::from(self.take::<16>()?),
        })
    }

    /// `IPPROTO_*`.
    pub fn protocol(&mut self) -> Option<u8> {
        match self.take()? {
            [number, 0, 0, 0] => Some(number),
            _ => None,
        }
    }

    pub fn port(&mut self) -> Option<u16> {
        match self.take()? {
            [high, low, 0, 0] => Some(u16::from_be_bytes([high, low])),
            _ => None,
        }
    }

    pub fn number(&mut self) -> Option<u32> {
        self.take().map(u32::from_ne_bytes)
    }

    /// `Some` when no byte is left.
    pub fn end(self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

/// The address after this one; `None` after the last.
fn successor(addr: IpAddr) -> Option<IpAddr> {
    Some(match addr {
        IpAddr::V4(it) => IpAddr::V4(Ipv4Addr::from(u32::from(it).checked_add(1)?)),
        IpAddr::V6(it) => IpAddr::V6(Ipv6Addr::from(u128::from(it).checked_add(1)?)),
    })
}
