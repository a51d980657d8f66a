//! Cluster-scoped objects: nodes and the ranges that ClusterIPs come from.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

/// A Node (core/v1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Name.
    pub name: Arc<str>,
    /// `status.addresses` that are IP addresses: every InternalIP, then every ExternalIP. The
    /// first of each family is the node's primary address.
    pub addresses: Vec<IpAddr>,
    /// Label `topology.kubernetes.io/zone`.
    pub zone: Option<Arc<str>>,
    /// `spec.podCIDRs` (or the older `spec.podCIDR`).
    pub pod_cidrs: Vec<IpNet>,
}

/// A ServiceCIDR (networking.k8s.io/v1): a range that ClusterIPs are allocated from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceCidr {
    /// Name.
    pub name: Arc<str>,
    /// `spec.cidrs`.
    pub cidrs: Vec<IpNet>,
}
