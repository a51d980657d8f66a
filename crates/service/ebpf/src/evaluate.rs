//! What the programs do with the first packet of a connection, from the contents of the maps: the same decision
//! as `bpf/programs/src/service.rs`, for `explain --live` and for the property that it is the plan's.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use sluice_bpf::BpfError;
use sluice_bpf_abi as abi;
use sluice_model::IpFamily;
use sluice_plan::lookup::{Client, Packet};
use sluice_plan::{Frontend, Scope};

use crate::convert;
use crate::maps::Maps;
use crate::object::{AddressKind, Key, Object};

/// Looks up elements of the maps.
pub trait Elements {
    /// The element of a key; of a [`Key::Source`] that of any range which contains its own.
    ///
    /// # Errors
    ///
    /// The map cannot be read.
    fn element(&self, key: &Key) -> Result<Option<Object>, BpfError>;
}

/// What the programs do with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// Send it to this endpoint.
    Endpoint {
        /// The endpoint.
        to: SocketAddr,
        slot: u32,
        /// The endpoint sees an address of the node.
        masqueraded: bool,
    },
    /// The frontend leads to a slot without an endpoint.
    EmptySlot(u32),
    /// The packet is dropped.
    Dropped,
    /// The packet is rejected.
    Rejected,
    /// Its destination is no Service.
    Untouched,
}

/// The frontend of a packet, and everything that may become of the packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluation {
    /// The frontend with its entry.
    pub frontend: Option<(Frontend, abi::Frontend)>,
    /// One for each endpoint that may be chosen.
    pub fates: Vec<Fate>,
}

/// Follows a packet of a client through the maps.
///
/// # Errors
///
/// A map cannot be read.
pub fn evaluate(
    elements: &impl Elements,
    packet: &Packet,
    client: Client,
) -> Result<Evaluation, BpfError> {
    let node = match elements.element(&Key::Node)? {
        Some(Object::Node(node)) => *node,
        _ => abi::Node::default(),
    };
    let family = &node.families[IpFamily::of(&packet.destination) as usize];
    let Some((key, frontend)) = frontend(elements, packet)? else {
        let addr = packet.destination.into();
        let cidrs = &family.service_cidrs[..family.cidr_count as usize];
        let cluster_ip = Key::Address(AddressKind::ClusterIp, packet.destination);
        let fate = if elements.element(&cluster_ip)?.is_some() {
            Fate::Rejected
        } else if cidrs.iter().any(|it| it.contains(&addr)) {
            Fate::Dropped
        } else {
            Fate::Untouched
        };
        return Ok(Evaluation {
            frontend: None,
            fates: vec![fate],
        });
    };
    let fates = of_frontend(elements, packet, client, family, &frontend)?;
    Ok(Evaluation {
        frontend: Some((key, frontend)),
        fates,
    })
}

/// Who the programs take the client for. `is_pod_interface`: by the name of the interface.
#[must_use]
pub fn client(node: &abi::Node, packet: &Packet, is_pod_interface: bool) -> Client {
    let family = &node.families[IpFamily::of(&packet.source) as usize];
    match packet.interface {
        _ if family.pods.contains(&packet.source.into()) || is_pod_interface => Client::LocalPod,
        None => Client::Node,
        Some(_) => Client::Other,
    }
}

fn frontend(
    elements: &impl Elements,
    packet: &Packet,
) -> Result<Option<(Frontend, abi::Frontend)>, BpfError> {
    let (port, protocol) = (packet.port, packet.protocol);
    let address = Frontend::Address {
        addr: packet.destination,
        port,
        protocol,
    };
    let node_port = Frontend::NodePort {
        family: IpFamily::of(&packet.destination),
        port,
        protocol,
    };
    let answers = Key::Address(AddressKind::NodePorts, packet.destination);
    let answers = elements.element(&answers)?.is_some();
    for frontend in std::iter::once(address).chain(answers.then_some(node_port)) {
        if let Some(Object::Frontend(found)) = elements.element(&Key::Frontend(frontend))? {
            return Ok(Some((frontend, found)));
        }
    }
    Ok(None)
}

