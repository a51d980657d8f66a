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
use crate::object::{AddressKind, Key, ListId, Object};

/// Looks up elements of the maps.
pub trait Elements {
    /// The settings of the node.
    ///
    /// # Errors
    ///
    /// The map cannot be read.
    fn node(&self) -> Result<abi::Node, BpfError>;

    /// A frontend.
    ///
    /// # Errors
    ///
    /// The map cannot be read.
    fn frontend(&self, frontend: &Frontend) -> Result<Option<abi::Frontend>, BpfError>;

    /// The endpoint in a slot.
    ///
    /// # Errors
    ///
    /// The map cannot be read.
    fn endpoint(&self, service: u32, slot: u32) -> Result<Option<abi::Endpoint>, BpfError>;

    /// A part of a table of Maglev.
    ///
    /// # Errors
    ///
    /// The map cannot be read.
    fn maglev(
        &self,
        service: u32,
        scope: Scope,
        chunk: u32,
    ) -> Result<Option<abi::MaglevChunk>, BpfError>;

    /// Whether an address is of a kind.
    ///
    /// # Errors
    ///
    /// The map cannot be read.
    fn is_address(&self, kind: AddressKind, ip: IpAddr) -> Result<bool, BpfError>;

    /// Whether a list of sources has an address.
    ///
    /// # Errors
    ///
    /// The map cannot be read.
    fn admits(&self, list: ListId, ip: IpAddr) -> Result<bool, BpfError>;
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
    /// It is dropped.
    Dropped,
    /// It is rejected.
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
    let node = elements.node()?;
    let family = &node.families[IpFamily::of(&packet.destination) as usize];
    let Some((key, frontend)) = frontend(elements, packet)? else {
        let addr = packet.destination.into();
        let cidrs = &family.service_cidrs[..family.cidr_count as usize];
        let fate = if elements.is_address(AddressKind::ClusterIp, packet.destination)? {
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
    if let Some(found) = elements.frontend(&address)? {
        return Ok(Some((address, found)));
    }
    let node_port = Frontend::NodePort {
        family: IpFamily::of(&packet.destination),
        port,
        protocol,
    };
    let answers = elements.is_address(AddressKind::NodePorts, packet.destination)?;
    let found = if answers {
        elements.frontend(&node_port)?
    } else {
        None
    };
    Ok(found.map(|it| (node_port, it)))
}

fn of_frontend(
    elements: &impl Elements,
    packet: &Packet,
    client: Client,
    family: &abi::FamilyNode,
    frontend: &abi::Frontend,
) -> Result<Vec<Fate>, BpfError> {
    if frontend.sources != [0; 2] && !elements.admits(frontend.sources, packet.source)? {
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
        && !elements.admits(abi::NOT_TUNNELLED, packet.source)?;
    let slots = match frontend.maglev_size {
        0 => (slots.first..slots.first.saturating_add(slots.count)).collect(),
        size => by_hash(elements, frontend.service, scope, size, slots.first)?,
    };
    let fate = |slot| {
        let Some(endpoint) = elements.endpoint(frontend.service, slot)? else {
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
    for index in 0..size {
        let (chunk, place) = (
            index / abi::MAGLEV_CHUNK as u32,
            index as usize % abi::MAGLEV_CHUNK,
        );
        if let Some(chunk) = elements.maglev(service, scope, chunk)? {
            slots.insert(first + u32::from(chunk.slots[place]));
        }
    }
    Ok(slots)
}

impl Elements for Maps {
    fn node(&self) -> Result<abi::Node, BpfError> {
        Self::node(self)
    }

    fn frontend(&self, frontend: &Frontend) -> Result<Option<abi::Frontend>, BpfError> {
        self.frontends.get(&convert::frontend_key(frontend))
    }

    fn endpoint(&self, service: u32, slot: u32) -> Result<Option<abi::Endpoint>, BpfError> {
        self.endpoints.get(&abi::EndpointKey { service, slot })
    }

    fn maglev(
        &self,
        service: u32,
        scope: Scope,
        chunk: u32,
    ) -> Result<Option<abi::MaglevChunk>, BpfError> {
        self.maglev.get(&convert::maglev_key(service, scope, chunk))
    }

    fn is_address(&self, kind: AddressKind, ip: IpAddr) -> Result<bool, BpfError> {
        Ok(self
            .addresses
            .get(&convert::address_key(kind, ip))?
            .is_some())
    }

    fn admits(&self, list: ListId, ip: IpAddr) -> Result<bool, BpfError> {
        let address = convert::source_key(list, &ip.into());
        Ok(self.sources.get(&address)?.is_some())
    }
}

impl Elements for BTreeMap<Key, Object> {
    fn node(&self) -> Result<abi::Node, BpfError> {
        Ok(match self.get(&Key::Node) {
            Some(Object::Node(node)) => **node,
            _ => abi::Node::default(),
        })
    }

    fn frontend(&self, frontend: &Frontend) -> Result<Option<abi::Frontend>, BpfError> {
        Ok(match self.get(&Key::Frontend(*frontend)) {
            Some(Object::Frontend(it)) => Some(*it),
            _ => None,
        })
    }

    fn endpoint(&self, service: u32, slot: u32) -> Result<Option<abi::Endpoint>, BpfError> {
        Ok(match self.get(&Key::Endpoint(service, slot)) {
            Some(Object::Endpoint(it)) => Some(*it),
            _ => None,
        })
    }

    fn maglev(
        &self,
        service: u32,
        scope: Scope,
        chunk: u32,
    ) -> Result<Option<abi::MaglevChunk>, BpfError> {
        Ok(match self.get(&Key::Maglev(service, scope, chunk)) {
            Some(Object::Maglev(it)) => Some(**it),
            _ => None,
        })
    }

    fn is_address(&self, kind: AddressKind, ip: IpAddr) -> Result<bool, BpfError> {
        Ok(self.contains_key(&Key::Address(kind, ip)))
    }

    fn admits(&self, list: ListId, ip: IpAddr) -> Result<bool, BpfError> {
        let has =
            |key: &Key| matches!(key, Key::Source(of, net) if *of == list && net.contains(&ip));
        Ok(self.keys().any(has))
    }
}
