//! Writes differences, in an order in which every packet finds a whole Service.
//!
//! What an element leads to is written before it and deleted after it: frontends after their endpoints, and ClusterIPs,
//! whose other ports are refused, after their frontends.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use sluice_bpf::BpfError;
use sluice_bpf_abi as abi;
use sluice_reconcile::{BackendError, Delta};

use crate::convert;
use crate::fills::Fills;
use crate::maps::Maps;
use crate::object::{Key, ListId, Object};
use crate::sizes::Sizes;

/// A write of one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Write<'a> {
    Set(&'a Key, &'a Object),
    Delete(&'a Key),
}

impl Write<'_> {
    /// The service port that the element belongs to; `None` where it is nobody's, or a frontend's that goes.
    fn service(&self) -> Option<u32> {
        match self {
            Self::Set(_, Object::Frontend(it)) => Some(it.service),
            Self::Set(key, _) | Self::Delete(key) => match key {
                Key::Endpoint(service, _) | Key::Member(service, ..) | Key::Maglev(service, ..) => {
                    Some(*service)
                }
                _ => None,
            },
        }
    }

    /// The list of sources that the element is of, or leads to.
    fn list(&self) -> Option<ListId> {
        match self {
            Self::Set(_, Object::Frontend(it)) => Some(it.sources),
            Self::Set(Key::Source(list, _), _) => Some(*list),
            _ => None,
        }
    }

    fn refused(&self, error: BpfError) -> BackendError {
        let operation = match self {
            Self::Set(key, _) => format!("write {key}"),
            Self::Delete(key) => format!("delete {key}"),
        };
        BackendError::new(operation, error)
    }
}

/// Writes a delta.
///
/// # Errors
///
/// The kernel refused an element. Nothing that leads to it is written, so packets of its Service find what was there
/// before; all other Services have what they want.
pub(crate) fn write_all(maps: &mut Maps, delta: &Delta<Key, Object>) -> Result<(), BackendError> {
    let mut first = None;
    let (mut services, mut lists) = (BTreeSet::new(), BTreeSet::new());
    for it in ordered(delta) {
        let service = it.service();
        let is_held = service.is_some_and(|it| services.contains(&it))
            || it.list().is_some_and(|it| lists.contains(&it));
        if !is_held {
            let Err(error) = write(maps, it) else {
                continue;
            };
            first.get_or_insert_with(|| it.refused(error));
        }
        match service {
            Some(service) => drop(services.insert(service)),
            None => lists.extend(it.list()),
        }
    }
    first.map_or(Ok(()), Err)
}

/// The writes of a delta in their order.
fn ordered(delta: &Delta<Key, Object>) -> Vec<Write<'_>> {
    let mut sets: Vec<_> = delta.add.iter().chain(&delta.replace).collect();
    sets.sort_by_key(|(key, _)| class(key));
    let mut deletes: Vec<_> = delta.delete.iter().collect();
    deletes.sort_by_key(|key| Reverse(class(key)));
    let sets = sets
        .into_iter()
        .map(|(key, object)| Write::Set(key, object));
    sets.chain(deletes.into_iter().map(Write::Delete)).collect()
}

/// The map of a key, by the order of writing.
fn class(key: &Key) -> u8 {
    match key {
        Key::Source(..) => 0,
        Key::Endpoint(..) => 1,
        Key::Member(..) => 2,
        Key::Maglev(..) => 3,
        Key::Frontend(..) => 4,
        // A port of a ClusterIP that is no frontend is refused.
        Key::Address(..) => 5,
        // An agent that finds the settings takes the maps as they are.
        Key::Node => 6,
    }
}

/// Writes one element.
fn write(maps: &mut Maps, write: Write<'_>) -> Result<(), BpfError> {
    match write {
        Write::Set(key, object) => set(maps, key, object),
        Write::Delete(key) => delete(maps, key),
    }
}

fn set(maps: &mut Maps, key: &Key, object: &Object) -> Result<(), BpfError> {
    match (key, object) {
        (Key::Node, Object::Node(node)) => {
            // Whoever traces packets goes on, and so do connections.
            maps.change_node(|now| {
                *now = abi::Node {
                    flags: node.flags | (now.flags & abi::node_flags::KEPT),
                    trace: now.trace,
                    trace_until_ns: now.trace_until_ns,
                    ..**node
                };
            })
        }
        (Key::Source(list, net), _) => maps.sources.insert(&convert::source_key(*list, net), &1),
        (Key::Endpoint(service, slot), Object::Endpoint(endpoint)) => {
            let (service, slot) = (*service, *slot);
            maps.endpoints
                .insert(&abi::EndpointKey { service, slot }, endpoint)
        }
        (Key::Member(service, scope, addr), Object::Member(slot)) => {
            let key = convert::member_key(*service, *scope, *addr);
            maps.members.insert(&key, slot)
        }
        (Key::Maglev(service, scope, chunk), Object::Maglev(slots)) => {
            let key = convert::maglev_key(*service, *scope, *chunk);
            maps.maglev.insert(&key, slots)
        }
        (Key::Address(kind, ip), _) => {
            let key = convert::address_key(*kind, *ip);
            maps.addresses.insert(&key, &1)
        }
        (Key::Frontend(frontend), Object::Frontend(value)) => maps
            .frontends
            .insert(&convert::frontend_key(frontend), value),
        _ => unreachable!("{key} has the value of another map"),
    }
}

