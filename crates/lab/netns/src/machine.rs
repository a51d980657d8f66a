//! The machines of a cluster: nodes, pods, external clients.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::Arc,
};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::{
    LabError, Netns,
    address::{
        FIRST_CLIENT, FIRST_NODE, FIRST_POD, LAST_HOST, LAST_PODS, lan_v4, lan_v6, next_host,
        pod_cidr_v4, pod_cidr_v6, pod_v4, pod_v6,
    },
    ready, wiring,
};

/// A machine that forwards packets between the LAN and its pods; a proxy runs here.
#[derive(Debug)]
pub struct Node {
    pub(crate) name: String,
    /// Index of the node, from 0; all its addresses contain it.
    pub(crate) position: u8,
    /// Host part of the pod address that was assigned last.
    last_host: u8,
    pub(crate) netns: Arc<Netns>,
}

impl Node {
    pub(crate) fn new(name: String, position: u8, netns: Netns) -> Self {
        Self {
            name,
            position,
            last_host: FIRST_POD - 1,
            netns: Arc::new(netns),
        }
    }

    /// Its name, also as the name of the Kubernetes Node.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its address on the LAN (the InternalIP).
    pub fn ipv4(&self) -> Ipv4Addr {
        lan_v4(self.host())
    }

    /// Its address on the LAN (the second InternalIP).
    pub fn ipv6(&self) -> Ipv6Addr {
        lan_v6(self.host())
    }

    /// Its namespace; the interface to the LAN is `eth0`.
    pub fn netns(&self) -> &Netns {
        &self.netns
    }

    /// Addresses of its pods.
    pub fn pod_cidr_v4(&self) -> Ipv4Net {
        pod_cidr_v4(self.position)
    }

    /// Addresses of its pods.
    pub fn pod_cidr_v6(&self) -> Ipv6Net {
        pod_cidr_v6(self.position)
    }

    /// Adds an address to `eth0`; the node never chooses it as a source address.
    ///
    /// An address outside the LAN needs a route at the client, see [`Client::route_via`].
    ///
    /// # Errors
    /// [`LabError::Wire`] when the node has it already; [`LabError::NotReady`] when `eth0` does not receive packets for it.
    pub fn add_address(&self, ip: IpAddr) -> Result<(), LabError> {
        self.netns.wire(|it| wiring::extra_address(it, ip))?;
        ready::address(&self.netns, ip)
    }

    pub(crate) fn host(&self) -> u8 {
        FIRST_NODE + self.position
    }

    /// Its own address in the family of `cidr`.
    pub(crate) fn address_for(&self, cidr: IpNet) -> IpAddr {
        match cidr {
            IpNet::V4(_) => self.ipv4().into(),
            IpNet::V6(_) => self.ipv6().into(),
        }
    }

    /// The next pod gets a number after this one.
    pub(crate) fn used(&mut self, host: u8) {
        if host < LAST_PODS {
            self.last_host = self.last_host.max(host);
        }
    }

    /// The host part for one more pod; `used` are the host parts of the node's pods.
    pub(crate) fn allocate(&mut self, used: &[u8], place: Place) -> Result<u8, LabError> {
        let host = match place {
            Place::Next => next_host(self.last_host, used),
            Place::Last => (FIRST_POD..=LAST_HOST).rev().find(|it| !used.contains(it)),
        };
        let host = host.ok_or_else(|| {
            LabError::Topology(format!("node {} has no free pod address", self.name))
        })?;
        if place == Place::Next {
            self.last_host = host;
        }
        Ok(host)
    }
}

/// Which of its node's free addresses a pod gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The one after that of the pod before it.
    Next,
    /// The last one. Other pods have the addresses that they have without it.
    Last,
}

/// A pod: a namespace of its own, or its node's with the host network.
#[derive(Debug)]
pub struct Pod {
    pub(crate) name: String,
    pub(crate) node: String,
    pub(crate) ipv4: Ipv4Addr,
    pub(crate) ipv6: Ipv6Addr,
    pub(crate) netns: Arc<Netns>,
    /// Host part of its addresses; `None` with the host network.
    pub(crate) host: Option<u8>,
}

