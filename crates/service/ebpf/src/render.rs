//! A plan as elements of maps. Pure.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use sha2::{Digest, Sha256};
use sluice_bpf_abi as abi;
use sluice_bpf_abi::{Treatment, endpoint_flags, frontend_flags};
use sluice_model::{Algorithm, IpFamily, LocalTraffic, Protocol};
use sluice_plan::lookup::{Client, treat};
use sluice_plan::{
    ClusterIpMasquerade, Direct, FamilyPlan, NodePlan, PlannedFrontend, Pool, PoolEndpoint,
    PortPlan, Route, Scope, Verdict,
};

use sluice_plane::EbpfOptions;

use crate::maglev;
use crate::object::{AddressKind, Key, ListId, Object};
use crate::placement::Placement;

/// The settings of the node that do not come from the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Cookie of the network namespace.
    pub netns_cookie: u64,
    /// Source ports of masqueraded connections.
    pub masquerade_ports: [abi::PortRange; 2],
    /// Of [`abi::node_flags`].
    pub flags: u32,
    /// Interface of the tunnel; 0 without one.
    pub tunnel_ifindex: u32,
    /// UDP port of the tunnel; 0 without one.
    pub tunnel_port: u16,
    /// Entries of a table of Maglev, at least: a prime of [`MAGLEV_SIZES`](sluice_plane::MAGLEV_SIZES).
    pub maglev_size: u32,
}

impl Default for Facts {
    /// The facts of a machine with the kernel's default `ip_local_port_range`.
    fn default() -> Self {
        Self {
            netns_cookie: 0,
            masquerade_ports: masquerade_ports(32_768, 60_999),
            flags: 0,
            tunnel_ifindex: 0,
            tunnel_port: 0,
            maglev_size: EbpfOptions::default().maglev_size,
        }
    }
}

/// Ports to masquerade with, at least: below that, connections from outside to one endpoint run out of them.
const ENOUGH: u32 = 4096;
/// The ports around the NodePorts that are usual.
const BELOW_NODE_PORTS: u16 = 29_999;
const ABOVE_NODE_PORTS: u16 = 32_768;

/// The ports below and above those that sockets get by themselves, without the NodePorts that are usual. Where these
/// are few, all without the NodePorts: the programs see which their own connections have, but not the sockets'.
#[must_use]
pub fn masquerade_ports(first: u16, last: u16) -> [abi::PortRange; 2] {
    const FIRST: u16 = 1024;
    let outside = [
        abi::PortRange {
            first: FIRST,
            last: BELOW_NODE_PORTS.min(first.saturating_sub(1)),
        },
        abi::PortRange {
            first: last.saturating_add(1).max(FIRST),
            last: if last == u16::MAX { 0 } else { u16::MAX },
        },
    ];
    let size = |it: &abi::PortRange| (u32::from(it.last) + 1).saturating_sub(it.first.into());
    if outside.iter().map(size).sum::<u32>() >= ENOUGH {
        outside
    } else {
        [
            abi::PortRange {
                first: FIRST,
                last: BELOW_NODE_PORTS,
            },
            abi::PortRange {
                first: ABOVE_NODE_PORTS,
                last: u16::MAX,
            },
        ]
    }
}

/// Other ports than these [`masquerade_ports`], for a moment: those that sockets get by themselves. The same where there
/// are none between.
pub(crate) fn other_ports([low, high]: [abi::PortRange; 2]) -> [abi::PortRange; 2] {
    let first = if low.last == BELOW_NODE_PORTS {
        ABOVE_NODE_PORTS
    } else {
        low.last.saturating_add(1)
    };
    let last = high.first.saturating_sub(1);
    if first > last {
        return [low, high];
    }
    [
        abi::PortRange { first, last },
        abi::PortRange { first: 1, last: 0 },
    ]
}

