//! What somebody asks the doctor.

use std::net::IpAddr;
use std::path::PathBuf;

/// What is wrong, and with what.
#[derive(Clone, Debug)]
pub struct Question {
    /// The Service, as in `default/web`, or its DNS name; `None` for the machine as a whole.
    pub service: Option<String>,
    /// The client that gets no answer: an address, or a pod as NAMESPACE/NAME. `None`: this node, and for Services that
    /// are open to the outside, a client there.
    pub from: Option<String>,
    /// Whether to connect to endpoints and virtual IPs, and to ask the cluster's DNS.
    pub is_probed: bool,
    /// The cluster's DNS Service; `None` for the agent's, or the usual one.
    pub dns_service: Option<String>,
    /// The domain of the cluster.
    pub domain: String,
    /// The kubelet's configuration, and its file.
    pub kubelet: Kubelet,
}

/// The part of a KubeletConfiguration that decides what resolvers of pods are told.
#[derive(Clone, Debug)]
pub struct Kubelet {
    /// Where its configuration is, or would be.
    pub path: PathBuf,
    /// The nameservers of pods; `None` where no kubelet has a readable configuration.
    pub cluster_dns: Option<Vec<IpAddr>>,
    /// The file whose servers and search path pods get beside the cluster's; `None` for this machine's.
    pub resolv_conf: Option<String>,
}
