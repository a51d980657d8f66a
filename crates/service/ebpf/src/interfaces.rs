//! What the programs know of the machine's interfaces, addresses and routes: the maps INTERFACES, OWN and ROUTED.

mod pods;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use sluice_bpf::{BpfError, Interfaces, Machine, Patterns, Pins, Prefix, Table};
use sluice_bpf_abi::{
    Addr, Cidr, Interface, ROUTED_PREFIX, RoutedKey, interface_flags, node_flags,
};
use sluice_model::IpFamily;
use sluice_plan::is_beyond_link;
use sluice_route::{Address, Link};

use crate::maps::{Maps, OWN};
use pods::Routes;

/// The interfaces and routes are looked at this often although no change was told.
const LOOK: Duration = Duration::from_secs(30);
/// Name of the loopback interface, whose packets are those of the node to itself.
const LOOPBACK: &str = "lo";

pub(crate) struct NodeInterfaces {
    maps: Maps,
    known: BTreeMap<u32, Interface>,
    own: Table<Addr, u32>,
    known_own: BTreeSet<Addr>,
    interfaces: Patterns,
    pods: Patterns,
    routes: Routes,
    known_routed: BTreeSet<(u32, Cidr)>,
}

impl NodeInterfaces {
    /// `interfaces` get the programs; packets of pods come through `pods`.
    pub(crate) fn new(pins: &Pins, interfaces: Patterns, pods: Patterns) -> Result<Self, BpfError> {
        let maps = Maps::open(pins)?;
        let own: Table<Addr, u32> = Table::open(pins, OWN)?;
        Ok(Self {
            known_own: own.entries()?.into_iter().map(|(it, _)| it).collect(),
            own,
            known_routed: routed_now(&maps.routed)?,
            known: maps.interfaces.entries()?.into_iter().collect(),
            maps,
            interfaces,
            pods,
            routes: Routes::default(),
        })
    }

    /// Whether packets of pods come through an interface, by its name or its bridge's.
    fn is_named(&self, link: &Link, links: &BTreeMap<u32, Link>) -> bool {
        let master = link.master.and_then(|it| links.get(&it));
        let mut names = [Some(link), master].into_iter().flatten();
        names.any(|it| self.pods.match_name(&it.name))
    }

    /// See [`Interface::back`].
    fn back(&self, link: &Link, machine: &Machine<'_>) -> u32 {
        let mut numbers = [Some(link.index), link.master].into_iter().flatten();
        let is_of_pods =
            self.is_named(link, machine.links) || numbers.any(|it| self.routes.are_of_pods(it));
        let back = pods::back(link, machine.links, machine.addresses);
        let is_known = || {
            IpFamily::ALL
                .iter()
                .any(|it| self.knows(back, *it, machine))
        };
        if is_of_pods && is_known() { back } else { 0 }
    }

    /// Whether a route tells a pod's addresses of a family behind an interface. A network plugin adds the routes after the
    /// interface, one by one.
    fn knows(&self, back: u32, family: IpFamily, machine: &Machine<'_>) -> bool {
        let is_own = |it| machine.addresses.iter().any(|own| own.ip == it);
        self.routes
            .through(back)
            .any(|it| pods::tells_pods(it, family, is_own))
    }

    /// Lists the routes, where that is due.
    fn look_at_routes(&mut self, machine: &Machine<'_>) -> Result<(), BpfError> {
        let ranges = self.maps.node()?.families.map(|it| it.pods);
        let mut routes = std::mem::take(&mut self.routes);
        routes.look(&ranges, machine.links, |it| {
            self.is_named(it, machine.links)
        });
        self.routes = routes;
        Ok(())
    }

    /// Writes what changed into ROUTED: the routes through the interfaces that answers to pods leave through, and all
    /// addresses of a family of which no pod is known there.
    fn routes_changed(
        &mut self,
        backs: &BTreeSet<u32>,
        machine: &Machine<'_>,
    ) -> Result<(), BpfError> {
        let mut wanted = BTreeSet::new();
        for back in backs {
            wanted.extend(self.routes.through(*back).map(|to| (*back, *to)));
            for family in IpFamily::ALL {
                if !self.knows(*back, family, machine) {
                    wanted.extend(pods::all(family).map(|to| (*back, to)));
                }
            }
        }
        for it in wanted.difference(&self.known_routed) {
            self.maps.routed.insert(&routed_key(it), &1)?;
        }
        for it in self.known_routed.difference(&wanted) {
            self.maps.routed.remove(&routed_key(it))?;
        }
        self.known_routed = wanted;
        Ok(())
    }

    /// Whether the programs see what arrives at an interface. Those of an earlier agent do so until ours take their place:
    /// without the flag, what arrives meanwhile would be looked for a second time where it leaves.
    fn sees(&self, link: &Link, machine: &Machine<'_>) -> bool {
        let saw = |it: &Interface| it.flags & interface_flags::SEEN != 0;
        machine.has_programs(link)
            || (!machine.is_attached && self.known.get(&link.index).is_some_and(saw))
    }

    /// Whether packets arrive here only after they arrived at an interface with programs.
    fn is_upper(&self, link: &Link, machine: &Machine<'_>) -> bool {
        let mut links = machine.links.values();
        if links.any(|it| it.master == Some(link.index) && self.sees(it, machine)) {
            return true;
        }
        let is_on_parent = matches!(link.kind.as_deref(), Some("vlan" | "macvlan" | "ipvlan"));
        let parent = link
            .parent
            .filter(|_| is_on_parent && link.parent_namespace.is_none());
        let parent = parent.and_then(|it| machine.links.get(&it));
        parent.is_some_and(|it| self.sees(it, machine))
    }