fn delete(maps: &mut Maps, key: &Key) -> Result<(), BpfError> {
    let deleted = match key {
        Key::Node => return maps.set_node(&abi::Node::default()),
        Key::Source(list, net) => maps.sources.remove(&convert::source_key(*list, net)),
        Key::Endpoint(service, slot) => {
            let (service, slot) = (*service, *slot);
            maps.endpoints.remove(&abi::EndpointKey { service, slot })
        }
        Key::Member(service, scope, addr) => {
            let key = convert::member_key(*service, *scope, *addr);
            maps.members.remove(&key)
        }
        Key::Maglev(service, scope, chunk) => {
            let key = convert::maglev_key(*service, *scope, *chunk);
            maps.maglev.remove(&key)
        }
        Key::Address(kind, ip) => maps.addresses.remove(&convert::address_key(*kind, *ip)),
        Key::Frontend(frontend) => maps.frontends.remove(&convert::frontend_key(frontend)),
    };
    deleted.map(|_| ())
}

/// The elements of each map of Services.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fill {
    counts: [u32; 7],
}

impl Fill {
    /// The fill of these objects.
    pub(crate) fn of<'a>(keys: impl Iterator<Item = &'a Key>) -> Self {
        let mut fill = Self::default();
        keys.for_each(|key| fill.counts[usize::from(class(key))] += 1);
        fill
    }

    /// After all additions of a delta, before its deletions.
    pub(crate) fn with_added(mut self, delta: &Delta<Key, Object>) -> Self {
        delta
            .add
            .iter()
            .for_each(|(key, _)| self.counts[usize::from(class(key))] += 1);
        self
    }

    /// The fill after a delta.
    pub(crate) fn after(self, delta: &Delta<Key, Object>) -> Self {
        let mut fill = self.with_added(delta);
        delta
            .delete
            .iter()
            .for_each(|key| fill.counts[usize::from(class(key))] -= 1);
        fill
    }

    /// Tells the numbers, with the maps' sizes.
    pub(crate) fn tell(&self, sizes: &Sizes, fills: &Fills) {
        let [sources, endpoints, members, maglev, addresses, frontends, _] = self.counts;
        fills.set("SOURCES", sources, sizes.sources);
        fills.set("ENDPOINTS", endpoints, sizes.endpoints);
        fills.set("MEMBERS", members, sizes.members);
        fills.set("MAGLEV", maglev, sizes.maglev);
        fills.set("ADDRESSES", addresses, sizes.addresses);
        fills.set("FRONTENDS", frontends, sizes.frontends);
    }

    /// Whether maps of these sizes hold this.
    pub(crate) fn fits(&self, sizes: &Sizes) -> bool {
        let [sources, endpoints, members, maglev, addresses, frontends, _] = self.counts;
        sources <= sizes.sources
            && endpoints <= sizes.endpoints
            && members <= sizes.members
            && maglev <= sizes.maglev
            && addresses <= sizes.addresses
            && frontends <= sizes.frontends
    }

    /// The sizes that hold this with room for as much again, where `now` has no room for a quarter more.
    pub(crate) fn sizes(&self, now: &Sizes) -> Sizes {
        let [sources, endpoints, members, maglev, addresses, frontends, _] = self.counts;
        let size = |wanted: u32, now: u32| {
            if wanted > now - now / 5 {
                wanted.saturating_mul(2).next_power_of_two()
            } else {
                now
            }
        };
        Sizes {
            sources: size(sources, now.sources),
            endpoints: size(endpoints, now.endpoints),
            members: size(members, now.members),
            maglev: size(maglev, now.maglev),
            addresses: size(addresses, now.addresses),
            frontends: size(frontends, now.frontends),
            ..*now
        }
    }
}

#[cfg(test)]
mod tests {
    use sluice_model::Protocol;
    use sluice_plan::Frontend;

    use super::*;
    use crate::object::AddressKind;

    /// A client that dials meanwhile is served or not yet, and hears of no undefined port.
    #[test]
    fn a_cluster_ip_comes_after_its_frontends_and_goes_before() {
        let addr = [10, 96, 0, 10].into();
        let frontend = Key::Frontend(Frontend::Address {
            addr,
            port: 80,
            protocol: Protocol::Tcp,
        });
        let cluster_ip = Key::Address(AddressKind::ClusterIp, addr);
        let added = |key: &Key| (key.clone(), Object::Present);
        let delta = Delta {
            add: [&cluster_ip, &frontend].map(added).into(),
            ..Delta::default()
        };
        let present = Object::Present;
        let sets = [&frontend, &cluster_ip].map(|it| Write::Set(it, &present));
        assert_eq!(ordered(&delta), sets);
        let delta = Delta {
            delete: [&frontend, &cluster_ip].map(Key::clone).into(),
            ..Delta::default()
        };
        assert_eq!(ordered(&delta), [&cluster_ip, &frontend].map(Write::Delete));
    }
}
