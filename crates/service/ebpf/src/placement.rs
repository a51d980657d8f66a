//! Ids of service ports, and slots: which endpoint of a pool has which number in the maps.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use sluice_bpf_abi::Slots;
use sluice_model::Protocol;
use sluice_plan::{Pool, PortKey, PortPlan, Scope};
use sluice_plane::slots;

use crate::object::{Key, Object};

/// The first slot of the pool of this node's endpoints, behind all slots of the other.
const FIRST_LOCAL: u32 = 1 << 24;
/// How many ids are tried, beginning with a hash of the service port's name.
const CANDIDATES: u32 = 64;

/// The id and the slots of a service port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// The id; 0 before it has one.
    pub(crate) service: u32,
    /// Addresses by slot, of the pool of all endpoints.
    cluster: Arc<[SocketAddr]>,
    /// Addresses by slot, of the pool of this node's endpoints.
    local: Arc<[SocketAddr]>,
}

impl Placement {
    /// The addresses of a pool by slot, counted from the pool's first.
    pub(crate) fn addresses(&self, scope: Scope) -> &[SocketAddr] {
        match scope {
            Scope::Cluster => &self.cluster,
            Scope::Local => &self.local,
        }
    }

    /// The slots of a pool.
    pub(crate) fn slots(&self, scope: Scope) -> Slots {
        let count = u32::try_from(self.addresses(scope).len()).expect("slices are bounded");
        let first = self.slot(scope, 0);
        Slots { first, count }
    }

    /// The slot of the address at this index of [`addresses`](Self::addresses).
    pub(crate) fn slot(&self, scope: Scope, index: usize) -> u32 {
        let first = match scope {
            Scope::Cluster => 0,
            Scope::Local => FIRST_LOCAL,
        };
        first + u32::try_from(index).expect("slices are bounded")
    }
}

/// The service ports by their ids. An id is a hash of the name, so an agent that starts again uses the same.
#[derive(Debug, Default)]
pub(crate) struct Ids(BTreeMap<u32, PortKey>);

impl Ids {
    /// The id of a service port: `wanted` if no other has it, else the next free one.
    pub(crate) fn assign(&mut self, key: &PortKey, wanted: u32) -> u32 {
        let candidates = (wanted != 0)
            .then_some(wanted)
            .into_iter()
            .chain(candidates(key));
        for id in candidates {
            let owner = self.0.entry(id).or_insert_with(|| key.clone());
            if owner == key {
                return id;
            }
        }
        // A hundred service ports with one hash of 32 bits: the first id that is free.
        let free = (1..u32::MAX).find(|id| !self.0.contains_key(id));
        let id = free.expect("there are fewer than 2^32 service ports");
        self.0.insert(id, key.clone());
        id
    }

    /// Forgets the ids of service ports that the maps have no more.
    pub(crate) fn retain(&mut self, objects: &BTreeMap<Key, Object>) {
        let frontends = objects.values().filter_map(|it| match it {
            Object::Frontend(it) => Some(it.service),
            _ => None,
        });
        let used: BTreeSet<u32> = frontends.collect();
        self.0.retain(|id, _| used.contains(id));
    }
}

/// The ids that a service port may have, the most wanted first.
fn candidates(key: &PortKey) -> impl Iterator<Item = u32> {
    let text = format!("{}/{}/{}", key.name, key.name.protocol, key.family);
    let digest = Sha256::digest(text);
    let first = u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]);
    (0..CANDIDATES)
        .map(move |step| first.wrapping_add(step))
        .filter(|id| *id != 0)
}

/// Places the endpoints of a port so that few slots change.
pub(crate) fn place(port: &PortPlan, service: u32, previous: Option<&Placement>) -> Placement {
    let pool = |scope| {
        let old = previous.map_or(&[][..], |it| it.addresses(scope));
        let pool = port.pool(scope);
        let endpoints = pool.map_or(&[][..], Pool::endpoints);
        let slots = slots::assign(pool, old).into_iter();
        slots.map(|it| endpoints[it as usize].addr).collect()
    };
    Placement {
        service,
        cluster: pool(Scope::Cluster),
        local: pool(Scope::Local),
    }
}

/// Reads id and slots of a port back from the maps.
pub(crate) fn recover(port: &PortPlan, observed: &BTreeMap<Key, Object>) -> Placement {
    let own: Vec<u32> = candidates(&port.key).collect();
    let mut frontends = port.frontends.iter();
    let found = frontends.find_map(|it| match observed.get(&Key::Frontend(it.frontend)) {
        // A frontend may have been another service port's.
        Some(Object::Frontend(seen)) if own.contains(&seen.service) => Some(*seen),
        _ => None,
    });
    let Some(seen) = found else {
        return Placement::default();
    };
    let slots = |slots: Slots| {
        let slots = slots.first..slots.first.saturating_add(slots.count);
        let seen = slots.map_while(
            |slot| match observed.get(&Key::Endpoint(seen.service, slot)) {
                Some(Object::Endpoint(it)) => Some(SocketAddr::new(it.addr.into(), it.port)),
                _ => None,
            },
        );
        seen.collect()
    };
    Placement {
        service: seen.service,
        cluster: slots(seen.cluster),
        local: slots(seen.local),
    }
}

/// The number of a protocol in packets.
pub(crate) fn protocol_number(protocol: Protocol) -> u8 {
    match protocol {
        Protocol::Tcp => sluice_bpf_abi::TCP,
        Protocol::Udp => sluice_bpf_abi::UDP,
        Protocol::Sctp => sluice_bpf_abi::SCTP,
    }
}

#[cfg(test)]
mod tests {
    use sluice_model::{IpFamily, NamespacedName, ServicePortName};

    use super::*;

    fn key(service: &str) -> PortKey {
        PortKey {
            name: ServicePortName {
                service: NamespacedName {
                    namespace: "default".into(),
                    name: service.into(),
                },
                port: "".into(),
                protocol: Protocol::Tcp,
            },
            family: IpFamily::V4,
        }
    }

    /// The id of a Service that is gone is free for another one, that of a Service in the maps is not.
    #[test]
    fn ids_of_what_is_gone_are_forgotten() {
        let mut ids = Ids::default();
        let [old, kept] = ["old", "kept"].map(|it| ids.assign(&key(it), 0));
        let frontend = sluice_plan::Frontend::NodePort {
            family: IpFamily::V4,
            port: 30080,
            protocol: Protocol::Tcp,
        };
        let seen = sluice_bpf_abi::Frontend {
            service: kept,
            ..Default::default()
        };
        ids.retain(&BTreeMap::from([(
            Key::Frontend(frontend),
            Object::Frontend(seen),
        )]));
        assert_eq!(ids.assign(&key("new"), old), old);
        assert_ne!(ids.assign(&key("newer"), kept), kept);
    }
}