    fn flags(&self, link: &Link, machine: &Machine<'_>) -> u32 {
        let master = link.master.and_then(|it| machine.links.get(&it));
        let mut flags = 0;
        if self.is_named(link, machine.links) {
            flags |= interface_flags::POD;
        }
        if !link.has_ethernet {
            flags |= interface_flags::LAYER_3;
        }
        if self.sees(link, machine) {
            flags |= interface_flags::SEEN;
        }
        if self.is_upper(link, machine) {
            flags |= interface_flags::UPPER;
        }
        if master.is_some_and(|it| self.sees(it, machine)) {
            flags |= interface_flags::PORT;
        }
        flags
    }

    /// Writes what changed into OWN.
    fn addresses_changed(&mut self, addresses: &[Address]) -> Result<(), BpfError> {
        let wanted: BTreeSet<Addr> = addresses.iter().flat_map(own).collect();
        for addr in wanted.difference(&self.known_own) {
            self.own.insert(addr, &1)?;
        }
        for addr in self.known_own.difference(&wanted) {
            self.own.remove(addr)?;
        }
        self.known_own = wanted;
        Ok(())
    }
}

impl Interfaces for NodeInterfaces {
    fn wants(&self, link: &Link) -> bool {
        link.name == LOOPBACK || self.interfaces.match_name(&link.name)
    }

    fn follows_routes(&self) -> bool {
        true
    }

    /// The ranges of pods come with the plan.
    fn due(&self) -> Option<Instant> {
        Some(self.routes.next().unwrap_or_else(|| Instant::now() + LOOK))
    }

    /// Writes what changed into INTERFACES, OWN and ROUTED.
    fn changed(&mut self, machine: &Machine<'_>) -> Result<(), BpfError> {
        if machine.links.values().any(|it| !it.has_ethernet) {
            self.maps
                .change_node(|it| it.flags |= node_flags::LAYER_3)?;
        }
        self.look_at_routes(machine)?;
        let links = machine.links.values();
        let backs: BTreeMap<u32, u32> =
            links.map(|it| (it.index, self.back(it, machine))).collect();
        let known = backs.values().copied().filter(|it| *it != 0);
        self.routes_changed(&known.collect(), machine)?;
        let mut gone: BTreeSet<u32> = self.known.keys().copied().collect();
        for link in machine.links.values() {
            gone.remove(&link.index);
            let described = Interface {
                v4: masquerading(link.index, machine.addresses, IpAddr::is_ipv4),
                v6: masquerading(link.index, machine.addresses, IpAddr::is_ipv6),
                flags: self.flags(link, machine),
                mtu: link.mtu,
                back: backs[&link.index],
            };
            if self.known.get(&link.index) != Some(&described) {
                self.maps.interfaces.insert(&link.index, &described)?;
                self.known.insert(link.index, described);
            }
        }
        for index in gone {
            self.maps.interfaces.remove(&index)?;
            self.known.remove(&index);
        }
        self.addresses_changed(machine.addresses)
    }
}

fn routed_key((interface, to): &(u32, Cidr)) -> Prefix<RoutedKey> {
    let key = RoutedKey {
        interface: *interface,
        addr: to.addr,
    };
    Prefix::new(ROUTED_PREFIX + to.length, key)
}

/// What an earlier agent wrote into ROUTED.
fn routed_now(routed: &Table<Prefix<RoutedKey>, u8>) -> Result<BTreeSet<(u32, Cidr)>, BpfError> {
    let entries = routed.entries()?.into_iter();
    let known = entries.map(|(it, _)| {
        let RoutedKey { interface, addr } = it.data();
        let length = it.prefix_len().saturating_sub(ROUTED_PREFIX);
        (interface, Cidr { addr, length })
    });
    Ok(known.collect())
}

/// The first address of an interface that others can answer to; unspecified for none.
fn masquerading(index: u32, addresses: &[Address], family: fn(&IpAddr) -> bool) -> Addr {
    let usable = |it: &&Address| it.interface == index && it.is_usable && !it.is_deprecated;
    let mut own = addresses.iter().filter(usable).map(|it| it.ip);
    let found = own.find(|ip| family(ip) && is_beyond_link(ip));
    found.map_or(Addr::ANY_V6, Addr::from)
}

/// An address of the node, and the broadcast of its network: no client has them. A network of two addresses or one has no
/// broadcast (RFC 3021).
fn own(address: &Address) -> impl Iterator<Item = Addr> + use<> {
    let broadcast = match address.ip {
        IpAddr::V4(ip) if address.prefix < 31 => {
            let hosts = u32::MAX.checked_shr(address.prefix.into()).unwrap_or(0);
            Some(Ipv4Addr::from_bits(ip.to_bits() | hosts).into())
        }
        _ => None,
    };
    let all = [Some(address.ip), broadcast].into_iter().flatten();
    all.map(Addr::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(address: &str, expected: &[&str]) {
        let net: ipnet::IpNet = address.parse().expect("an address with its network");
        let found: Vec<Addr> = own(&Address::new(1, net)).collect();
        let parsed = |it: &&str| Addr::from(it.parse::<IpAddr>().expect("an address"));
        let expected: Vec<Addr> = expected.iter().map(parsed).collect();
        assert_eq!(found, expected, "{address}");
    }

    #[test]
    fn broadcasts_are_no_clients() {
        check("192.0.2.7/24", &["192.0.2.7", "192.0.2.255"]);
        check("192.0.2.7/32", &["192.0.2.7"]);
        check("192.0.2.6/31", &["192.0.2.6"]);
        check("192.0.2.5/30", &["192.0.2.5", "192.0.2.7"]);
        check("2001:db8::7/64", &["2001:db8::7"]);
    }
}
