//! Virtual servers.

use std::ops::BitOr;
use std::sync::Arc;

use crate::attr::{Attr, AttrWriter, Attrs};
use crate::family::IpFamily;

use super::key::Key;
use super::statistics::Statistics;
use super::uapi::{
    IPVS_CMD_ATTR_SERVICE, IPVS_SVC_ATTR_FLAGS, IPVS_SVC_ATTR_NETMASK, IPVS_SVC_ATTR_SCHED_NAME,
    IPVS_SVC_ATTR_STATS, IPVS_SVC_ATTR_STATS64, IPVS_SVC_ATTR_TIMEOUT, SVC_HASHED,
};

/// `IP_VS_SVC_F_*` that a program may choose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Flags(u32);

impl Flags {
    /// Connections of a client go to the real server that its first one went to.
    pub const PERSISTENT: Self = Self(0x1);
    /// Each datagram of UDP is scheduled for itself.
    pub const ONE_PACKET: Self = Self(0x4);
    /// `sh` and `mh`: another real server when the chosen one has weight 0 (`sh-fallback`).
    pub const HASH_FALLBACK: Self = Self(0x8);
    /// `sh` and `mh`: the client's port is part of the hash (`sh-port`).
    pub const HASH_PORT: Self = Self(0x10);

    /// Whether all of `other` are set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// As the kernel writes them.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }
}

impl BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A virtual server as it is configured.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Virtual {
    /// By what it is known.
    pub key: Key,
    /// The name of its scheduler, as `rr`; see [`super::SCHEDULERS`].
    pub scheduler: Arc<str>,
    /// How it treats connections.
    pub flags: Flags,
    /// How long a client stays with its real server after its last connection, in seconds; means
    /// something with [`Flags::PERSISTENT`].
    pub timeout: u32,
    /// Clients that agree in so many leading bits of their address are one client; all bits are
    /// usual. With IPv6 not 0.
    pub prefix: u8,
}

impl Virtual {
    /// Writes `IPVS_CMD_ATTR_SERVICE` in full.
    pub(super) fn put(&self, writer: &mut AttrWriter) {
        writer.nested(IPVS_CMD_ATTR_SERVICE, |service| {
            self.key.put_fields(service);
            service.string(IPVS_SVC_ATTR_SCHED_NAME, &self.scheduler);
            // `struct ip_vs_flags`: values, and which of them to take. Without the others an edit
            // would keep flags that are not set here.
            let mut flags = [0; 8];
            flags[..4].copy_from_slice(&self.flags.0.to_ne_bytes());
            flags[4..].copy_from_slice(&(!SVC_HASHED).to_ne_bytes());
            service.bytes(IPVS_SVC_ATTR_FLAGS, &flags);
            service.u32_ne(IPVS_SVC_ATTR_TIMEOUT, self.timeout);
            match self.key.family() {
                IpFamily::V4 => service.u32_be(IPVS_SVC_ATTR_NETMASK, netmask(self.prefix)),
                // The kernel keeps a prefix length in the field of the mask.
                IpFamily::V6 => service.u32_ne(IPVS_SVC_ATTR_NETMASK, self.prefix.into()),
            }
        });
    }

    fn decode(attrs: &Attrs<'_>) -> Option<Self> {
        let key = Key::decode(attrs)?;
        let mask = attrs.find(IPVS_SVC_ATTR_NETMASK)?;
        Some(Self {
            key,
            scheduler: attrs.find(IPVS_SVC_ATTR_SCHED_NAME)?.str()?.into(),
            flags: Flags(attrs.find(IPVS_SVC_ATTR_FLAGS)?.u32_ne()? & !SVC_HASHED),
            timeout: attrs.find(IPVS_SVC_ATTR_TIMEOUT)?.u32_ne()?,
            prefix: match key.family() {
                IpFamily::V4 => u8::try_from(mask.u32_be()?.leading_ones()).ok()?,
                IpFamily::V6 => u8::try_from(mask.u32_ne()?).ok()?,
            },
        })
    }
}

fn netmask(prefix: u8) -> u32 {
    let host = 32 - u32::from(prefix.min(32));
    u32::MAX.checked_shl(host).unwrap_or(0)
}

/// A virtual server as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VirtualState {
    /// How it is configured.
    pub server: Virtual,
    /// What went through it.
    pub statistics: Statistics,
}

impl VirtualState {
    /// Reads `IPVS_CMD_ATTR_SERVICE`.
    pub(super) fn decode(service: &Attr<'_>) -> Option<Self> {
        let attrs = service.nested();
        Some(Self {
            server: Virtual::decode(&attrs)?,
            statistics: Statistics::find(&attrs, IPVS_SVC_ATTR_STATS64, IPVS_SVC_ATTR_STATS),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::key::VirtualServer;
    use super::super::real::RealState;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn virtual_servers_read_back() {
        for (ip, prefix) in [
            ("10.96.0.10", 32),
            ("10.96.0.10", 24),
            ("10.96.0.10", 0),
            ("fd00:10:96::a", 128),
            ("fd00:10:96::a", 64),
        ] {
            let server = Virtual {
                key: Key::Address(VirtualServer {
                    ip: ip.parse().unwrap(),
                    protocol: 17,
                    port: 53,
                }),
                scheduler: "mh".into(),
                flags: Flags::PERSISTENT | Flags::HASH_PORT,
                timeout: 10800,
                prefix,
            };
            let mut writer = AttrWriter::new();
            server.put(&mut writer);
            let service = Attrs::new(writer.as_bytes()).find(IPVS_CMD_ATTR_SERVICE);
            let state = VirtualState::decode(&service.unwrap()).unwrap();
            assert_eq!(state.server, server);
            assert_eq!(state.statistics, Statistics::default());
        }
    }

    proptest! {
        #[test]
        fn never_panics_on_random_bytes(bytes in prop::collection::vec(0_u8..14, 0..120)) {
            let attr = Attr { kind: 1, value: &bytes };
            let _ = VirtualState::decode(&attr);
            let _ = RealState::decode(&attr, IpFamily::V4);
        }
    }

    #[test]
    fn flags_are_told_apart() {
        let flags = Flags::PERSISTENT | Flags::ONE_PACKET;
        assert!(flags.contains(Flags::PERSISTENT));
        assert!(!flags.contains(Flags::PERSISTENT | Flags::HASH_FALLBACK));
        assert_eq!(flags.bits(), 5);
    }
}
