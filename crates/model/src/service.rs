//! Services: what the API object says, cut to what a proxy needs.

use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::Arc;

use ipnet::IpNet;

use crate::{NamespacedName, Protocol};

/// A Service (core/v1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Namespace and name.
    pub name: NamespacedName,
    /// `metadata.creationTimestamp` in seconds since the Unix epoch; `None` when the object has
    /// none (manifests usually do not). Decides who keeps a contested frontend.
    pub created: Option<i64>,
    /// `spec.type`.
    pub kind: ServiceKind,
    /// `spec.clusterIPs` (or the older `spec.clusterIP`).
    pub cluster_ips: ClusterIps,
    /// `spec.externalIPs`.
    pub external_ips: Vec<IpAddr>,
    /// `status.loadBalancer.ingress[]` entries that have an address; hostname-only ones have no
    /// meaning for a proxy.
    pub load_balancer: Vec<LoadBalancerIngress>,
    /// `spec.loadBalancerSourceRanges`. Empty allows everyone.
    pub source_ranges: Vec<IpNet>,
    /// `spec.internalTrafficPolicy`, default Cluster.
    pub internal_policy: TrafficPolicy,
    /// `spec.externalTrafficPolicy`, default Cluster.
    pub external_policy: TrafficPolicy,
    /// `spec.sessionAffinity`.
    pub affinity: SessionAffinity,
    /// Annotation `sluice.dev/ipvs-scheduler`: how IPVS chooses among the endpoints.
    pub ipvs_scheduler: Option<Arc<str>>,
    /// `spec.healthCheckNodePort`; `None` when zero or absent.
    pub health_check_node_port: Option<NonZeroU16>,
    /// Value of the label `service.kubernetes.io/service-proxy-name`. `Some`: another proxy
    /// serves this Service and we leave it alone.
    pub proxy_name: Option<Arc<str>>,
    /// `spec.ports`.
    pub ports: Vec<ServicePort>,
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
    /// A DNS alias: nothing for a proxy to do.
    ExternalName,
}

/// The virtual IPs of a Service inside the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterIps {
    /// `clusterIP: None`: clients talk to the endpoints themselves.
    Headless,
    /// Nobody has allocated one yet.
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
    /// The load balancer is a proxy: nodes must not short-cut to it.
    Proxy,
}

/// `internalTrafficPolicy` and `externalTrafficPolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TrafficPolicy {
    /// Any endpoint of the cluster.
    Cluster,
    /// Only endpoints on the node that the packet reached.
    Local,
}

/// `spec.sessionAffinity`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SessionAffinity {
    /// Each connection is balanced on its own.
    None,
    /// Connections of one client address go to one endpoint.
    ClientIp {
        /// Seconds after the last new connection until the client is forgotten, 1..=86400.
        timeout_seconds: u32,
    },
}
