//! Pods and Namespaces.

use std::net::IpAddr;
use std::num::NonZeroU16;
use std::ops::Deref;
use std::sync::Arc;

use crate::{Labels, NamespacedName, Protocol};

/// A Namespace (core/v1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `metadata.labels`.
    pub labels: Labels,
}

/// A Pod (core/v1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Namespace and name.
    pub name: NamespacedName,
    /// `metadata.labels`.
    pub labels: Labels,
    /// The named ones of `spec.containers[].ports`.
    pub ports: ContainerPorts,
    /// `spec.nodeName`; `None` before the pod is scheduled.
    pub node: Option<Arc<str>>,
    /// `status.podIPs` (or the older `status.podIP`): one address per family at most. None once the pod's phase is
    /// Succeeded or Failed: the addresses are free for other pods then.
    pub addresses: Vec<IpAddr>,
    /// `metadata.deletionTimestamp` is set: the containers are ending. The addresses may be free, and another pod's, before
    /// the object is gone.
    pub is_terminating: bool,
    /// `spec.hostNetwork`: the addresses are those of the node, shared with other pods.
    pub host_network: bool,
    /// The pod's resolver settings.
    pub dns: PodDns,
}

/// The named ports of a Pod's containers, in their order. A clone is a pointer: the Pods of one Deployment have the
/// same. None take no memory of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ContainerPorts(Option<Arc<[ContainerPort]>>);

impl FromIterator<ContainerPort> for ContainerPorts {
    fn from_iter<I: IntoIterator<Item = ContainerPort>>(ports: I) -> Self {
        let ports: Arc<[_]> = ports.into_iter().collect();
        Self((!ports.is_empty()).then_some(ports))
    }
}

impl Deref for ContainerPorts {
    type Target = [ContainerPort];

    fn deref(&self) -> &[ContainerPort] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl ContainerPorts {
    /// The number that a NetworkPolicy or Service means by a name. Of two ports with one name and protocol the first
    /// counts, as in Kubernetes' `FindPort` (`pkg/api/v1/pod`).
    #[must_use]
    pub fn number(&self, name: &str, protocol: Protocol) -> Option<NonZeroU16> {
        let is_it = |it: &&ContainerPort| &*it.name == name && it.protocol == protocol;
        self.iter().find(is_it).map(|it| it.port)
    }

    /// How many clones of this list there are, this one included. 0 for none.
    #[must_use]
    pub fn shares(&self) -> usize {
        self.0.as_ref().map_or(0, Arc::strong_count)
    }
}

/// One of `spec.containers[].ports` that has a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ContainerPort {
    pub name: Arc<str>,
    /// `protocol`, default TCP.
    pub protocol: Protocol,
    /// `containerPort`.
    pub port: NonZeroU16,
}

/// `spec.dnsPolicy` and `spec.dnsConfig` of a Pod: what kubelet writes into its `/etc/resolv.conf`
/// (`pkg/kubelet/network/dns`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodDns {
    /// `spec.dnsPolicy`.
    pub policy: DnsPolicy,
    /// `spec.dnsConfig.searches`, which come after those of the policy: in lower case, without a final dot. The root is
    /// `.`.
    pub searches: Vec<Arc<str>>,
    /// `ndots` of `spec.dnsConfig.options`, 0..=15: a larger one counts as 15 (resolv.conf(5)). `None` when it is
    /// absent or no number.
    pub ndots: Option<u8>,
}

/// `spec.dnsPolicy` of a Pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DnsPolicy {
    /// The cluster's DNS and search path; a pod with `hostNetwork` gets those of its node.
    #[default]
    ClusterFirst,
    /// The cluster's DNS and search path, also with `hostNetwork`.
    ClusterFirstWithHostNet,
    /// The resolver settings of the node.
    Default,
    /// Only what `dnsConfig` says.
    None,
}