/// The elements that no Service has.
pub(crate) fn standing(node: &NodePlan, facts: &Facts) -> Vec<(Key, Object)> {
    let settings = abi::Node {
        netns_cookie: facts.netns_cookie,
        families: IpFamily::ALL.map(|family| family_settings(node.family(family), family)),
        masquerade_ports: facts.masquerade_ports,
        flags: facts.flags | u32::from(facts.tunnel_port) << abi::node_flags::TUNNEL_PORT,
        tunnel_ifindex: facts.tunnel_ifindex,
        trace: abi::Addr::ANY_V6,
        trace_until_ns: 0,
    };
    let mut objects = vec![(Key::Node, Object::Node(Box::new(settings)))];
    let not_direct = node.not_direct.iter();
    let not_direct = not_direct.map(|net| Key::Source(abi::NOT_TUNNELLED, *net));
    let peers = node
        .peers
        .iter()
        .map(|ip| Key::Source(abi::TUNNEL_PEERS, (*ip).into()));
    objects.extend(not_direct.chain(peers).map(|key| (key, Object::Present)));
    for family in IpFamily::ALL {
        let plan = node.family(family);
        let loopback = plan
            .node_ports_on_loopback
            .then_some(IpAddr::from([127, 0, 0, 1]));
        let answering = plan.node_port_addresses().into_iter().chain(loopback);
        let key = |ip| Key::Address(AddressKind::NodePorts, ip);
        objects.extend(answering.map(|ip| (key(ip), Object::Present)));
    }
    objects
}

fn family_settings(plan: &FamilyPlan, family: IpFamily) -> abi::FamilyNode {
    let mut service_cidrs = [abi::Cidr::NOTHING; abi::MAX_CIDRS];
    let cidrs = plan.service_cidrs.iter().take(abi::MAX_CIDRS);
    for (place, net) in service_cidrs.iter_mut().zip(cidrs) {
        *place = cidr(net);
    }
    let clients = [Client::Node, Client::LocalPod, Client::Other];
    let masquerades = clients.map(|client| {
        let route = Route::Internal(Verdict::Balance(Scope::Cluster));
        u8::from(treat(route, client, plan.cluster_ip_masquerade).1)
    });
    let unspecified = match family {
        IpFamily::V4 => abi::Addr::ANY_V4,
        IpFamily::V6 => abi::Addr::ANY_V6,
    };
    abi::FamilyNode {
        node_ip: plan.node_ip.map_or(unspecified, abi::Addr::from),
        pods: match &plan.local_traffic {
            Some(LocalTraffic::From(net)) => cidr(net),
            _ => abi::Cidr::NOTHING,
        },
        masquerades_cluster_ips: [masquerades[0], masquerades[1], masquerades[2], 0],
        cidr_count: u32::try_from(plan.service_cidrs.len().min(abi::MAX_CIDRS)).expect("few"),
        service_cidrs,
    }
}

fn cidr(net: &IpNet) -> abi::Cidr {
    abi::Cidr {
        addr: net.network().into(),
        length: prefix_length(net),
    }
}

/// The length of a prefix in the 16 bytes of an address.
pub(crate) fn prefix_length(net: &IpNet) -> u32 {
    let mapped = match net {
        IpNet::V4(_) => 96,
        IpNet::V6(_) => 0,
    };
    mapped + u32::from(net.prefix_len())
}

/// The elements of one service port.
pub(crate) fn port(port: &PortPlan, placement: &Placement, facts: &Facts) -> Vec<(Key, Object)> {
    let size = maglev_size(port, facts);
    let mut objects = sources(port);
    for scope in [Scope::Cluster, Scope::Local] {
        if let Some(pool) = port.pool(scope) {
            endpoints(port, placement, scope, pool, &mut objects);
            if size != 0 {
                objects.extend(by_hash(placement, scope, pool, size));
            }
        }
    }
    objects.extend(frontends(port, placement, facts));
    objects
}

/// The lists of sources of a port: all its frontends share one, which is hashed once.
#[derive(Default)]
struct Lists<'a>(Vec<(&'a Arc<[IpNet]>, ListId)>);

