//! Services: the fields that a proxy needs.

use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::Arc;

use ipnet::IpNet;

use crate::{NamespacedName, Protocol, ServicePortName};

/// A Service (core/v1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Namespace and name.
    pub name: NamespacedName,
    /// `metadata.creationTimestamp` in seconds since the Unix epoch; `None` when the object has
    /// none, as most manifests. Decides which Service owns a frontend that two ask for.
    pub created: Option<i64>,
    /// `spec.type`.
    pub kind: ServiceKind,
    /// `spec.clusterIPs` (or the older `spec.clusterIP`).
    pub cluster_ips: ClusterIps,
    /// `spec.externalName` without a final dot: the name that an ExternalName Service stands for. `None` for
    /// every other kind. Proxies ignore it.
    pub external_name: Option<Arc<str>>,
    /// `spec.externalIPs`.
    pub external_ips: Vec<IpAddr>,
    /// `status.loadBalancer.ingress[]`, the entries that have an address.
    pub load_balancer: Vec<LoadBalancerIngress>,
    /// `spec.loadBalancerSourceRanges`. Empty allows everyone.
    pub source_ranges: Vec<IpNet>,
    /// `spec.internalTrafficPolicy`, default Cluster.
    pub internal_policy: TrafficPolicy,
    /// `spec.externalTrafficPolicy`, default Cluster.
    pub external_policy: TrafficPolicy,
    /// `spec.sessionAffinity`.
    pub affinity: SessionAffinity,
    /// Annotation `sluice.dev/ipvs-scheduler`: the IPVS scheduler.
    pub ipvs_scheduler: Option<Arc<str>>,
    /// Annotation `sluice.dev/lb-algorithm`; `None`: by chance.
    pub algorithm: Option<Algorithm>,
    /// Annotation `sluice.dev/forwarding`; `None`: as the operator says.
    pub forwarding: Option<Forwarding>,
    /// `spec.healthCheckNodePort`; `None` when zero or absent.
    pub health_check_node_port: Option<NonZeroU16>,
    /// Value of the label `service.kubernetes.io/service-proxy-name`. `Some`: another proxy serves
    /// this Service.
    pub proxy_name: Option<Arc<str>>,
    /// `spec.ports`.
    pub ports: Vec<ServicePort>,
}

impl Service {
    /// Identity of one of the Service's ports.
    pub fn port_name(&self, port: &ServicePort) -> ServicePortName {
        ServicePortName {
            service: self.name.clone(),
            port: port.name.clone(),
            protocol: port.protocol,
        }
    }

    /// Every address that it names, in any field.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let cluster_ips = match &self.cluster_ips {
            ClusterIps::Assigned(ips) => &ips[..],
            ClusterIps::Headless | ClusterIps::Unassigned => &[],
        };
        let load_balancer = self.load_balancer.iter().map(|it| it.ip);
        let named = cluster_ips.iter().chain(&self.external_ips).copied();
        named.chain(load_balancer)
    }
}

/// `spec.type` of a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceKind {
    /// Reachable inside the cluster.
    ClusterIp,
    /// Also on a port of every node.
    NodePort,
    /// Also through a load balancer's address.
    LoadBalancer,
    /// A DNS alias, which proxies ignore.
    ExternalName,
}

/// The virtual IPs of a Service inside the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterIps {
    /// `clusterIP: None`: clients connect to the endpoints directly.
    Headless,
    /// Not allocated yet.
    Unassigned,
    /// One address per family at most, in the Service's order of preference.
    Assigned(Vec<IpAddr>),
}

/// One port of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePort {
    /// Name; empty when unnamed. Endpoint slices refer to ports by this name.
    pub name: Arc<str>,
    /// Protocol, default TCP.
    pub protocol: Protocol,
    /// The port clients dial on a virtual IP.
    pub port: NonZeroU16,
    /// The port clients dial on a node; `None` when there is none.
    pub node_port: Option<NonZeroU16>,
}

/// One address that a load balancer gave to a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadBalancerIngress {
    /// The address.
    pub ip: IpAddr,
    /// `ipMode`, default VIP.
    pub mode: IpMode,
}

/// Who terminates traffic to a load balancer address (KEP-1860).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpMode {
    /// Packets arrive with the address as destination: nodes must answer to it.
    Vip,
    /// The load balancer is a proxy: packets to the address must leave the node.
    Proxy,
}

/// `internalTrafficPolicy` and `externalTrafficPolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TrafficPolicy {
    /// Endpoints of the whole cluster.
    Cluster,
    /// Only endpoints of the node that the packet reached.
    Local,
}

/// `spec.sessionAffinity`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SessionAffinity {
    /// Each connection is balanced on its own.
    None,
    /// Connections of one client address go to one endpoint.
    ClientIp {
        /// Timeout in seconds since the client's last new connection, 1..=86400.
        timeout_seconds: u32,
    },
}

/// How the eBPF data plane chooses the endpoint of a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// By chance.
    Random,
    /// By a table that every node makes alike, and of which few entries change with an endpoint.
    Maglev,
}

impl Algorithm {
    /// Every algorithm.
    pub const ALL: [Self; 2] = [Self::Random, Self::Maglev];

    /// Its name in the annotation.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Maglev => "maglev",
        }
    }
}

/// How the eBPF data plane sends connections from outside to endpoints of other nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Forwarding {
    /// With an address of this node as their source; replies come back through it.
    Snat,
    /// Unchanged through a tunnel to the endpoint's node, which replies to the client itself (direct server
    /// return).
    Dsr,
}

impl Forwarding {
    /// Every way.
    pub const ALL: [Self; 2] = [Self::Snat, Self::Dsr];

    /// Its name in the annotation.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Snat => "snat",
            Self::Dsr => "dsr",
        }
    }
}
