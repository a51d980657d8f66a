//! IPv4 or IPv6.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The kind of an IP address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IpFamily {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl IpFamily {
    /// The family of an address.
    #[must_use]
    pub const fn of(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// Bits of an address.
    #[must_use]
    pub const fn bits(self) -> u8 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }

    /// `AF_INET` or `AF_INET6`, which are `NFPROTO_IPV4` and `NFPROTO_IPV6` as well.
    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::V4 => 2,
            Self::V6 => 10,
        }
    }

    /// `None` for any other number.
    pub(crate) const fn from_number(number: u16) -> Option<Self> {
        match number {
            2 => Some(Self::V4),
            10 => Some(Self::V6),
            _ => None,
        }
    }

    /// The address at the start of `bytes`; `None` when they are too few.
    pub(crate) fn address(self, bytes: &[u8]) -> Option<IpAddr> {
        Some(match self {
            Self::V4 => Ipv4Addr::from(*bytes.first_chunk::<4>()?).into(),
            Self::V6 => Ipv6Addr::from(*bytes.first_chunk::<16>()?).into(),
        })
    }
}

impl fmt::Display for IpFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}
