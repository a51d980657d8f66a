//! Pods and Namespaces: the fields that the DNS server needs. Proxies ignore both kinds.

use std::net::IpAddr;
use std::sync::Arc;

use crate::NamespacedName;

/// A Namespace (core/v1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// `metadata.name`.
    pub name: Arc<str>,
}

/// A Pod (core/v1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Namespace and name.
    pub name: NamespacedName,
    /// `spec.nodeName`; `None` before the pod is scheduled.
    pub node: Option<Arc<str>>,
    /// `status.podIPs` (or the older `status.podIP`): one address per family at most. None once the pod's phase is
    /// Succeeded or Failed: the addresses are free for other pods then.
    pub addresses: Vec<IpAddr>,
    /// `spec.hostNetwork`: the addresses are those of the node, shared with other pods.
    pub host_network: bool,
    /// The pod's resolver settings.
    pub dns: PodDns,
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