impl<'a> Lists<'a> {
    /// The number of a list, and whether it is new here.
    fn put(&mut self, list: &'a Arc<[IpNet]>) -> (ListId, bool) {
        let known = self.0.iter().find(|(it, _)| Arc::ptr_eq(it, list));
        if let Some((_, id)) = known {
            return (*id, false);
        }
        let id = list_id(list);
        let is_new = self.0.iter().all(|(_, it)| *it != id);
        self.0.push((list, id));
        (id, is_new)
    }
}

/// The ranges that the frontends of a port lead to, each once. Other ports may have the same.
pub(crate) fn sources(port: &PortPlan) -> Vec<(Key, Object)> {
    let mut lists = Lists::default();
    let mut objects = Vec::new();
    let restricted = port.frontends.iter();
    for list in restricted.filter_map(|it| it.allowed_sources.as_ref()) {
        if let (id, true) = lists.put(list) {
            let key = |net: &IpNet| (Key::Source(id, *net), Object::Present);
            objects.extend(list.iter().map(key));
        }
    }
    objects
}

/// The frontends of a port, and its ClusterIP.
pub(crate) fn frontends(
    port: &PortPlan,
    placement: &Placement,
    facts: &Facts,
) -> Vec<(Key, Object)> {
    let size = maglev_size(port, facts);
    let is_direct = port.has_direct_return();
    let mut lists = Lists::default();
    let frontends = port.frontends.iter().map(|planned| {
        let list = planned.allowed_sources.as_ref();
        let frontend = abi::Frontend {
            sources: list.map_or([0; 2], |it| lists.put(it).0),
            maglev_size: size,
            flags: if is_direct && !planned.role.is_internal() {
                frontend_flags::DSR
            } else {
                0
            },
            ..frontend(port, planned, placement)
        };
        (Key::Frontend(planned.frontend), Object::Frontend(frontend))
    });
    let cluster_ip = port.owned_cluster_ip;
    let cluster_ip =
        cluster_ip.map(|ip| (Key::Address(AddressKind::ClusterIp, ip), Object::Present));
    frontends.chain(cluster_ip).collect()
}

fn endpoints(
    port: &PortPlan,
    placement: &Placement,
    scope: Scope,
    pool: &Pool,
    objects: &mut Vec<(Key, Object)>,
) {
    let service = placement.service;
    // Asked once: the answer takes a look at every endpoint.
    let has_members = has_members(port);
    for (index, addr) in placement.addresses(scope).iter().enumerate() {
        let slot = placement.slot(scope, index);
        let all = pool.endpoints();
        let Ok(index) = all.binary_search_by(|it| it.addr.cmp(addr)) else {
            continue;
        };
        let object = Object::Endpoint(endpoint(&all[index]));
        objects.push((Key::Endpoint(service, slot), object));
        if has_members {
            objects.push((Key::Member(service, scope, *addr), Object::Member(slot)));
        }
    }
}

/// An endpoint as the programs see it.
pub(crate) fn endpoint(planned: &PoolEndpoint) -> abi::Endpoint {
    let (node, here) = match planned.direct {
        None => (abi::Addr::ANY_V6, 0),
        Some(Direct::Here) => (abi::Addr::ANY_V6, endpoint_flags::HERE),
        Some(Direct::Node(ip)) => (ip.into(), 0),
    };
    let hairpin = if planned.may_be_here {
        endpoint_flags::HAIRPIN
    } else {
        0
    };
    abi::Endpoint {
        addr: planned.addr.ip().into(),
        node,
        port: planned.addr.port(),
        flags: hairpin | here,
    }
}

