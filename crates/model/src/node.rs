//! Cluster-scoped objects: nodes and the ranges that ClusterIPs come from.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

/// A Node (core/v1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub name: Arc<str>,
    /// `status.addresses` that are IP addresses: every InternalIP, then every ExternalIP. The
    /// first of each family is the node's primary address.
    pub addresses: Vec<IpAddr>,
    /// Label `topology.kubernetes.io/zone`.
    pub zone: Option<Arc<str>>,
    /// `spec.podCIDRs` (or the older `spec.podCIDR`).
    pub pod_cidrs: Vec<IpNet>,
    /// Is being deleted (`metadata.deletionTimestamp`), or the cluster autoscaler is about to
    /// (taint `ToBeDeletedByClusterAutoscaler`): load balancers should use other nodes (KEP-3836).
    pub leaving: bool,
}

/// A ServiceCIDR (networking.k8s.io/v1): a range that ClusterIPs are allocated from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceCidr {
    pub name: Arc<str>,
    /// `spec.cidrs`.
    pub cidrs: Vec<IpNet>,
}

/// The addresses of the machine, from its kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalAddresses {
    /// Every address of every interface, loopback included.
    pub all: BTreeSet<IpAddr>,
    /// The source addresses along the default route, at most one of each family. They are the node's
    /// addresses while no Node object names any.
    pub default_route: Vec<IpAddr>,
}
