//! By what a virtual server is known.

use std::fmt;
use std::net::IpAddr;

use crate::attr::{AttrWriter, Attrs};
use crate::family::IpFamily;

use super::uapi::{
    IPVS_CMD_ATTR_SERVICE, IPVS_SVC_ATTR_ADDR, IPVS_SVC_ATTR_AF, IPVS_SVC_ATTR_FWMARK,
    IPVS_SVC_ATTR_PORT, IPVS_SVC_ATTR_PROTOCOL,
};

/// What clients of a virtual server dial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VirtualServer {
    /// Its address.
    pub ip: IpAddr,
    /// `IPPROTO_*`.
    pub protocol: u8,
    /// Its port; 0 is any.
    pub port: u16,
}

/// By what the kernel knows a virtual server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// What its clients dial.
    Address(VirtualServer),
    /// The firewall mark of its packets, whatever they are addressed to.
    Mark {
        /// The family of the packets.
        family: IpFamily,
        /// Not 0, which is no mark.
        mark: u32,
    },
}

impl Key {
    /// What clients dial; `None` for one that is known by a mark.
    #[must_use]
    pub fn address(&self) -> Option<VirtualServer> {
        match self {
            Self::Address(it) => Some(*it),
            Self::Mark { .. } => None,
        }
    }

    /// The family of the packets.
    #[must_use]
    pub fn family(&self) -> IpFamily {
        match self {
            Self::Address(it) => IpFamily::of(it.ip),
            Self::Mark { family, .. } => *family,
        }
    }

    /// Reads the content of `IPVS_CMD_ATTR_SERVICE`.
    pub(super) fn decode(attrs: &Attrs<'_>) -> Option<Self> {
        let family = attrs.find(IPVS_SVC_ATTR_AF)?.u16_ne()?;
        let family = IpFamily::from_number(family)?;
        if let Some(mark) = attrs.find(IPVS_SVC_ATTR_FWMARK) {
            let mark = mark.u32_ne()?;
            return Some(Self::Mark { family, mark });
        }
        let protocol = attrs.find(IPVS_SVC_ATTR_PROTOCOL)?.u16_ne()?;
        Some(Self::Address(VirtualServer {
            ip: family.address(attrs.find(IPVS_SVC_ATTR_ADDR)?.value)?,
            protocol: u8::try_from(protocol).ok()?,
            port: attrs.find(IPVS_SVC_ATTR_PORT)?.u16_be()?,
        }))
    }

    /// Writes what the content of `IPVS_CMD_ATTR_SERVICE` begins with.
    pub(super) fn put_fields(&self, service: &mut AttrWriter) {
        service.u16_ne(IPVS_SVC_ATTR_AF, self.family().number().into());
        match self {
            Self::Address(VirtualServer { ip, protocol, port }) => {
                service.u16_ne(IPVS_SVC_ATTR_PROTOCOL, (*protocol).into());
                service.bytes(IPVS_SVC_ATTR_ADDR, &union(*ip));
                service.u16_be(IPVS_SVC_ATTR_PORT, *port);
            }
            Self::Mark { mark, .. } => service.u32_ne(IPVS_SVC_ATTR_FWMARK, *mark),
        }
    }

    /// Writes `IPVS_CMD_ATTR_SERVICE` with nothing but this in it.
    pub(super) fn put(&self, writer: &mut AttrWriter) {
        writer.nested(IPVS_CMD_ATTR_SERVICE, |it| self.put_fields(it));
    }
}

/// The kernel takes an address as a union of 16 bytes in either family.
pub(super) fn union(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(ip) => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&ip.octets());
            bytes
        }
        IpAddr::V6(ip) => ip.octets(),
    }
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
        for family in [IpFamily::V4, IpFamily::V6] {
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
