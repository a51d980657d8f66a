//! The operator's settings for this node: the part of the plan's input that is no API object.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::sync::Arc;

use ipnet::IpNet;
use sluice_model::{Forwarding, NamespacedName};

/// Mark bit that kube-proxy sets on packets to masquerade: `1 << 14`.
pub const DEFAULT_MASQUERADE_MARK: u32 = 1 << 14;

/// The usual addresses of a node's own DNS server. The IPv4 one is that of Kubernetes' NodeLocal
/// DNSCache, link-local. The other is unique local, since a link-local IPv6 address needs the name of an
/// interface, which `resolv.conf` of a pod cannot give.
pub const DNS_ADDRESSES: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(169, 254, 20, 10)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0x169, 0x254, 0x20, 0, 0, 0, 0x10)),
];

/// The port that a DNS server of a node answers.
pub const DNS_PORT: u16 = 53;

/// Its process has sockets of UDP on this port of its addresses while it wants the queries. The kernel closes them with
/// the process, so whoever cannot ask the process looks for them. Only who may bind ports below 1024 can say so; nothing
/// else is known to use this one.
pub const DNS_OWNER_PORT: u16 = 54;

/// The operator's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Name of the Node that this process serves.
    pub node_name: Arc<str>,
    /// Masquerade every packet to a ClusterIP, from any source.
    pub masquerade_all: bool,
    /// The packet mark, one bit, for packets to masquerade.
    pub masquerade_mark: u32,
    /// How the node recognises traffic of its own pods.
    pub local_detector: LocalDetector,
    /// The addresses of the node with NodePorts.
    pub node_ports: NodePortAddresses,
    /// NodePorts answer on IPv4 loopback too, where they answer on all addresses or on a range that
    /// has it. Only the iptables data plane supports it.
    pub localhost_node_ports: bool,
    /// The node's primary address of its family, whatever the Node object says (kube-proxy's
    /// `--bind-address`, which binds nothing).
    pub node_ip: Option<IpAddr>,
    /// The node's own primary addresses, used while neither a Node object nor the machine
    /// ([`LocalAddresses`](sluice_model::LocalAddresses)) names better ones.
    pub fallback_node_ips: Vec<IpAddr>,
    /// The `spec.externalIPs` that are served; `None` serves them all, as kube-proxy does
    /// (CVE-2020-8554: whoever may write a Service may take any address).
    pub external_ips: Option<Vec<IpNet>>,
    /// Leaves out external IPs and load balancer addresses that are addresses of a node or lie in
    /// its pods' ranges. Otherwise they are served, with an issue. Those in a ServiceCIDR are left
    /// out in any case.
    pub refuse_shadowing: bool,
    /// The ports that may be NodePorts and health check node ports; `None` with an API server, which
    /// has given them out itself (its `--service-node-port-range`).
    pub node_port_range: Option<RangeInclusive<u16>>,
    /// The TCP ports on which this process answers probes and scrapes. No Service gets them.
    pub own_ports: BTreeSet<u16>,
    /// The Services with direct server return. Only the eBPF data plane supports it.
    pub direct_return: DirectReturn,
    /// Clients that have none.
    pub not_direct: Vec<IpNet>,
    /// Connections of TCP to endpoints that serve no more are stale, as those of UDP are. Otherwise TCP clients
    /// notice by themselves, as with kube-proxy.
    pub stale_tcp: bool,
    /// Objects that the data plane writes beyond one for each endpoint of a frontend.
    pub costs: Costs,
    /// The DNS server of this node; `None` without one.
    pub dns: Option<NodeDns>,
}

/// The DNS server of this node, and who answers in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeDns {
    /// The cluster's DNS Service. Its endpoints answer while this node's server does not.
    pub service: NamespacedName,
    /// Addresses that every node has for itself: further frontends of that Service, and of no other.
    pub addresses: Vec<IpAddr>,
    /// ClusterIPs of that Service that this node's server answers, too.
    pub cluster_ips: Vec<IpAddr>,
}

impl NodeDns {
    /// The DNS server of a node with the usual [addresses](DNS_ADDRESSES), in front of
    /// `kube-system/kube-dns`.
    #[must_use]
    pub fn usual() -> Self {
        Self {
            service: NamespacedName::new("kube-system", "kube-dns"),
            addresses: DNS_ADDRESSES.to_vec(),
            cluster_ips: Vec::new(),
        }
    }

    /// Every address on which this node's server answers.
    pub fn served(&self) -> impl Iterator<Item = IpAddr> {
        self.addresses.iter().chain(&self.cluster_ips).copied()
    }
}

/// Services with direct server return: endpoints on other nodes reply to clients outside the cluster themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectReturn {
    /// No Service.
    Off,
    /// Those with the annotation `sluice.dev/forwarding: dsr`.
    Annotated,
    /// All but those with the annotation `sluice.dev/forwarding: snat`.
    All,
}

impl DirectReturn {
    /// Whether a Service with this annotation has it.
    #[must_use]
    pub fn is_of(self, annotation: Option<Forwarding>) -> bool {
        match self {
            Self::Off => false,
            Self::Annotated => annotation == Some(Forwarding::Dsr),
            Self::All => annotation != Some(Forwarding::Snat),
        }
    }
}

/// What the data plane writes beyond an object for each frontend and each endpoint of it, in
/// objects. The limit of one Service counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// For each source range of a frontend; 0 where frontends share one list.
    pub source_range: usize,
    /// For each endpoint of a port with session affinity, once for all its frontends; 0 where it
    /// counts as any other.
    pub affinity: usize,
}

impl Settings {
    /// kube-proxy's defaults for the nftables mode, for a node of this name.
    pub fn for_node(node_name: impl Into<Arc<str>>) -> Self {
        Self {
            node_name: node_name.into(),
            masquerade_all: false,
            masquerade_mark: DEFAULT_MASQUERADE_MARK,
            local_detector: LocalDetector::None,
            node_ports: NodePortAddresses::Primary,
            localhost_node_ports: false,
            node_ip: None,
            fallback_node_ips: Vec::new(),
            external_ips: None,
            refuse_shadowing: false,
            node_port_range: None,
            own_ports: BTreeSet::new(),
            direct_return: DirectReturn::Off,
            not_direct: Vec::new(),
            stale_tcp: false,
            costs: Costs::default(),
            dns: None,
        }
    }
}

/// How the node recognises traffic of its own pods (`--detect-local-mode`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalDetector {
    /// Not at all: ClusterIPs are not masqueraded, unless all are.
    None,
    /// Source address inside one of these; only the first of each family counts, as in kube-proxy.
    ClusterCidrs(Vec<IpNet>),
    /// Source address inside the Node object's pod CIDR of the family.
    NodeCidr,
    /// Arrives through the interface of this name.
    Bridge(Arc<str>),
    /// Arrives through an interface whose name begins with this prefix.
    InterfacePrefix(Arc<str>),
}

/// Which addresses of the node answer on NodePorts (`--nodeport-addresses`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodePortAddresses {
    /// The node's primary address of each family: the default.
    Primary,
    /// Every address of the node inside one of these prefixes. A family without a prefix, or with
    /// one of length 0, answers on all of its addresses.
    Within(Vec<IpNet>),
}
