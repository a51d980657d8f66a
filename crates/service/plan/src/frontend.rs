//! Frontends and the verdicts on packets to them.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use crate::Scope;
use sluice_model::{IpFamily, Protocol};

/// Address, port and protocol that clients connect to: DNS serves TCP and UDP on one address and port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Frontend {
    /// A virtual IP with a port.
    Address {
        addr: IpAddr,
        port: u16,
        protocol: Protocol,
    },
    /// A port of every address of the node that answers on NodePorts.
    NodePort {
        /// Family of the addresses.
        family: IpFamily,
        port: u16,
        protocol: Protocol,
    },
}

impl Frontend {
    pub fn protocol(&self) -> Protocol {
        match self {
            Self::Address { protocol, .. } | Self::NodePort { protocol, .. } => *protocol,
        }
    }

    /// The port that clients dial.
    pub fn port(&self) -> u16 {
        match self {
            Self::Address { port, .. } | Self::NodePort { port, .. } => *port,
        }
    }

    pub fn family(&self) -> IpFamily {
        match self {
            Self::Address { addr, .. } => IpFamily::of(addr),
            Self::NodePort { family, .. } => *family,
        }
    }
}

impl fmt::Display for Frontend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address {
                addr,
                port,
                protocol,
            } => write!(f, "{}/{protocol}", SocketAddr::new(*addr, *port)),
            Self::NodePort {
                family,
                port,
                protocol,
            } => write!(f, "{family} NodePort {port}/{protocol}"),
        }
    }
}

/// The field of a Service that a frontend comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// An address of the node's DNS server ([`NodeDns`](crate::settings::NodeDns)), which the settings
    /// give to the cluster's DNS Service.
    NodeDns,
    /// `spec.clusterIPs`.
    ClusterIp,
    /// `status.loadBalancer.ingress`.
    LoadBalancer,
    /// `spec.externalIPs`.
    ExternalIp,
    /// `spec.ports[].nodePort`.
    NodePort,
}

impl Role {
    /// Whether the address is one of the cluster itself, with `spec.internalTrafficPolicy`. What comes
    /// from outside has an external policy.
    #[must_use]
    pub fn is_internal(self) -> bool {
        matches!(self, Self::NodeDns | Self::ClusterIp)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::NodeDns => "NodeDNS",
            Self::ClusterIp => "ClusterIP",
            Self::LoadBalancer => "LoadBalancer",
            Self::ExternalIp => "ExternalIP",
            Self::NodePort => "NodePort",
        })
    }
}

/// What a node does with the first packet of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Send it to a random endpoint of this pool of the [`PortPlan`](crate::PortPlan).
    Balance(Scope),
    /// Drop it: the policy is Local and this node has no endpoint, but another node may; or the source is not allowed,
    /// or the ClusterIP is not allocated.
    Drop,
    /// Reject it with an error to the client: there is no endpoint, or the ClusterIP has no such port.
    Reject,
}

/// The verdict of a frontend for each kind of client, and which clients are masqueraded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Route {
    /// ClusterIP, or the node's DNS address: one verdict for all; masqueraded as
    /// [`NodePlan`](crate::NodePlan) says for ClusterIPs.
    Internal(Verdict),
    /// External with policy Cluster, or nothing to send to: one verdict for all, always
    /// masqueraded, since the reply must come back through this node.
    External(Verdict),
    /// External with policy Local. Pods of this node keep their address and go to the cluster
    /// pool, the node itself is masqueraded and goes to the cluster pool, everyone else gets
    /// `far` with the source address kept.
    ExternalLocal {
        /// Verdict for clients that are neither the node nor one of its pods.
        far: Verdict,
    },
}
