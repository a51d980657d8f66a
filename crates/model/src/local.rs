//! How a node knows the packets of its own pods.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

use crate::{IpFamily, Node};

/// How the node recognises traffic of its own pods (`--detect-local-mode`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalDetector {
    /// Not at all: ClusterIPs are not masqueraded, unless all are.
    None,
    /// Source address inside one of these; only the first of each family counts, as in kube-proxy.
    ClusterCidrs(Vec<IpNet>),
    /// Source address inside the Node object's pod CIDR of the family.
    NodeCidr,
    /// Arrives through the interface of this name.
    Bridge(Arc<str>),
    /// Arrives through an interface whose name begins with this prefix.
    InterfacePrefix(Arc<str>),
}

/// Packets that come from a pod of this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalTraffic {
    /// The source address is in this prefix.
    From(IpNet),
    /// Arrived through this interface.
    Interface(Arc<str>),
    /// Arrived through an interface whose name begins with this prefix.
    InterfacePrefix(Arc<str>),
}

impl LocalTraffic {
    /// How the operator's detector recognises pods of this node in one family; `None` when it cannot.
    pub fn detected_by(
        detector: &LocalDetector,
        node: Option<&Node>,
        family: IpFamily,
    ) -> Option<Self> {
        let first = |nets: &[IpNet]| {
            let mut of_family = nets.iter().filter(|net| IpFamily::of_net(net) == family);
            of_family.next().map(|net| Self::From(net.trunc()))
        };
        match detector {
            LocalDetector::None => None,
            LocalDetector::ClusterCidrs(nets) => first(nets),
            LocalDetector::NodeCidr => node.and_then(|it| first(&it.pod_cidrs)),
            LocalDetector::Bridge(name) => Some(Self::Interface(name.clone())),
            LocalDetector::InterfacePrefix(prefix) => Some(Self::InterfacePrefix(prefix.clone())),
        }
    }

    /// Whether a packet comes from a pod of this node. `interface`: where it arrived; `None` for
    /// a packet that the node itself sends.
    pub fn matches(&self, source: IpAddr, interface: Option<&str>) -> bool {
        match self {
            Self::From(net) => net.contains(&source),
            Self::Interface(name) => interface == Some(&**name),
            Self::InterfacePrefix(prefix) => interface.is_some_and(|it| it.starts_with(&**prefix)),
        }
    }
}
