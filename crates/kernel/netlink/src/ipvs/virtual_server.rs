//! Virtual servers.

use std::ops::BitOr;
use std::sync::Arc;

use crate::attr::{AttrWriter, Attrs};
use crate::family::Family;

use super::key::Key;
use super::uapi::{
    IPVS_CMD_ATTR_SERVICE, IPVS_SVC_ATTR_FLAGS, IPVS_SVC_ATTR_NETMASK, IPVS_SVC_ATTR_SCHED_NAME,
    IPVS_SVC_ATTR_TIMEOUT, SVC_HASHED,
};

/// The `IP_VS_SVC_F_*` that a program may set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Flags(u32);

impl Flags {
    /// All connections of a client go to the real server of its first one.
    pub const PERSISTENT: Self = Self(0x1);
    /// Each UDP datagram is scheduled alone.
    pub const ONE_PACKET: Self = Self(0x4);
    /// `sh` and `mh`: choose another real server when the first choice has weight 0 (`sh-fallback`).
    pub const HASH_FALLBACK: Self = Self(0x8);
    /// `sh` and `mh`: the client's port is part of the hash (`sh-port`).
    pub const HASH_PORT: Self = Self(0x10);

    /// Whether all of `other` are set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The number that the kernel uses.
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

/// The configuration of a virtual server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Virtual {
    pub key: Key,
    /// The name of its scheduler, one of [`super::SCHEDULERS`].
    pub scheduler: Arc<str>,
    /// How it schedules connections.
    pub flags: Flags,
    /// Seconds that a client stays with its real server after its last connection; only with
    /// [`Flags::PERSISTENT`].
    pub timeout: u32,
    /// Clients with an equal prefix of this length count as one client, usually all bits. Not 0 with
    /// IPv6.
    pub prefix: u8,
}

impl Virtual {
    /// Writes `IPVS_CMD_ATTR_SERVICE` in full.
    pub(super) fn put(&self, writer: &mut AttrWriter) {
        writer.nested(IPVS_CMD_ATTR_SERVICE, |service| {
            self.key.put_fields(service);
            service.string(IPVS_SVC_ATTR_SCHED_NAME, &self.scheduler);
            // `struct ip_vs_flags`: the values, then the mask of the flags to change. An edit keeps
            // the flags outside the mask, so it has all but the kernel's own one.
            let mut flags = [0; 8];
            flags[..4].copy_from_slice(&self.flags.0.to_ne_bytes());
            flags[4..].copy_from_slice(&(!SVC_HASHED).to_ne_bytes());
            service.bytes(IPVS_SVC_ATTR_FLAGS, &flags);
            service.u32_ne(IPVS_SVC_ATTR_TIMEOUT, self.timeout);
            match self.key.family() {
                Family::Ipv4 => service.u32_be(IPVS_SVC_ATTR_NETMASK, netmask(self.prefix)),
                // With IPv6 the kernel takes a prefix length in this attribute.
                Family::Ipv6 => service.u32_ne(IPVS_SVC_ATTR_NETMASK, u32::from(self.prefix)),
            }
        });
    }

    /// Reads the attributes inside `IPVS_CMD_ATTR_SERVICE`.
    pub(super) fn decode(service: &Attrs<'_>) -> Option<Self> {
        let key = Key::decode(service)?;
        Some(Self {
            key,
            scheduler: service.str(IPVS_SVC_ATTR_SCHED_NAME)?.into(),
            flags: Flags(service.u32_ne(IPVS_SVC_ATTR_FLAGS)? & !SVC_HASHED),
            timeout: service.u32_ne(IPVS_SVC_ATTR_TIMEOUT)?,
            prefix: match key.family() {
                Family::Ipv4 => {
                    let mask = service.u32_be(IPVS_SVC_ATTR_NETMASK)?;
                    u8::try_from(mask.leading_ones()).ok()?
                }
                Family::Ipv6 => u8::try_from(service.u32_ne(IPVS_SVC_ATTR_NETMASK)?).ok()?,
            },
        })
    }
}

fn netmask(prefix: u8) -> u32 {
    let host = 32 - u32::from(prefix.min(32));
    u32::MAX.checked_shl(host).unwrap_or(0)
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
            let read = Virtual::decode(&service.unwrap().nested());
            assert_eq!(read, Some(server));
        }
    }

    proptest! {
        #[test]
        fn never_panics_on_random_bytes(bytes in prop::collection::vec(0_u8..14, 0..120)) {
            let attrs = Attrs::new(&bytes);
            let _ = Virtual::decode(&attrs);
            let _ = RealState::decode(&attrs);
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
