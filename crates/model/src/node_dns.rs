//! The DNS server of a node.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::NamespacedName;

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
