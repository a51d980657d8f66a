//! Real servers.

use std::net::SocketAddr;

use crate::attr::{Attr, AttrWriter, Attrs};
use crate::family::IpFamily;

use super::key::union;
use super::statistics::Statistics;
use super::uapi::{
    FORWARDING_MASK, IPVS_CMD_ATTR_DEST, IPVS_DEST_ATTR_ACTIVE_CONNS, IPVS_DEST_ATTR_ADDR,
    IPVS_DEST_ATTR_ADDR_FAMILY, IPVS_DEST_ATTR_FWD_METHOD, IPVS_DEST_ATTR_INACT_CONNS,
    IPVS_DEST_ATTR_L_THRESH, IPVS_DEST_ATTR_PERSIST_CONNS, IPVS_DEST_ATTR_PORT,
    IPVS_DEST_ATTR_STATS, IPVS_DEST_ATTR_STATS64, IPVS_DEST_ATTR_U_THRESH, IPVS_DEST_ATTR_WEIGHT,
};

/// How packets reach a real server (`IP_VS_CONN_F_FWD_MASK`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Forwarding {
    /// Their destination is translated, and the source of the answers (`Masq`).
    Masquerade,
    /// They stay on this machine (`Local`).
    Local,
    /// In another IP packet (`Tunnel`).
    Tunnel,
    /// As they are, to the link-layer address of the real server (`Route`).
    Route,
    /// A number that has another or no meaning.
    Other(u8),
}

impl Forwarding {
    fn number(self) -> u8 {
        match self {
            Self::Masquerade => 0,
            Self::Local => 1,
            Self::Tunnel => 2,
            Self::Route => 3,
            Self::Other(number) => number,
        }
    }

    fn from_number(number: u8) -> Self {
        match number {
            0 => Self::Masquerade,
            1 => Self::Local,
            2 => Self::Tunnel,
            3 => Self::Route,
            number => Self::Other(number),
        }
    }
}

/// A real server of one virtual server as it is configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Real {
    /// Its address and port; with another forwarding than [`Forwarding::Masquerade`] the port is
    /// that of the virtual server.
    pub address: SocketAddr,
    /// How packets reach it.
    pub forwarding: Forwarding,
    /// Its share of new connections, below 2³¹ (`ipvsadm` takes 65535); 0 gets none and keeps those
    /// that it has.
    pub weight: u32,
    /// With so many connections it gets no more; 0 is no limit.
    pub upper_threshold: u32,
    /// Below so many connections it gets some again; 0 is three quarters of the upper one.
    pub lower_threshold: u32,
}

impl Real {
    /// Writes `IPVS_CMD_ATTR_DEST` in full.
    pub(super) fn put(&self, writer: &mut AttrWriter) {
        writer.nested(IPVS_CMD_ATTR_DEST, |dest| {
            put_address(dest, self.address);
            dest.u32_ne(IPVS_DEST_ATTR_FWD_METHOD, self.forwarding.number().into());
            dest.u32_ne(IPVS_DEST_ATTR_WEIGHT, self.weight);
            dest.u32_ne(IPVS_DEST_ATTR_U_THRESH, self.upper_threshold);
            dest.u32_ne(IPVS_DEST_ATTR_L_THRESH, self.lower_threshold);
        });
    }

    fn decode(attrs: &Attrs<'_>, virtual_family: IpFamily) -> Option<Self> {
        let family = match attrs.find(IPVS_DEST_ATTR_ADDR_FAMILY) {
            Some(it) => IpFamily::from_number(it.u16_ne()?)?,
            // Before 3.18 it was always that of the virtual server.
            None => virtual_family,
        };
        let ip = family.address(attrs.find(IPVS_DEST_ATTR_ADDR)?.value)?;
        let port = attrs.find(IPVS_DEST_ATTR_PORT)?.u16_be()?;
        let number = |kind| attrs.find(kind)?.u32_ne();
        let forwarding = number(IPVS_DEST_ATTR_FWD_METHOD)? & FORWARDING_MASK;
        Some(Self {
            address: SocketAddr::new(ip, port),
            forwarding: Forwarding::from_number(u8::try_from(forwarding).ok()?),
            weight: number(IPVS_DEST_ATTR_WEIGHT)?,
            upper_threshold: number(IPVS_DEST_ATTR_U_THRESH)?,
            lower_threshold: number(IPVS_DEST_ATTR_L_THRESH)?,
        })
    }
}

