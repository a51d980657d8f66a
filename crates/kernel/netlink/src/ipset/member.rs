//! Members of sets.

use std::fmt;
use std::net::IpAddr;

use crate::attr::{AttrWriter, Attrs};
use crate::family::Family;

use super::uapi::{
    IPSET_ATTR_CIDR, IPSET_ATTR_CIDR2, IPSET_ATTR_DATA, IPSET_ATTR_IP, IPSET_ATTR_IP2,
    IPSET_ATTR_IPADDR_IPV4, IPSET_ATTR_IPADDR_IPV6, IPSET_ATTR_PORT, IPSET_ATTR_PROTO,
    IPSET_ATTR_SKBMARK, NET_ORDER,
};

/// The mark that a rule with `--map-mark` gives to the packets of a member (`skbmark`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mark {
    /// The bits to set.
    pub value: u32,
    /// The bits that change.
    pub mask: u32,
}

/// A member of a set, in the fields that the type of the set has. Others are not decoded.
///
/// A listed member equals the added one when added networks have no host bits, and always a length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Member {
    /// The first address, of types that begin with `ip` or `net`.
    pub ip: Option<IpAddr>,
    /// Prefix length of `ip`, at least 1; only in `hash:net`.
    pub prefix: Option<u8>,
    /// The port, of types that have one.
    pub port: Option<u16>,
    /// `IPPROTO_*` of the port; `None` in `bitmap:port`, whose ports are of any protocol.
    pub protocol: Option<u8>,
    /// The second address, of types that end in `ip` or `net`.
    pub second: Option<IpAddr>,
    /// Prefix length of `second`, at least 1; only in `hash:ip,port,net`.
    pub second_prefix: Option<u8>,
    /// The mark of the member's packets, in sets with marks.
    pub mark: Option<Mark>,
}

impl Member {
    pub(super) fn decode(attrs: &Attrs<'_>) -> Self {
        let mark = attrs.u64_be(IPSET_ATTR_SKBMARK);
        Self {
            ip: address(&attrs.nested(IPSET_ATTR_IP)),
            prefix: attrs.u8(IPSET_ATTR_CIDR),
            port: attrs.u16_be(IPSET_ATTR_PORT),
            protocol: attrs.u8(IPSET_ATTR_PROTO),
            second: address(&attrs.nested(IPSET_ATTR_IP2)),
            second_prefix: attrs.u8(IPSET_ATTR_CIDR2),
            mark: mark.map(|it| Mark {
                value: (it >> 32) as u32,
                mask: it as u32,
            }),
        }
    }

    fn put(&self, data: &mut AttrWriter) {
        if let Some(ip) = self.ip {
            put_address(data, IPSET_ATTR_IP, ip);
        }
        data.u8(IPSET_ATTR_CIDR, self.prefix);
        data.u16_be(IPSET_ATTR_PORT | NET_ORDER, self.port);
        data.u8(IPSET_ATTR_PROTO, self.protocol);
        if let Some(ip) = self.second {
            put_address(data, IPSET_ATTR_IP2, ip);
        }
        data.u8(IPSET_ATTR_CIDR2, self.second_prefix);
        if let Some(Mark { value, mask }) = self.mark {
            let both = u64::from(value) << 32 | u64::from(mask);
            data.u64_be(IPSET_ATTR_SKBMARK | NET_ORDER, both);
        }
    }
}

/// Prints as `ipset` does, with numbers for protocols.
impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut comma = "";
        if let Some(ip) = self.ip {
            write!(f, "{ip}")?;
            self.prefix.iter().try_for_each(|it| write!(f, "/{it}"))?;
            comma = ",";
        }
        if let Some(port) = self.port {
            f.write_str(comma)?;
            self.protocol.iter().try_for_each(|it| write!(f, "{it}:"))?;
            write!(f, "{port}")?;
            comma = ",";
        }
        if let Some(ip) = self.second {
            write!(f, "{comma}{ip}")?;
            let mut prefix = self.second_prefix.iter();
            prefix.try_for_each(|it| write!(f, "/{it}"))?;
        }
        Ok(())
    }
}

/// A change of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Adds a member; an existing one gets the mark.
    Add(Member),
    /// Deletes a member, whatever its mark; a missing one is no error.
    Delete(Member),
}

impl Change {
    pub(super) fn member(&self) -> &Member {
        match self {
            Self::Add(member) | Self::Delete(member) => member,
        }
    }

    /// Writes `IPSET_ATTR_DATA`.
    pub(super) fn put(&self, writer: &mut AttrWriter) {
        writer.nested(IPSET_ATTR_DATA, |data| match self {
            Self::Add(member) => member.put(data),
            Self::Delete(member) => Member {
                mark: None,
                ..*member
            }
            .put(data),
        });
    }
}

fn address(attrs: &Attrs<'_>) -> Option<IpAddr> {
    match attrs.find(IPSET_ATTR_IPADDR_IPV4) {
        Some(attr) => Family::Ipv4.address(attr.value),
        None => Family::Ipv6.address(attrs.find(IPSET_ATTR_IPADDR_IPV6)?.value),
    }
}

fn put_address(writer: &mut AttrWriter, kind: u16, ip: IpAddr) {
    let inner = match ip {
        IpAddr::V4(_) => IPSET_ATTR_IPADDR_IPV4,
        IpAddr::V6(_) => IPSET_ATTR_IPADDR_IPV6,
    };
    writer.nested(kind, |it| it.address(inner | NET_ORDER, ip));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn data(change: Change) -> Member {
        let mut writer = AttrWriter::new();
        change.put(&mut writer);
        let data = Attrs::new(writer.as_bytes()).find(IPSET_ATTR_DATA);
        Member::decode(&data.unwrap().nested())
    }

    fn ip(text: &str) -> Option<IpAddr> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn members_read_back_and_show_what_they_are() {
        let mark = Some(Mark {
            value: 0x4000,
            mask: 0xffff_0000,
        });
        let port = Member {
            port: Some(80),
            ..Member::default()
        };
        for (member, text) in [
            (Member::default(), ""),
            (port, "80"),
            (
                Member {
                    ip: ip("10.0.0.1"),
                    ..Member::default()
                },
                "10.0.0.1",
            ),
            (
                Member {
                    ip: ip("10.0.0.0"),
                    prefix: Some(8),
                    ..Member::default()
                },
                "10.0.0.0/8",
            ),
            (
                Member {
                    ip: ip("fd00::1"),
                    protocol: Some(17),
                    mark,
                    ..port
                },
                "fd00::1,17:80",
            ),
            (
                Member {
                    ip: ip("10.0.0.1"),
                    protocol: Some(6),
                    second: ip("192.168.0.0"),
                    second_prefix: Some(16),
                    ..port
                },
                "10.0.0.1,6:80,192.168.0.0/16",
            ),
        ] {
            assert_eq!(data(Change::Add(member)), member);
            assert_eq!(member.to_string(), text);
            let unmarked = Member {
                mark: None,
                ..member
            };
            assert_eq!(data(Change::Delete(member)), unmarked);
        }
    }

    proptest! {
        #[test]
        fn never_panics_on_random_members(bytes in prop::collection::vec(0_u8..24, 0..80)) {
            let _ = Member::decode(&Attrs::new(&bytes));
        }
    }
}
