//! Protocols and address families.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Transport protocols that a Service port can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Protocol {
    /// TCP, the default.
    Tcp,
    Udp,
    Sctp,
}

impl Protocol {
    /// Every protocol.
    pub const ALL: [Self; 3] = [Self::Tcp, Self::Udp, Self::Sctp];

    /// The protocol number in the IP header (IANA "Assigned Internet Protocol Numbers").
    pub const fn number(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
            Self::Sctp => 132,
        }
    }

    /// Lower-case name, as nft and kube-proxy's hashes write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Sctp => "sctp",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A text that is no protocol of Services.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not one of TCP, UDP, SCTP")]
pub struct UnknownProtocol(pub String);

impl FromStr for Protocol {
    type Err = UnknownProtocol;

    /// Accepts any letter case: the API writes `TCP`, people write `tcp`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|it| it.as_str().eq_ignore_ascii_case(text))
            .ok_or_else(|| UnknownProtocol(text.to_owned()))
    }
}

/// The two IP families.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IpFamily {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl IpFamily {
    /// Both families, IPv4 first.
    pub const ALL: [Self; 2] = [Self::V4, Self::V6];

    /// The family's name in nft: `ip`, `ip6`.
    pub const fn nft_name(self) -> &'static str {
        match self {
            Self::V4 => "ip",
            Self::V6 => "ip6",
        }
    }

    /// The family of an address.
    pub const fn of(addr: &IpAddr) -> Self {
        match addr {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// The family of a prefix.
    pub const fn of_net(net: &ipnet::IpNet) -> Self {
        match net {
            ipnet::IpNet::V4(_) => Self::V4,
            ipnet::IpNet::V6(_) => Self::V6,
        }
    }
}

impl fmt::Display for IpFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}