/// Writes `IPVS_CMD_ATTR_DEST` with nothing in it but which real server is meant.
pub(super) fn put_key(writer: &mut AttrWriter, address: SocketAddr) {
    writer.nested(IPVS_CMD_ATTR_DEST, |dest| put_address(dest, address));
}

fn put_address(dest: &mut AttrWriter, address: SocketAddr) {
    let family = IpFamily::of(address.ip()).number();
    dest.bytes(IPVS_DEST_ATTR_ADDR, &union(address.ip()));
    dest.u16_be(IPVS_DEST_ATTR_PORT, address.port());
    dest.u16_ne(IPVS_DEST_ATTR_ADDR_FAMILY, family.into());
}

/// A real server as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RealState {
    /// How it is configured.
    pub server: Real,
    /// Established connections.
    pub active: u32,
    /// Connections that are not established: begun, ending, or without a state, as all of UDP.
    pub inactive: u32,
    /// Clients that will come back to it ([`super::Flags::PERSISTENT`]).
    pub persistent: u32,
    /// What went to it.
    pub statistics: Statistics,
}

impl RealState {
    /// Reads `IPVS_CMD_ATTR_DEST` of a virtual server of this family.
    pub(super) fn decode(dest: &Attr<'_>, family: IpFamily) -> Option<Self> {
        let attrs = dest.nested();
        let number = |kind| attrs.find(kind)?.u32_ne();
        Some(Self {
            server: Real::decode(&attrs, family)?,
            active: number(IPVS_DEST_ATTR_ACTIVE_CONNS)?,
            inactive: number(IPVS_DEST_ATTR_INACT_CONNS)?,
            persistent: number(IPVS_DEST_ATTR_PERSIST_CONNS)?,
            statistics: Statistics::find(&attrs, IPVS_DEST_ATTR_STATS64, IPVS_DEST_ATTR_STATS),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `ip_vs_genl_fill_dest` writes it.
    fn listed(real: Real) -> AttrWriter {
        let mut writer = AttrWriter::new();
        real.put(&mut writer);
        let mut inner = AttrWriter::new();
        let content = Attrs::new(writer.as_bytes()).next().unwrap().value.to_vec();
        inner.raw(&content);
        for (kind, value) in [
            (IPVS_DEST_ATTR_ACTIVE_CONNS, 3),
            (IPVS_DEST_ATTR_INACT_CONNS, 2),
            (IPVS_DEST_ATTR_PERSIST_CONNS, 1),
        ] {
            inner.u32_ne(kind, value);
        }
        let mut outer = AttrWriter::new();
        outer.bytes(IPVS_CMD_ATTR_DEST, inner.as_bytes());
        outer
    }

    #[test]
    fn real_servers_read_back() {
        for address in ["10.244.0.2:8080", "[fd00::2]:53"] {
            for forwarding in (0..8).map(Forwarding::from_number) {
                let real = Real {
                    address: address.parse().unwrap(),
                    forwarding,
                    weight: 100,
                    upper_threshold: 20,
                    lower_threshold: 10,
                };
                let writer = listed(real);
                let attr = Attrs::new(writer.as_bytes()).next().unwrap();
                let state = RealState::decode(&attr, IpFamily::V4).unwrap();
                assert_eq!(state.server, real);
                assert_eq!((state.active, state.inactive, state.persistent), (3, 2, 1));
            }
        }
    }
}
