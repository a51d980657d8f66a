//! IPv4 or IPv6.

use std::fmt;
use std::net::IpAddr;

/// The family of an IP address, of a table of `nf_tables` or of a table of `iptables`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// IPv4; to nftables `ip`.
    Ipv4,
    /// IPv6; to nftables `ip6`.
    Ipv6,
}

impl Family {
    /// The family of an address.
    #[must_use]
    pub const fn of(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(_) => Self::Ipv4,
            IpAddr::V6(_) => Self::Ipv6,
        }
    }

    /// Bits of an address.
    #[must_use]
    pub const fn bits(self) -> u8 {
        match self {
            Self::Ipv4 => 32,
            Self::Ipv6 => 128,
        }
    }

    /// `AF_INET` or `AF_INET6`, which are `NFPROTO_IPV4` and `NFPROTO_IPV6` as well.
    pub const fn number(self) -> u8 {
        match self {
            Self::Ipv4 => 2,
            Self::Ipv6 => 10,
        }
    }

    /// `None` for any other number.
    pub fn from_number(number: impl Into<u32>) -> Option<Self> {
        match number.into() {
            2 => Some(Self::Ipv4),
            10 => Some(Self::Ipv6),
            _ => None,
        }
    }

    /// The address at the start of `bytes`; `None` when they are too few.
    pub fn address(self, bytes: &[u8]) -> Option<IpAddr> {
        Some(match self {
            Self::Ipv4 => IpAddr::from(*bytes.first_chunk::<4>()?),
            Self::Ipv6 => IpAddr::from(*bytes.first_chunk::<16>()?),
        })
    }
}

/// The bytes of an address in network order: 4 or 16.
pub fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ipv4 => "IPv4",
            Self::Ipv6 => "IPv6",
        })
    }
}
