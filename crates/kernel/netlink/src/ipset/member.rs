//! What sets contain.

use std::fmt;
use std::net::IpAddr;

use crate::attr::{AttrWriter, Attrs};
use crate::family::IpFamily;

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

/// A member of a set, as far as its type has these fields; others are left out.
///
/// What is listed equals what was added when an added network has no host bits, and a length even
/// where it has all bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Member {
    /// The first address, of types that begin with `ip` or `net`.
    pub ip: Option<IpAddr>,
    /// Length of the network that `ip` is; at least 1, in `hash:net` alone.
    pub prefix: Option<u8>,
    /// The port, of types that have one.
    pub port: Option<u16>,
    /// `IPPROTO_*` of the port; `None` in `bitmap:port`, where it means any.
    pub protocol: Option<u8>,
    /// The second address, of types that end in `ip` or `net`.
    pub second: Option<IpAddr>,
    /// Length of the network that `second` is; at least 1, in `hash:ip,port,net` alone.
    pub second_prefix: Option<u8>,
    /// The mark that it gives, in sets that have marks; `None` is none.
    pub mark: Option<Mark>,
}

impl Member {
    pub(super) fn decode(attrs: &Attrs<'_>) -> Self {
        let ip = |kind| attrs.find(kind).and_then(|it| address(&it.nested()));
        let byte = |kind| attrs.find(kind).and_then(|it| it.u8());
        let mark = attrs.find(IPSET_ATTR_SKBMARK).and_then(|it| it.u64_be());
        Self {
            ip: ip(IPSET_ATTR_IP),
            prefix: byte(IPSET_ATTR_CIDR),
            port: attrs.find(IPSET_ATTR_PORT).and_then(|it| it.u16_be()),
            protocol: byte(IPSET_ATTR_PROTO),
            second: ip(IPSET_ATTR_IP2),
            second_prefix: byte(IPSET_ATTR_CIDR2),
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
        if let Some(prefix) = self.prefix {
            data.u8(IPSET_ATTR_CIDR, prefix);
        }
        if let Some(port) = self.port {
            data.u16_be(IPSET_ATTR_PORT | NET_ORDER, port);
        }
        if let Some(protocol) = self.protocol {
            data.u8(IPSET_ATTR_PROTO, protocol);
        }
        if let Some(ip) = self.second {
            put_address(data, IPSET_ATTR_IP2, ip);
        }
        if let Some(prefix) = self.second_prefix {
            data.u8(IPSET_ATTR_CIDR2, prefix);
        }
        if let Some(Mark { value, mask }) = self.mark {
            let both = u64::from(value) << 32 | u64::from(mask);
            data.u64_be(IPSET_ATTR_SKBMARK | NET_ORDER, both);
        }
    }
}

/// As `ipset` writes it, but for the names of protocols.
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
    /// Adds a member; one that is there gets the mark.
    Add(Member),
    /// Deletes a member, whatever its mark; one that is not there is success.
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
        Some(attr) => IpFamily::V4.address(attr.value),
        None => IpFamily::V6.address(attrs.find(IPSET_ATTR_IPADDR_IPV6)?.value),
    }
}

fn put_address(writer: &mut AttrWriter, kind: u16, ip: IpAddr) {
    writer.nested(kind, |it| match ip {
        IpAddr::V4(ip) => it.bytes(IPSET_ATTR_IPADDR_IPV4 | NET_ORDER, &ip.octets()),
        IpAddr::V6(ip) => it.bytes(IPSET_ATTR_IPADDR_IPV6 | NET_ORDER, &ip.octets()),
    });
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
