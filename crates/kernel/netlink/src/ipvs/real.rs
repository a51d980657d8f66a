//! Real servers.

use std::net::SocketAddr;

use crate::attr::{AttrWriter, Attrs};
use crate::family::Family;

use super::key::union;
use super::uapi::{
    FORWARDING_MASK, IPVS_CMD_ATTR_DEST, IPVS_DEST_ATTR_ACTIVE_CONNS, IPVS_DEST_ATTR_ADDR,
    IPVS_DEST_ATTR_ADDR_FAMILY, IPVS_DEST_ATTR_FWD_METHOD, IPVS_DEST_ATTR_INACT_CONNS,
    IPVS_DEST_ATTR_L_THRESH, IPVS_DEST_ATTR_PORT, IPVS_DEST_ATTR_STATS64, IPVS_DEST_ATTR_U_THRESH,
    IPVS_DEST_ATTR_WEIGHT, IPVS_STATS_ATTR_CONNS,
};

/// How packets reach a real server (`IP_VS_CONN_F_FWD_MASK`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Forwarding {
    /// Their destination is translated, and the source of the answers (`Masq`).
    Masquerade,
    /// Deliver packets on this machine (`Local`).
    Local,
    /// Send packets inside another IP packet (`Tunnel`).
    Tunnel,
    /// Send packets unchanged to the link-layer address of the real server (`Route`).
    Route,
    /// A number that the kernel gives no meaning, or one of its own.
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

/// The configuration of a real server of one virtual server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Real {
    /// Its address and port. Only [`Forwarding::Masquerade`] permits another port than that of the
    /// virtual server.
    pub address: SocketAddr,
    /// How packets reach it.
    pub forwarding: Forwarding,
    /// Its share of new connections, below 2³¹ (`ipvsadm` permits 65535). With 0 it gets no new
    /// connections, and existing ones stay.
    pub weight: u32,
    /// At this number of connections it gets no new ones; 0 is no limit.
    pub upper_threshold: u32,
    /// Below this number of connections it gets new ones again; 0 is three quarters of the upper one.
    pub lower_threshold: u32,
}

impl Real {
    /// Writes `IPVS_CMD_ATTR_DEST` in full.
    pub(super) fn put(&self, writer: &mut AttrWriter) {
        writer.nested(IPVS_CMD_ATTR_DEST, |dest| {
            put_address(dest, self.address);
            dest.u32_ne(
                IPVS_DEST_ATTR_FWD_METHOD,
                u32::from(self.forwarding.number()),
            );
            dest.u32_ne(IPVS_DEST_ATTR_WEIGHT, self.weight);
            dest.u32_ne(IPVS_DEST_ATTR_U_THRESH, self.upper_threshold);
            dest.u32_ne(IPVS_DEST_ATTR_L_THRESH, self.lower_threshold);
        });
    }

    fn decode(dest: &Attrs<'_>) -> Option<Self> {
        let family = Family::from_number(dest.u16_ne(IPVS_DEST_ATTR_ADDR_FAMILY)?)?;
        let ip = family.address(dest.find(IPVS_DEST_ATTR_ADDR)?.value)?;
        let forwarding = dest.u32_ne(IPVS_DEST_ATTR_FWD_METHOD)? & FORWARDING_MASK;
        Some(Self {
            address: SocketAddr::new(ip, dest.u16_be(IPVS_DEST_ATTR_PORT)?),
            forwarding: Forwarding::from_number(u8::try_from(forwarding).ok()?),
            weight: dest.u32_ne(IPVS_DEST_ATTR_WEIGHT)?,
            upper_threshold: dest.u32_ne(IPVS_DEST_ATTR_U_THRESH)?,
            lower_threshold: dest.u32_ne(IPVS_DEST_ATTR_L_THRESH)?,
        })
    }
}

/// Writes `IPVS_CMD_ATTR_DEST` with the address alone.
pub(super) fn put_key(writer: &mut AttrWriter, address: SocketAddr) {
    writer.nested(IPVS_CMD_ATTR_DEST, |dest| put_address(dest, address));
}

fn put_address(dest: &mut AttrWriter, address: SocketAddr) {
    let family = Family::of(address.ip()).number();
    dest.bytes(IPVS_DEST_ATTR_ADDR, &union(address.ip()));
    dest.u16_be(IPVS_DEST_ATTR_PORT, address.port());
    dest.u16_ne(IPVS_DEST_ATTR_ADDR_FAMILY, u16::from(family));
}

/// A real server in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RealState {
    /// Its configuration.
    pub server: Real,
    /// Established connections.
    pub active: u32,
    /// Connections that are not established: opening, closing, or without a state, as all of UDP.
    pub inactive: u32,
    /// Connections that were scheduled to it since it was added. The kernel updates the number every
    /// two seconds (`ip_vs_est.c`).
    pub connections: u64,
}

impl RealState {
    /// Reads the attributes inside `IPVS_CMD_ATTR_DEST`.
    pub(super) fn decode(dest: &Attrs<'_>) -> Option<Self> {
        let statistics = dest.nested(IPVS_DEST_ATTR_STATS64);
        Some(Self {
            server: Real::decode(dest)?,
            active: dest.u32_ne(IPVS_DEST_ATTR_ACTIVE_CONNS)?,
            inactive: dest.u32_ne(IPVS_DEST_ATTR_INACT_CONNS)?,
            connections: statistics.u64_ne(IPVS_STATS_ATTR_CONNS).unwrap_or(0),
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
        let dest = Attrs::new(writer.as_bytes()).find(IPVS_CMD_ATTR_DEST);
        let mut listed = AttrWriter::new();
        listed.raw(dest.unwrap().value);
        listed.u32_ne(IPVS_DEST_ATTR_ACTIVE_CONNS, 3);
        listed.u32_ne(IPVS_DEST_ATTR_INACT_CONNS, 2);
        listed.nested(IPVS_DEST_ATTR_STATS64, |it| {
            it.bytes(IPVS_STATS_ATTR_CONNS, &(1_u64 << 40).to_ne_bytes());
        });
        listed
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
                let state = RealState::decode(&Attrs::new(listed(real).as_bytes())).unwrap();
                assert_eq!(state.server, real);
                let counts = (state.active, state.inactive, state.connections);
                assert_eq!(counts, (3, 2, 1 << 40));
            }
        }
    }
}
