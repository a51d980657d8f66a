//! The part of the plan that no Service changes.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use ipnet::IpNet;

use crate::settings::{DirectReturn, NodeDns, NodePortAddresses, Settings};
use crate::state::{ClusterState, HostAddresses};
use sluice_model::{IpFamily, LocalTraffic, Node};

/// The part of the plan that no Service changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodePlan {
    /// The packet mark, one bit, for packets to masquerade.
    pub masquerade_mark: u32,
    /// The node's zone, for topology hints.
    pub zone: Option<Arc<str>>,
    /// With direct server return, the addresses of all nodes, from which packets come through the tunnel.
    pub peers: BTreeSet<IpAddr>,
    /// Clients without direct server return.
    pub not_direct: Vec<IpNet>,
    /// IPv4 and IPv6, in this order; see [`NodePlan::family`].
    pub families: [FamilyPlan; 2],
}

/// The plan of a node for one family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FamilyPlan {
    /// The node's primary address; `None` when none is known.
    pub node_ip: Option<IpAddr>,
    /// How the node recognises its own pods; `None` when it cannot.
    pub local_traffic: Option<LocalTraffic>,
    /// The clients of ClusterIPs whose packets are masqueraded.
    pub cluster_ip_masquerade: ClusterIpMasquerade,
    /// The addresses of the node, sorted, without loopback and link-local ones; those of its Node object while the
    /// machine's are unknown.
    pub addresses: Vec<IpAddr>,
    /// The addresses with NodePorts.
    pub node_ports: NodePortMatch,
    /// Loopback answers on NodePorts as well.
    pub node_ports_on_loopback: bool,
    /// The ranges of ClusterIPs, none overlapping. A packet to an address in them that no Service
    /// owns is dropped.
    pub service_cidrs: Vec<IpNet>,
    /// The addresses on this machine's loopback interface that its DNS server answers. No address of the
    /// node: a connection of the node to one of them has this address as its source, too, and is
    /// masqueraded, since no endpoint can reply to it.
    pub dns_addresses: Vec<IpAddr>,
}

/// The clients of ClusterIPs whose packets are masqueraded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClusterIpMasquerade {
    /// None: nothing tells this node's pods from other clients.
    #[default]
    Nobody,
    /// All but those from a pod of this node.
    NotLocalPods,
    /// Every client of a ClusterIP, as with `--masquerade-all`.
    Everybody,
}

/// The node's addresses that answer on NodePorts, apart from loopback:
/// [`FamilyPlan::node_ports_on_loopback`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodePortMatch {
    /// Every address of the node.
    AnyLocal,
    /// The addresses of the node inside these prefixes, none overlapping.
    LocalWithin(Vec<IpNet>),
    /// Exactly this address; `None` when the node has none in the family.
    Only(Option<IpAddr>),
}

impl NodePortMatch {
    /// Whether an address of the node is one of these. Loopback counts like any other.
    fn covers(&self, addr: IpAddr) -> bool {
        match self {
            Self::AnyLocal => true,
            Self::LocalWithin(nets) => nets.iter().any(|net| net.contains(&addr)),
            Self::Only(only) => *only == Some(addr),
        }
    }
}

impl Default for NodePortMatch {
    fn default() -> Self {
        Self::Only(None)
    }
}

impl NodePlan {
    pub fn family(&self, family: IpFamily) -> &FamilyPlan {
        &self.families[family as usize]
    }

    /// Where the node answers load balancers that ask about a Service: on every address that has
    /// NodePorts, written as the unspecified address where that is all of a family.
    pub fn health_check_addresses(&self, local: &BTreeSet<IpAddr>) -> BTreeSet<IpAddr> {
        let mut addresses = BTreeSet::new();
        for family in IpFamily::ALL {
            match &self.family(family).node_ports {
                NodePortMatch::AnyLocal => {
                    addresses.insert(match family {
                        IpFamily::V4 => Ipv4Addr::UNSPECIFIED.into(),
                        IpFamily::V6 => Ipv6Addr::UNSPECIFIED.into(),
                    });
                }
                NodePortMatch::LocalWithin(nets) => {
                    // A link-local address cannot be bound without its link.
                    let is_bindable = |ip: &&IpAddr| match ip {
                        IpAddr::V4(_) => true,
                        IpAddr::V6(ip) => !ip.is_unicast_link_local(),
                    };
                    let inside = |ip: &&IpAddr| nets.iter().any(|net| net.contains(*ip));
                    addresses.extend(local.iter().filter(is_bindable).filter(inside));
                }
                NodePortMatch::Only(ip) => addresses.extend(ip),
            }
        }
        addresses
    }

