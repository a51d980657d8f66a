//! Problems of objects that are well formed, each in itself.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::{Frontend, Role};
use sluice_model::{NamespacedName, ServicePortName};

/// A problem that planning found. Everything else is planned; the status shows the issue.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Issue {
    /// Two Services ask for one frontend: the older or first by name keeps it.
    FrontendTaken {
        /// The frontend that both ask for.
        frontend: Frontend,
        /// The service port that owns it.
        holder: ServicePortName,
        /// The service port that does not get it.
        loser: ServicePortName,
    },
    /// Two Services have one ClusterIP. Ports that differ work for both.
    ClusterIpShared {
        /// The address.
        addr: IpAddr,
        /// The Service that owns the address.
        holder: NamespacedName,
        /// The other Service.
        other: NamespacedName,
    },
    /// A Service that needs a ClusterIP has none, and nothing here allocates one.
    NoClusterIp {
        /// The Service.
        service: NamespacedName,
    },
    /// An external IP is not among those that the operator allows.
    ExternalIpNotAllowed {
        /// The Service.
        service: NamespacedName,
        /// The address, which is not served.
        addr: IpAddr,
    },
    /// A Service names an address that belongs to the node or to pods.
    Shadows {
        /// The Service.
        service: NamespacedName,
        /// Where the Service names the address.
        role: Role,
        /// The address.
        addr: IpAddr,
        /// The owner of the address.
        shadowed: Shadowed,
        /// The address is not served.
        refused: bool,
    },
    /// A Service exceeds a limit of one Service; it is not served.
    TooLarge {
        /// The Service.
        service: NamespacedName,
        /// The resource whose limit is exceeded.
        what: &'static str,
        /// Number that the Service asks for.
        asked: usize,
        /// The limit.
        limit: usize,
    },
    /// There is no Node object for this node: topology hints are ignored, and the node's addresses
    /// come from the machine.
    NoNode {
        /// The node's name.
        name: String,
    },
}

/// The owner of an address that a Service names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Shadowed {
    /// The address is one of this node.
    Node,
    /// Maybe a pod: the address lies in this range of pods.
    Pods(IpNet),
}

impl Issue {
    /// The Service that has the problem; `None` when it is the node's.
    pub fn service(&self) -> Option<&NamespacedName> {
        match self {
            Self::FrontendTaken { loser, .. } => Some(&loser.service),
            Self::ClusterIpShared { other, .. } => Some(other),
            Self::NoClusterIp { service }
            | Self::ExternalIpNotAllowed { service, .. }
            | Self::Shadows { service, .. }
            | Self::TooLarge { service, .. } => Some(service),
            Self::NoNode { .. } => None,
        }
    }

    /// The kind of issue in one word, for metrics and scripts.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::FrontendTaken { .. } => "FrontendTaken",
            Self::ClusterIpShared { .. } => "ClusterIPShared",
            Self::NoClusterIp { .. } => "NoClusterIP",
            Self::ExternalIpNotAllowed { .. } => "ExternalIPNotAllowed",
            Self::Shadows { .. } => "Shadows",
            Self::TooLarge { .. } => "TooLarge",
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
            Self::ExternalIpNotAllowed { service, addr } => write!(
                f,
                "Service {service}: spec.externalIPs: {addr} is not allowed on this node \
                 (--external-ip-allow): it is not served"
            ),
            Self::Shadows {
                service,
                role,
                addr,
                shadowed,
                refused,
            } => {
                let field = match role {
                    Role::ClusterIp => "spec.clusterIPs",
                    Role::LoadBalancer => "status.loadBalancer.ingress",
                    Role::ExternalIp => "spec.externalIPs",
                    Role::NodePort => "spec.ports.nodePort",
                };
                write!(f, "Service {service}: {field}: {addr} ")?;
                match shadowed {
                    Shadowed::Node => write!(f, "is an address of this node")?,
                    Shadowed::Pods(net) => write!(f, "lies in the pods' range {net}")?,
                }
                f.write_str(match refused {
                    true => ": it is not served (--refuse-shadowing-vips)",
                    false => ": its ports lead to the Service now",
                })
            }
            Self::TooLarge {
                service,
                what,
                asked,
                limit,
            } => write!(
                f,
                "Service {service}: {asked} {what} are more than one Service may have ({limit}): \
                 it is not served"
            ),
            Self::NoNode { name } => write!(
                f,
                "Node {name}: no such object: topology hints are ignored and the node's addresses \
                 are known from the machine alone"
            ),
        }
    }
}
