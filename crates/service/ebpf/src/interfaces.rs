//! What the programs know of the machine's interfaces: the map INTERFACES.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use sluice_bpf::{BpfError, Interfaces, Machine, Patterns, Pins};
use sluice_bpf_abi::{Addr, Interface, interface_flags, node_flags};
use sluice_plan::is_beyond_link;
use sluice_route::{Address, Link};

use crate::maps::Maps;

/// Name of the loopback interface, whose packets are those of the node to itself.
const LOOPBACK: &str = "lo";

pub(crate) struct NodeInterfaces {
    maps: Maps,
    known: BTreeMap<u32, Interface>,
    interfaces: Patterns,
    pods: Patterns,
}

impl NodeInterfaces {
    /// `interfaces` get the programs; packets of pods come through `pods`.
    pub(crate) fn new(pins: &Pins, interfaces: Patterns, pods: Patterns) -> Result<Self, BpfError> {
        let maps = Maps::open(pins)?;
        Ok(Self {
            known: maps.interfaces.entries()?.into_iter().collect(),
            maps,
            interfaces,
            pods,
        })
    }

    fn flags(&self, link: &Link, machine: &Machine<'_>) -> u32 {
        let master = link.master.and_then(|it| machine.links.get(&it));
        let mut names = [Some(link), master].into_iter().flatten();
        let mut flags = 0;
        if names.any(|it| self.pods.match_name(&it.name)) {
            flags |= interface_flags::POD;
        }
        if !link.has_ethernet {
            flags |= interface_flags::LAYER_3;
        }
        if machine.has_programs(link) {
            flags |= interface_flags::SEEN;
        }
        flags
    }
}

impl Interfaces for NodeInterfaces {
    fn wants(&self, link: &Link) -> bool {
        link.name == LOOPBACK || self.interfaces.match_name(&link.name)
    }

    /// Writes what changed into INTERFACES.
    fn changed(&mut self, machine: &Machine<'_>) -> Result<(), BpfError> {
        if machine.links.values().any(|it| !it.has_ethernet) {
            self.maps
                .change_node(|it| it.flags |= node_flags::LAYER_3)?;
        }
        let mut gone: BTreeSet<u32> = self.known.keys().copied().collect();
        for link in machine.links.values() {
            gone.remove(&link.index);
            let described = Interface {
                v4: masquerading(link.index, machine.addresses, IpAddr::is_ipv4),
                v6: masquerading(link.index, machine.addresses, IpAddr::is_ipv6),
                flags: self.flags(link, machine),
                mtu: link.mtu,
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
        Ok(())
    }
}

/// The first address of an interface that others can answer to; unspecified for none.
fn masquerading(index: u32, addresses: &[Address], family: fn(&IpAddr) -> bool) -> Addr {
    let usable = |it: &&Address| it.interface == index && it.is_usable && !it.is_deprecated;
    let mut own = addresses.iter().filter(usable).map(|it| it.ip);
    let found = own.find(|ip| family(ip) && is_beyond_link(ip));
    found.map_or(Addr::ANY_V6, Addr::from)
}
