//! The ipsets: names and types of kube-proxy, and a few of our own.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use sluice_model::{IpFamily, Protocol};
use sluice_netlink::ipset::Member;
use sluice_xtables::rule::Side;

/// Most members of a set, which is more than a machine has memory for: one Service must not fill a
/// set that all share. What one may have is bounded by the plan. The kernel takes memory for members
/// that there are, not for this number.
pub(crate) const MOST_MEMBERS: u32 = 1 << 30;

/// An ipset; each family has one of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SetName {
    /// Endpoints of this node, for packets from an endpoint to itself.
    LoopBack,
    /// Every ClusterIP and port.
    ClusterIp,
    /// External IPs and ports with policy Cluster.
    ExternalIp,
    /// External IPs and ports with policy Local.
    ExternalIpLocal,
    /// Every load balancer address and port.
    LoadBalancer,
    /// The load balancer frontends with source ranges.
    LoadBalancerFw,
    /// Those of them with policy Local.
    LoadBalancerLocal,
    /// Single addresses that source ranges admit.
    LoadBalancerSourceIp,
    /// Networks that source ranges admit.
    LoadBalancerSourceCidr,
    /// Every NodePort of TCP.
    NodePortTcp,
    /// Those of them with policy Local.
    NodePortLocalTcp,
    /// Every NodePort of UDP.
    NodePortUdp,
    /// Those of them with policy Local.
    NodePortLocalUdp,
    /// Every NodePort of SCTP, on each address that answers.
    NodePortSctp,
    /// Those of them with policy Local.
    NodePortLocalSctp,
    /// Health check NodePorts of Services.
    HealthCheckNodePort,
    /// The addresses of kube-ipvs0.
    IpvsIps,
    /// Ours: frontends without a local endpoint that drop every client.
    NoLocalEndpoint,
    /// Ours: virtual IPs and ports without a local endpoint that drop clients of other nodes.
    NoLocalEndpointFar,
    /// Ours: NodePorts, on each address that answers, that do the same.
    NoLocalNodePortFar,
    /// Ours: virtual IPs and ports where clients on this node have a virtual server of their own,
    /// with its mark.
    NearClients,
    /// Ours: the same of NodePorts, on each address that answers. A virtual IP with the same address and
    /// port comes first.
    NearNodePorts,
}

/// Type of an ipset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SetKind {
    /// `hash:ip`.
    Address,
    /// `hash:ip,port`.
    AddressPort,
    /// `hash:ip,port` with `skbinfo`.
    MarkedAddressPort,
    /// `hash:ip,port,ip`.
    AddressPortAddress,
    /// `hash:ip,port,net`.
    AddressPortNet,
    /// `bitmap:port` of all ports.
    Port,
}

impl SetKind {
    /// As ipset writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Address => "hash:ip",
            Self::AddressPort | Self::MarkedAddressPort => "hash:ip,port",
            Self::AddressPortAddress => "hash:ip,port,ip",
            Self::AddressPortNet => "hash:ip,port,net",
            Self::Port => "bitmap:port",
        }
    }
}

impl SetName {
    /// All of them, in the order in which they are created.
    pub const ALL: [Self; 22] = [
        Self::LoopBack,
        Self::ClusterIp,
        Self::ExternalIp,
        Self::ExternalIpLocal,
        Self::LoadBalancer,
        Self::LoadBalancerFw,
        Self::LoadBalancerLocal,
        Self::LoadBalancerSourceIp,
        Self::LoadBalancerSourceCidr,
        Self::NodePortTcp,
        Self::NodePortLocalTcp,
        Self::NodePortUdp,
        Self::NodePortLocalUdp,
        Self::NodePortSctp,
        Self::NodePortLocalSctp,
        Self::HealthCheckNodePort,
        Self::IpvsIps,
        Self::NoLocalEndpoint,
        Self::NoLocalEndpointFar,
        Self::NoLocalNodePortFar,
        Self::NearClients,
        Self::NearNodePorts,
    ];

    /// Sets that together have every virtual IP and port.
    pub(crate) const VIRTUAL_IPS: [Self; 4] = [
        Self::LoadBalancer,
        Self::ClusterIp,
        Self::ExternalIp,
        Self::ExternalIpLocal,
    ];