    /// The node's part of the plan: a pure function of the operator's choices and the objects.
    pub fn new(settings: &Settings, state: &ClusterState) -> Self {
        let node = state.node(&settings.node_name).map(AsRef::as_ref);
        Self {
            masquerade_mark: settings.masquerade_mark,
            zone: node.and_then(|it| it.zone.clone()),
            peers: match settings.direct_return {
                DirectReturn::Off => BTreeSet::new(),
                DirectReturn::Annotated | DirectReturn::All => state
                    .nodes()
                    .flat_map(|it| it.addresses.iter().copied())
                    .collect(),
            },
            not_direct: settings.not_direct.clone(),
            families: IpFamily::ALL.map(|family| family_plan(settings, state, node, family)),
        }
    }
}

impl FamilyPlan {
    /// Whether an address answers on NodePorts. `host`: the addresses of the node.
    pub fn answers_node_ports(&self, addr: IpAddr, host: &HostAddresses) -> bool {
        let is_refused = addr.is_loopback() && !self.node_ports_on_loopback;
        let is_here = match self.node_ports {
            NodePortMatch::Only(_) => true,
            NodePortMatch::AnyLocal | NodePortMatch::LocalWithin(_) => host.contains(&addr),
        };
        !is_refused && is_here && self.node_ports.covers(addr)
    }

    /// The addresses of the node that answer on NodePorts, without loopback.
    pub fn node_port_addresses(&self) -> Vec<IpAddr> {
        match &self.node_ports {
            NodePortMatch::Only(only) => only.iter().copied().collect(),
            answering => {
                let own = self.addresses.iter().copied();
                own.filter(|ip| answering.covers(*ip)).collect()
            }
        }
    }
}

fn family_plan(
    settings: &Settings,
    state: &ClusterState,
    node: Option<&Node>,
    family: IpFamily,
) -> FamilyPlan {
    let machine = &state.local_addresses().default_route;
    let addresses = match node {
        Some(node) if !node.addresses.is_empty() => &node.addresses,
        _ if !machine.is_empty() => machine,
        _ => &settings.fallback_node_ips,
    };
    let mut primary = settings.node_ip.iter().chain(addresses).copied();
    let node_ip = primary.find(|ip| IpFamily::of(ip) == family);
    let node_ports = node_ports(settings, family, node_ip);
    let local_traffic = LocalTraffic::detected_by(&settings.local_detector, node, family);
    FamilyPlan {
        node_ip,
        cluster_ip_masquerade: match &local_traffic {
            _ if settings.masquerade_all => ClusterIpMasquerade::Everybody,
            Some(_) => ClusterIpMasquerade::NotLocalPods,
            None => ClusterIpMasquerade::Nobody,
        },
        local_traffic,
        addresses: own_addresses(&state.local_addresses().all, addresses, family),
        node_ports_on_loopback: settings.localhost_node_ports
            && family == IpFamily::V4
            && node_ports.covers(Ipv4Addr::LOCALHOST.into()),
        node_ports,
        service_cidrs: of_family(state.service_cidrs().flat_map(|it| &it.cidrs), family),
        dns_addresses: settings
            .dns
            .iter()
            .flat_map(NodeDns::served)
            .filter(|it| IpFamily::of(it) == family)
            .collect(),
    }
}

fn node_ports(settings: &Settings, family: IpFamily, node_ip: Option<IpAddr>) -> NodePortMatch {
    match &settings.node_ports {
        NodePortAddresses::Primary => NodePortMatch::Only(node_ip.filter(|ip| !ip.is_loopback())),
        NodePortAddresses::Within(nets) => match of_family(nets, family) {
            nets if nets.iter().all(|it| it.prefix_len() > 0) && !nets.is_empty() => {
                NodePortMatch::LocalWithin(nets)
            }
            _ => NodePortMatch::AnyLocal,
        },
    }
}

fn own_addresses(machine: &BTreeSet<IpAddr>, node: &[IpAddr], family: IpFamily) -> Vec<IpAddr> {
    let node: BTreeSet<IpAddr> = node.iter().copied().collect();
    let all = if machine.is_empty() { &node } else { machine };
    let own = all.iter().filter(|ip| IpFamily::of(ip) == family);
    own.copied().filter(is_beyond_link).collect()
}

/// Whether an address means the same beyond its link: it is neither loopback nor link-local.
pub fn is_beyond_link(ip: &IpAddr) -> bool {
    let is_link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    !ip.is_loopback() && !is_link_local
}

/// The prefixes of one family, none overlapping.
pub(crate) fn of_family<'a>(
    nets: impl IntoIterator<Item = &'a IpNet>,
    family: IpFamily,
) -> Vec<IpNet> {
    let nets = nets.into_iter();
    let nets = nets.filter(|net| IpFamily::of_net(net) == family);
    IpNet::aggregate(&nets.map(IpNet::trunc).collect())
}