impl Pod {
    pub(crate) fn new(name: String, node: &Node, host: u8, netns: Netns) -> Self {
        Self {
            name,
            node: node.name.clone(),
            ipv4: pod_v4(node.position, host),
            ipv6: pod_v6(node.position, host),
            netns: Arc::new(netns),
            host: Some(host),
        }
    }

    pub(crate) fn on_host_network(name: String, node: &Node) -> Self {
        let netns = Arc::clone(&node.netns);
        Self {
            name,
            node: node.name.clone(),
            ipv4: node.ipv4(),
            ipv6: node.ipv6(),
            netns,
            host: None,
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name of its node.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Its address; the node's with the host network.
    pub fn ipv4(&self) -> Ipv4Addr {
        self.ipv4
    }

    /// Its address; the node's with the host network.
    pub fn ipv6(&self) -> Ipv6Addr {
        self.ipv6
    }

    /// Its namespace; the interface is `eth0`. The node's with the host network.
    pub fn netns(&self) -> &Netns {
        &self.netns
    }

    /// Whether the pod shares the namespace and the addresses of its node.
    pub fn is_host_network(&self) -> bool {
        self.host.is_none()
    }

    /// The last part of its addresses; `None` with the host network.
    pub fn host(&self) -> Option<u8> {
        self.host
    }

    /// The node's end of the pod's veth pair; `None` with the host network.
    pub fn host_interface(&self) -> Option<String> {
        self.host.map(|host| interface_name(&self.name, host))
    }
}

/// `veth<name>`; when that is longer than 15 bytes, its beginning, a dot and the host part of the
/// pod's address.
fn interface_name(name: &str, host: u8) -> String {
    /// IFNAMSIZ without the final zero byte.
    const LONGEST: usize = 15;
    let full = format!("veth{name}");
    if full.len() <= LONGEST {
        return full;
    }
    // Names of pods have no dot, so no full name is equal to this one.
    let suffix = format!(".{host}");
    format!("{}{suffix}", &full[..LONGEST - suffix.len()])
}

/// A machine outside the cluster, on the same LAN as the nodes.
#[derive(Debug)]
pub struct Client {
    pub(crate) name: String,
    pub(crate) position: u8,
    pub(crate) netns: Netns,
}

impl Client {
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its address on the LAN.
    pub fn ipv4(&self) -> Ipv4Addr {
        lan_v4(self.host())
    }

    /// Its address on the LAN.
    pub fn ipv6(&self) -> Ipv6Addr {
        lan_v6(self.host())
    }

    /// Its namespace; the interface is `eth0`.
    pub fn netns(&self) -> &Netns {
        &self.netns
    }

    /// Routes `cidr` through `node`, as a router in front of the cluster would.
    ///
    /// For the addresses of load balancers and external IPs. The service CIDRs are routed through the
    /// first node until this replaces the route. A client has no default route: all else is
    /// unreachable.
    ///
    /// # Errors
    /// [`LabError::Wire`] when the kernel refuses the route.
    pub fn route_via(&self, cidr: IpNet, node: &Node) -> Result<(), LabError> {
        self.netns.wire(|it| wiring::route_via(it, cidr, node))
    }

    pub(crate) fn host(&self) -> u8 {
        FIRST_CLIENT + self.position
    }
}

#[cfg(test)]
mod tests {
    use super::interface_name;

    #[test]
    fn interface_names_of_long_pod_names_are_short_and_differ() {
        assert_eq!(interface_name("web-1", 2), "vethweb-1");
        assert_eq!(interface_name("elevenchars", 2), "vethelevenchars");
        assert_eq!(interface_name("twelve-chars", 7), "vethtwelve-ch.7");
        assert_eq!(interface_name("twelve-charts", 254), "vethtwelve-.254");
    }
}
