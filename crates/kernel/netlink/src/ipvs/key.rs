//! Keys of virtual servers.

use std::fmt;
use std::net::IpAddr;

use crate::attr::{AttrWriter, Attrs};
use crate::family::{Family, octets};

use super::uapi::{
    IPVS_CMD_ATTR_SERVICE, IPVS_SVC_ATTR_ADDR, IPVS_SVC_ATTR_AF, IPVS_SVC_ATTR_FWMARK,
    IPVS_SVC_ATTR_PORT, IPVS_SVC_ATTR_PROTOCOL,
};

/// The address, protocol and port that clients of a virtual server dial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VirtualServer {
    /// Its address.
    pub ip: IpAddr,
    /// `IPPROTO_*`.
    pub protocol: u8,
    /// Its port; 0 is any port.
    pub port: u16,
}

/// The key by which the kernel knows a virtual server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// Address, protocol and port.
    Address(VirtualServer),
    /// The firewall mark of its packets, whatever their destination.
    Mark {
        /// The family of the packets.
        family: Family,
        /// Not 0, which means no mark.
        mark: u32,
    },
}

impl Key {
    /// Address, protocol and port; `None` for a mark.
    #[must_use]
    pub fn address(&self) -> Option<VirtualServer> {
        match self {
            Self::Address(it) => Some(*it),
            Self::Mark { .. } => None,
        }
    }

    /// The family of the packets.
    #[must_use]
    pub fn family(&self) -> Family {
        match self {
            Self::Address(it) => Family::of(it.ip),
            Self::Mark { family, .. } => *family,
        }
    }

    /// Reads the attributes inside `IPVS_CMD_ATTR_SERVICE`.
    pub(super) fn decode(attrs: &Attrs<'_>) -> Option<Self> {
        let family = Family::from_number(attrs.u16_ne(IPVS_SVC_ATTR_AF)?)?;
        if let Some(mark) = attrs.u32_ne(IPVS_SVC_ATTR_FWMARK) {
            return Some(Self::Mark { family, mark });
        }
        let protocol = attrs.u16_ne(IPVS_SVC_ATTR_PROTOCOL)?;
        Some(Self::Address(VirtualServer {
            ip: family.address(attrs.find(IPVS_SVC_ATTR_ADDR)?.value)?,
            protocol: u8::try_from(protocol).ok()?,
            port: attrs.u16_be(IPVS_SVC_ATTR_PORT)?,
        }))
    }

    /// Writes the attributes of the key into an open `IPVS_CMD_ATTR_SERVICE`.
    pub(super) fn put_fields(&self, service: &mut AttrWriter) {
        service.u16_ne(IPVS_SVC_ATTR_AF, u16::from(self.family().number()));
        match self {
            Self::Address(VirtualServer { ip, protocol, port }) => {
                service.u16_ne(IPVS_SVC_ATTR_PROTOCOL, u16::from(*protocol));
                service.bytes(IPVS_SVC_ATTR_ADDR, &union(*ip));
                service.u16_be(IPVS_SVC_ATTR_PORT, *port);
            }
            Self::Mark { mark, .. } => service.u32_ne(IPVS_SVC_ATTR_FWMARK, *mark),
        }
    }

    /// Writes `IPVS_CMD_ATTR_SERVICE` with the key alone.
    pub(super) fn put(&self, writer: &mut AttrWriter) {
        writer.nested(IPVS_CMD_ATTR_SERVICE, |it| self.put_fields(it));
    }
}

/// The kernel takes an address as a union of 16 bytes, whatever the family.
pub(super) fn union(ip: IpAddr) -> [u8; 16] {
    let mut bytes = [0; 16];
    let octets = octets(ip);
    bytes[..octets.len()].copy_from_slice(&octets);
    bytes
}

impl fmt::Display for VirtualServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ip, protocol, port } = self;
        write!(f, "{ip} protocol {protocol} port {port}")
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(it) => it.fmt(f),
            Self::Mark { family, mark } => write!(f, "mark {mark:#x} of {family}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn reads_back(key: Key) {
        let mut writer = AttrWriter::new();
        key.put(&mut writer);
        let service = Attrs::new(writer.as_bytes()).find(IPVS_CMD_ATTR_SERVICE);
        assert_eq!(Key::decode(&service.unwrap().nested()), Some(key));
    }

    #[test]
    fn keys_read_back() {
        for ip in ["10.96.0.10", "fd00:10:96::a"] {
            reads_back(Key::Address(VirtualServer {
                ip: ip.parse().unwrap(),
                protocol: 6,
                port: 80,
            }));
        }
        for family in [Family::Ipv4, Family::Ipv6] {
            reads_back(Key::Mark { family, mark: 7 });
        }
    }

    #[test]
    fn an_address_that_is_too_short_is_none() {
        let mut writer = AttrWriter::new();
        writer.u16_ne(IPVS_SVC_ATTR_AF, 10);
        writer.u16_ne(IPVS_SVC_ATTR_PROTOCOL, 6);
        writer.bytes(IPVS_SVC_ATTR_ADDR, &[1, 2, 3, 4]);
        writer.u16_be(IPVS_SVC_ATTR_PORT, 80);
        assert_eq!(Key::decode(&Attrs::new(writer.as_bytes())), None);
    }
}
