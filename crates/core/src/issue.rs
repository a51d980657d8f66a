//! What is wrong with the cluster's objects, though each is well formed.

use std::fmt;
use std::net::IpAddr;

use crate::model::{NamespacedName, ServicePortName};
use crate::plan::Frontend;

/// A problem that planning found. Everything else stands; status shows the issue.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Issue {
    /// Two Services ask for one frontend: the older or first by name keeps it.
    FrontendTaken {
        /// What both ask for.
        frontend: Frontend,
        /// Who has it.
        holder: ServicePortName,
        /// Who goes without.
        loser: ServicePortName,
    },
    /// Two Services have one ClusterIP. Ports that differ work for both.
    ClusterIpShared {
        /// The address.
        addr: IpAddr,
        /// Who had it first.
        holder: NamespacedName,
        /// Who has it too.
        other: NamespacedName,
    },
    /// A Service that needs a ClusterIP has none, and nothing here allocates one.
    NoClusterIp {
        /// The Service.
        service: NamespacedName,
    },
    /// There is no Node object for this node, so topology hints and NodePort addresses cannot
    /// follow it.
    NoNode {
        /// The node's name.
        name: String,
    },
}

impl Issue {
    /// A word for the kind of issue, for metrics and scripts.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::FrontendTaken { .. } => "FrontendTaken",
            Self::ClusterIpShared { .. } => "ClusterIPShared",
            Self::NoClusterIp { .. } => "NoClusterIP",
            Self::NoNode { .. } => "NoNode",
        }
    }
}

impl fmt::Display for Issue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FrontendTaken {
                frontend,
                holder,
                loser,
            } => write!(
                f,
                "Service {loser}: {frontend} belongs to Service {holder} (the older, else the \
                 first by name, keeps it): give one of them another address or port"
            ),
            Self::ClusterIpShared {
                addr,
                holder,
                other,
            } => write!(
                f,
                "Service {other}: spec.clusterIPs: {addr} is also the ClusterIP of Service {holder}"
            ),
            Self::NoClusterIp { service } => write!(
                f,
                "Service {service}: spec.clusterIP: is empty and nothing here allocates one: set \
                 an address, or None for a headless Service"
            ),
            Self::NoNode { name } => write!(
                f,
                "Node {name}: no such object: topology hints are ignored and NodePorts answer on \
                 the address of the default route"
            ),
        }
    }
}