fn of_frontend(
    elements: &impl Elements,
    packet: &Packet,
    client: Client,
    family: &abi::FamilyNode,
    frontend: &abi::Frontend,
) -> Result<Vec<Fate>, BpfError> {
    let has_source = |list| {
        let found = elements.element(&Key::Source(list, packet.source.into()))?;
        Ok::<bool, BpfError>(found.is_some())
    };
    if frontend.sources != [0; 2] && !has_source(frontend.sources)? {
        return Ok(vec![Fate::Dropped]);
    }
    let index = match client {
        Client::Node => abi::Client::Node as usize,
        Client::LocalPod => abi::Client::LocalPod as usize,
        Client::Other => abi::Client::Other as usize,
    };
    let treatment = abi::Treatment(frontend.treatments[index]);
    let as_cluster_ip = treatment.0 & abi::Treatment::MASQUERADE_AS_CLUSTER_IP != 0;
    let masquerade = treatment.0 & abi::Treatment::MASQUERADE != 0
        || (as_cluster_ip && family.masquerades_cluster_ips[index] != 0);
    let (scope, slots) = match treatment.verdict() {
        abi::Verdict::Drop => return Ok(vec![Fate::Dropped]),
        abi::Verdict::Reject => return Ok(vec![Fate::Rejected]),
        abi::Verdict::Cluster => (Scope::Cluster, frontend.cluster),
        abi::Verdict::Local => (Scope::Local, frontend.local),
    };
    let is_direct = frontend.flags & abi::frontend_flags::DSR != 0
        && client == Client::Other
        && !has_source(abi::NOT_TUNNELLED)?;
    let slots = match frontend.maglev_size {
        0 => (slots.first..slots.first.saturating_add(slots.count)).collect(),
        size => by_hash(elements, frontend.service, scope, size, slots.first)?,
    };
    let fate = |slot| {
        let element = elements.element(&Key::Endpoint(frontend.service, slot))?;
        let Some(Object::Endpoint(endpoint)) = element else {
            return Ok(Fate::EmptySlot(slot));
        };
        let ip = IpAddr::from(endpoint.addr);
        let is_hairpin = endpoint.flags & abi::endpoint_flags::HAIRPIN != 0 && ip == packet.source;
        Ok(Fate::Endpoint {
            to: SocketAddr::new(ip, endpoint.port),
            slot,
            masqueraded: is_hairpin || (masquerade && !(is_direct && replies_directly(&endpoint))),
        })
    };
    slots.into_iter().map(fate).collect()
}

/// Whether the replies of an endpoint reach a client that was not masqueraded.
fn replies_directly(endpoint: &abi::Endpoint) -> bool {
    endpoint.flags & abi::endpoint_flags::HERE != 0 || endpoint.node != abi::Addr::ANY_V6
}

/// Every slot in a table of Maglev.
fn by_hash(
    elements: &impl Elements,
    service: u32,
    scope: Scope,
    size: u32,
    first: u32,
) -> Result<BTreeSet<u32>, BpfError> {
    let mut slots = BTreeSet::new();
    let size = size as usize;
    for (chunk, start) in (0..).zip((0..size).step_by(abi::MAGLEV_CHUNK)) {
        let element = elements.element(&Key::Maglev(service, scope, chunk))?;
        if let Some(Object::Maglev(chunk)) = element {
            let used = chunk.slots.iter().take(size - start);
            slots.extend(used.map(|it| first + u32::from(*it)));
        }
    }
    Ok(slots)
}

impl Elements for Maps {
    fn element(&self, key: &Key) -> Result<Option<Object>, BpfError> {
        Ok(match key {
            Key::Node => Some(Object::Node(Box::new(self.node()?))),
            Key::Source(list, net) => {
                let found = self.sources.get(&convert::source_key(*list, net))?;
                found.map(|_| Object::Present)
            }
            Key::Endpoint(service, slot) => {
                let (service, slot) = (*service, *slot);
                let key = abi::EndpointKey { service, slot };
                self.endpoints.get(&key)?.map(Object::Endpoint)
            }
            Key::Member(service, scope, addr) => {
                let key = convert::member_key(*service, *scope, *addr);
                self.members.get(&key)?.map(Object::Member)
            }
            Key::Maglev(service, scope, chunk) => {
                let found = self
                    .maglev
                    .get(&convert::maglev_key(*service, *scope, *chunk))?;
                found.map(|it| Object::Maglev(Box::new(it)))
            }
            Key::Address(kind, ip) => {
                let found = self.addresses.get(&convert::address_key(*kind, *ip))?;
                found.map(|_| Object::Present)
            }
            Key::Frontend(frontend) => {
                let found = self.frontends.get(&convert::frontend_key(frontend))?;
                found.map(Object::Frontend)
            }
        })
    }
}

impl Elements for BTreeMap<Key, Object> {
    fn element(&self, key: &Key) -> Result<Option<Object>, BpfError> {
        let found = match key {
            Key::Source(list, wanted) => {
                let mut all = self.iter();
                let has = |(key, _): &(&Key, &Object)| matches!(key, Key::Source(of, net) if of == list && net.contains(wanted));
                all.find(has).map(|(_, it)| it)
            }
            key => self.get(key),
        };
        Ok(found.cloned())
    }
}
