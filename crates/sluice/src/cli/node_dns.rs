//! The flags of the DNS server inside the agent.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;

use crate::flags::{self, Heading};

/// The flags of the DNS server inside the agent.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = Heading::Dns.title())]
pub(crate) struct NodeDnsArgs {
    /// Answer the DNS queries of this node and its pods here, at --dns-address; while the agent does not answer,
    /// the endpoints of --dns-service do
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true", value_parser = flags::boolean)]
    pub(crate) dns: Option<bool>,
    /// Addresses that every node has for itself, one for each family at most: the nameserver of pods
    /// [default: 169.254.20.10,fd00:169:254:20::10]
    #[arg(long, value_name = "IP,..", value_delimiter = ',')]
    pub(crate) dns_address: Option<Vec<IpAddr>>,
    /// The cluster's DNS Service [default: kube-system/kube-dns]
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub(crate) dns_service: Option<String>,
    /// ClusterIPs of that Service that are answered here, too, for pods that have them as nameserver [default: none]
    #[arg(long, value_name = "IP,..", value_delimiter = ',')]
    pub(crate) dns_cluster_ip: Option<Vec<IpAddr>>,
    /// The domain of the cluster [default: cluster.local]
    #[arg(long, value_name = "DOMAIN")]
    pub(crate) dns_domain: Option<String>,
    /// A Corefile in place of the usual one, which answers the domain of the cluster and asks the servers of
    /// /etc/resolv.conf for everything else
    #[arg(long, value_name = "PATH")]
    pub(crate) dns_corefile: Option<PathBuf>,
}
