//! The operator's settings for this node: the part of the plan's input that is no API object.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;

use ipnet::IpNet;
use sluice_model::Forwarding;
pub use sluice_model::{LocalDetector, NodeDns};

/// Mark bit that kube-proxy sets on packets to masquerade: `1 << 14`.
pub const DEFAULT_MASQUERADE_MARK: u32 = 1 << 14;

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

/// Which addresses of the node answer on NodePorts (`--nodeport-addresses`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodePortAddresses {
    /// The node's primary address of each family: the default.
    Primary,
    /// Every address of the node inside one of these prefixes. A family without a prefix, or with
    /// one of length 0, answers on all of its addresses.
    Within(Vec<IpNet>),
}
