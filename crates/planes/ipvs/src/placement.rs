//! What a service port keeps from one rendering to the next: its mark, and what the kernel lacks.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use sluice_model::{IpFamily, Protocol};
use sluice_plan::{Frontend, PortPlan};

use crate::object::{Key, Object};
use crate::render;
use crate::set::{Entry, SetName};

/// What rendering remembers of a service port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// The mark of its near clients; `None` when they are served like all others.
    pub(crate) mark: Option<u32>,
    /// Schedulers that its virtual servers would have, had the kernel got them.
    pub(crate) lacking: BTreeSet<Arc<str>>,
}

/// The mark that the kernel's set has for a frontend of this port.
pub(crate) fn recover(port: &PortPlan, observed: &BTreeMap<Key, Object>) -> Placement {
    if !render::has_near_clients(port, true) {
        return Placement::default();
    }
    let family = port.key.family;
    let first = Entry::AddressPort(unspecified(family), Protocol::Tcp, 0);
    let first = Key::Member(family, SetName::NearClients, first);
    let marked = observed
        .range(first..)
        .map_while(|(key, object)| match key {
            Key::Member(of, set, entry) if *of == family && set.leads() => {
                Some((*set, entry, object))
            }
            _ => None,
        });
    let is_ours = |set: SetName, entry: &Entry| {
        let mut frontends = port.frontends.iter().map(|it| it.frontend);
        let Entry::AddressPort(ip, protocol, number) = entry else {
            return false;
        };
        frontends.any(|it| {
            let same = it.port() == *number && it.protocol() == *protocol;
            same && match it {
                Frontend::Address { addr, .. } => set == SetName::NearClients && addr == *ip,
                Frontend::NodePort { .. } => set == SetName::NearNodePorts,
            }
        })
    };
    let mut ours = marked.filter(|(set, entry, _)| is_ours(*set, entry));
    let mark = ours.find_map(|(_, _, object)| match object {
        Object::Member(mark) => *mark,
        _ => None,
    });
    Placement {
        mark,
        ..Placement::default()
    }
}

fn unspecified(family: IpFamily) -> IpAddr {
    match family {
        IpFamily::V4 => Ipv4Addr::UNSPECIFIED.into(),
        IpFamily::V6 => Ipv6Addr::UNSPECIFIED.into(),
    }
}
