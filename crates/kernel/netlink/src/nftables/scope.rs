//! Where an object lives: the address family and the table.

use super::uapi;

/// The family of a table. `inet`, `bridge` and `netdev` tables are not Sluice's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// `ip`: IPv4 packets.
    Ipv4,
    /// `ip6`: IPv6 packets.
    Ipv6,
}

impl Family {
    /// `NFPROTO_*`, which for these two equals `AF_*`.
    #[must_use]
    pub fn nfproto(self) -> u8 {
        match self {
            Self::Ipv4 => uapi::NFPROTO_IPV4,
            Self::Ipv6 => uapi::NFPROTO_IPV6,
        }
    }

    /// The family of this `NFPROTO_*`; `None` for the others.
    #[must_use]
    pub fn from_nfproto(number: u8) -> Option<Self> {
        match number {
            uapi::NFPROTO_IPV4 => Some(Self::Ipv4),
            uapi::NFPROTO_IPV6 => Some(Self::Ipv6),
            _ => None,
        }
    }
}

/// A table by family and name: the place of every other object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scope<'a> {
    /// Family of the table.
    pub family: Family,
    /// Name of the table; at most 255 bytes.
    pub table: &'a str,
}