    /// The name after the prefix `KUBE-`, `KUBE-6-`, or `SLUICE-` for sets that kube-proxy does not have.
    const fn suffix(self) -> &'static str {
        match self {
            Self::LoopBack => "LOOP-BACK",
            Self::ClusterIp => "CLUSTER-IP",
            Self::ExternalIp => "EXTERNAL-IP",
            Self::ExternalIpLocal => "EXTERNAL-IP-LOCAL",
            Self::LoadBalancer => "LOAD-BALANCER",
            Self::LoadBalancerFw => "LOAD-BALANCER-FW",
            Self::LoadBalancerLocal => "LOAD-BALANCER-LOCAL",
            Self::LoadBalancerSourceIp => "LOAD-BALANCER-SOURCE-IP",
            Self::LoadBalancerSourceCidr => "LOAD-BALANCER-SOURCE-CIDR",
            Self::NodePortTcp => "NODE-PORT-TCP",
            Self::NodePortLocalTcp => "NODE-PORT-LOCAL-TCP",
            Self::NodePortUdp => "NODE-PORT-UDP",
            Self::NodePortLocalUdp => "NODE-PORT-LOCAL-UDP",
            Self::NodePortSctp => "NODE-PORT-SCTP-HASH",
            Self::NodePortLocalSctp => "NODE-PORT-LOCAL-SCTP-HASH",
            Self::HealthCheckNodePort => "HEALTH-CHECK-NODE-PORT",
            Self::IpvsIps => "IPVS-IPS",
            Self::NoLocalEndpoint => "NO-LOCAL-ENDPOINT",
            Self::NoLocalEndpointFar => "NO-LOCAL-ENDPOINT-FAR",
            Self::NoLocalNodePortFar => "NO-LOCAL-NODE-PORT-FAR",
            Self::NearClients => "NEAR-CLIENTS",
            Self::NearNodePorts => "NEAR-NODE-PORTS",
        }
    }

    /// The name in the kernel, which families share: at most 31 characters, cut as kube-proxy cuts.
    pub fn name(self, family: IpFamily) -> String {
        const LONGEST: usize = 31;
        let is_ours = matches!(
            self,
            Self::NoLocalEndpoint
                | Self::NoLocalEndpointFar
                | Self::NoLocalNodePortFar
                | Self::NearClients
                | Self::NearNodePorts
        );
        let prefix = match (is_ours, family) {
            (false, IpFamily::V4) => "KUBE-",
            (false, IpFamily::V6) => "KUBE-6-",
            (true, IpFamily::V4) => "SLUICE-",
            (true, IpFamily::V6) => "SLUICE-6-",
        };
        let mut name = format!("{prefix}{}", self.suffix());
        name.truncate(LONGEST);
        name
    }

    /// Its type.
    pub const fn kind(self) -> SetKind {
        match self {
            Self::LoopBack | Self::LoadBalancerSourceIp => SetKind::AddressPortAddress,
            Self::ClusterIp
            | Self::ExternalIp
            | Self::ExternalIpLocal
            | Self::LoadBalancer
            | Self::LoadBalancerFw
            | Self::LoadBalancerLocal
            | Self::NodePortSctp
            | Self::NodePortLocalSctp
            | Self::NoLocalEndpoint
            | Self::NoLocalEndpointFar
            | Self::NoLocalNodePortFar => SetKind::AddressPort,
            Self::LoadBalancerSourceCidr => SetKind::AddressPortNet,
            Self::NodePortTcp
            | Self::NodePortLocalTcp
            | Self::NodePortUdp
            | Self::NodePortLocalUdp
            | Self::HealthCheckNodePort => SetKind::Port,
            Self::IpvsIps => SetKind::Address,
            Self::NearClients | Self::NearNodePorts => SetKind::MarkedAddressPort,
        }
    }

    /// The set of this name, of either family.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let has_name = |set: &Self| IpFamily::ALL.iter().any(|it| set.name(*it) == name);
        Self::ALL.into_iter().find(has_name)
    }

    /// The sets of all NodePorts of a protocol, and of those with policy Local.
    pub(crate) const fn node_ports(protocol: Protocol) -> [Self; 2] {
        match protocol {
            Protocol::Tcp => [Self::NodePortTcp, Self::NodePortLocalTcp],
            Protocol::Udp => [Self::NodePortUdp, Self::NodePortLocalUdp],
            Protocol::Sctp => [Self::NodePortSctp, Self::NodePortLocalSctp],
        }
    }

    /// Whether packets for its members, virtual IPs and ports, are accepted in nat and filter.
    pub(crate) fn lets_pass(self) -> bool {
        Self::VIRTUAL_IPS.contains(&self)
    }

    /// Whether its members have the marks of virtual servers.
    pub const fn leads(self) -> bool {
        matches!(self.kind(), SetKind::MarkedAddressPort)
    }

    /// The addresses and ports of a packet that are looked up.
    pub const fn fields(self) -> &'static [Side] {
        use Side::{Dst, Src};
        match self.kind() {
            SetKind::Address | SetKind::Port => &[Dst],
            SetKind::AddressPort | SetKind::MarkedAddressPort => &[Dst, Dst],
            SetKind::AddressPortAddress | SetKind::AddressPortNet => &[Dst, Dst, Src],
        }
    }

    /// The comment of rules that mention it; kube-proxy's where it has the set.
    pub const fn comment(self) -> &'static str {
        match self {
            Self::LoopBack => {
                "Kubernetes endpoints dst ip:port, source ip for solving hairpin purpose"
            }
            Self::ClusterIp => "Kubernetes service cluster ip + port for masquerade purpose",
            Self::ExternalIp => {
                "Kubernetes service external ip + port for masquerade and filter purpose"
            }
            Self::ExternalIpLocal => {
                "Kubernetes service external ip + port with externalTrafficPolicy=local"
            }
            Self::LoadBalancer => "Kubernetes service lb portal",
            Self::LoadBalancerFw => {
                "Kubernetes service load balancer ip + port for load balancer with sourceRange"
            }
            Self::LoadBalancerLocal => {
                "Kubernetes service load balancer ip + port with externalTrafficPolicy=local"
            }
            Self::LoadBalancerSourceIp => {
                "Kubernetes service load balancer ip + port + source IP for packet filter purpose"
            }
            Self::LoadBalancerSourceCidr => {
                "Kubernetes service load balancer ip + port + source cidr for packet filter purpose"
            }
            Self::NodePortTcp => "Kubernetes nodeport TCP port for masquerade purpose",
            Self::NodePortLocalTcp => {
                "Kubernetes nodeport TCP port with externalTrafficPolicy=local"
            }
            Self::NodePortUdp => "Kubernetes nodeport UDP port for masquerade purpose",
            Self::NodePortLocalUdp => {
                "Kubernetes nodeport UDP port with externalTrafficPolicy=local"
            }
            Self::NodePortSctp => {
                "Kubernetes nodeport SCTP port for masquerade purpose with type 'hash ip:port'"
            }
            Self::NodePortLocalSctp => {
                "Kubernetes nodeport SCTP port with externalTrafficPolicy=local with type 'hash \
                 ip:port'"
            }
            Self::HealthCheckNodePort => "Kubernetes health check node port",
            Self::IpvsIps => "addresses of kube-ipvs0",
            Self::NoLocalEndpoint => "Local policy and no endpoint on this node",
            Self::NoLocalEndpointFar | Self::NoLocalNodePortFar => {
                "external Local policy and no endpoint on this node: only near clients"
            }
            Self::NearClients | Self::NearNodePorts => {
                "external Local policy: near clients use endpoints anywhere"
            }
        }
    }
}