/// The table of Maglev of a pool.
pub(crate) fn by_hash(
    placement: &Placement,
    scope: Scope,
    pool: &Pool,
    size: u32,
) -> Vec<(Key, Object)> {
    let table = maglev::table(pool, placement.addresses(scope), size);
    let chunks = (0..).zip(table.chunks(abi::MAGLEV_CHUNK));
    let objects = chunks.map(|(chunk, slots)| {
        let mut entries = abi::MaglevChunk {
            slots: [0; abi::MAGLEV_CHUNK],
        };
        entries.slots[..slots.len()].copy_from_slice(slots);
        let key = Key::Maglev(placement.service, scope, chunk);
        (key, Object::Maglev(Box::new(entries)))
    });
    objects.collect()
}

/// The parts of a table of Maglev of this size.
pub(crate) fn hash_chunks(size: u32) -> u32 {
    let chunk = u32::try_from(abi::MAGLEV_CHUNK).expect("a chunk is small");
    size.div_ceil(chunk)
}

/// The size of the tables of both pools; 0 where endpoints are chosen by chance.
pub(crate) fn maglev_size(port: &PortPlan, facts: &Facts) -> u32 {
    if port.algorithm != Some(Algorithm::Maglev) {
        return 0;
    }
    let pools = [port.pool(Scope::Cluster), port.pool(Scope::Local)];
    let endpoints = pools.into_iter().flatten().map(|it| it.endpoints().len());
    maglev::size(endpoints.max().unwrap_or_default(), facts.maglev_size)
}

/// Whether endpoints are looked for by their address: clients stay with theirs (session affinity, unconnected sockets of
/// UDP), or another node chose one of this node (direct server return).
pub(crate) fn has_members(port: &PortPlan) -> bool {
    port.affinity_seconds.is_some()
        || port.key.name.protocol == Protocol::Udp
        || port.has_direct_return()
}

fn frontend(port: &PortPlan, planned: &PlannedFrontend, placement: &Placement) -> abi::Frontend {
    let treatment = |client| {
        // Without masquerading, because the settings of the node say which clients of a ClusterIP are.
        let (verdict, masquerades, _) = treat(planned.route, client, ClusterIpMasquerade::Nobody);
        let verdict = match verdict {
            Verdict::Drop => abi::Verdict::Drop,
            Verdict::Reject => abi::Verdict::Reject,
            Verdict::Balance(Scope::Cluster) => abi::Verdict::Cluster,
            Verdict::Balance(Scope::Local) => abi::Verdict::Local,
        };
        let masquerade = match (planned.route, masquerades) {
            (Route::Internal(_), _) => Treatment::MASQUERADE_AS_CLUSTER_IP,
            (_, true) => Treatment::MASQUERADE,
            (_, false) => 0,
        };
        verdict as u8 | masquerade
    };
    abi::Frontend {
        service: placement.service,
        cluster: placement.slots(Scope::Cluster),
        local: placement.slots(Scope::Local),
        affinity_seconds: port.affinity_seconds.unwrap_or_default(),
        treatments: [
            treatment(Client::Node),
            treatment(Client::LocalPod),
            treatment(Client::Other),
            0,
        ],
        ..abi::Frontend::default()
    }
}

/// The number of a list of sources: a hash of its content, so that equal lists are one.
fn list_id(list: &[IpNet]) -> ListId {
    let mut hash = Sha256::new();
    for net in list {
        hash.update(net.to_string());
        hash.update("\n");
    }
    let digest = hash.finalize();
    let word = |at: usize| {
        u32::from_be_bytes([digest[at], digest[at + 1], digest[at + 2], digest[at + 3]])
    };
    [word(0).clamp(1, u32::MAX - 1), word(4)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_ports_are_none_of_these() {
        let others = |first, last| {
            let [ports, none] = other_ports(masquerade_ports(first, last));
            (ports.first, ports.last, none.first > none.last)
        };
        assert_eq!(others(32_768, 60_999), (32_768, 60_999, true));
        assert_eq!(others(10_000, 20_000), (10_000, 20_000, true));
        // All but the NodePorts.
        assert_eq!(others(1_024, u16::MAX), (1_024, 29_999, false));
    }
}