/// A member of an ipset.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Entry {
    /// Of `hash:ip`.
    Address(IpAddr),
    /// Of `hash:ip,port`.
    AddressPort(IpAddr, Protocol, u16),
    /// Of `hash:ip,port,ip`.
    AddressPortAddress(IpAddr, Protocol, u16, IpAddr),
    /// Of `hash:ip,port,net`.
    AddressPortNet(IpAddr, Protocol, u16, IpNet),
    /// Of `bitmap:port`.
    Port(u16),
    /// A member of a form that we do not write, as the kernel has it.
    Foreign(Member),
}

impl fmt::Display for Entry {
    /// As ipset reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(ip) => write!(f, "{ip}"),
            Self::AddressPort(ip, protocol, port) => write!(f, "{ip},{protocol}:{port}"),
            Self::AddressPortAddress(ip, protocol, port, source) => {
                write!(f, "{ip},{protocol}:{port},{source}")
            }
            Self::AddressPortNet(ip, protocol, port, source) => {
                write!(f, "{ip},{protocol}:{port},{source}")
            }
            Self::Port(port) => write!(f, "{port}"),
            Self::Foreign(member) => write!(f, "{member}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_those_of_kube_proxy() {
        for (set, family, name) in [
            (SetName::ClusterIp, IpFamily::V4, "KUBE-CLUSTER-IP"),
            (SetName::ClusterIp, IpFamily::V6, "KUBE-6-CLUSTER-IP"),
            (SetName::LoopBack, IpFamily::V6, "KUBE-6-LOOP-BACK"),
            (
                SetName::NodePortSctp,
                IpFamily::V4,
                "KUBE-NODE-PORT-SCTP-HASH",
            ),
            // 32 characters, one too many.
            (
                SetName::LoadBalancerSourceCidr,
                IpFamily::V6,
                "KUBE-6-LOAD-BALANCER-SOURCE-CID",
            ),
            (
                SetName::NodePortLocalSctp,
                IpFamily::V6,
                "KUBE-6-NODE-PORT-LOCAL-SCTP-HAS",
            ),
        ] {
            assert_eq!(set.name(family), name);
        }
    }

    #[test]
    fn no_two_sets_have_one_name() {
        let names: BTreeSet<String> = IpFamily::ALL
            .into_iter()
            .flat_map(|family| SetName::ALL.map(|set| set.name(family)))
            .collect();
        assert_eq!(names.len(), 2 * SetName::ALL.len());
    }
}
