//! The flags of `sluice controller`.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use clap::Args;
use ipnet::IpNet;

use crate::flags;

/// `sluice controller`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ControllerArgs {
    /// Folder of manifests as somebody wrote them, with its subfolders
    #[arg(long, value_name = "DIR")]
    pub(crate) manifests: PathBuf,
    /// Folder of complete manifests for `sluice proxy --manifests`; nothing else may be in it
    #[arg(long, value_name = "DIR")]
    pub(crate) output: PathBuf,
    /// ClusterIPs; the first prefix is for Services that ask for no family. ServiceCIDRs among the manifests
    /// come in its place
    #[arg(long, value_name = "CIDR,..", value_delimiter = ',')]
    #[arg(default_value = "10.96.0.0/16,fd00:10:96::/112")]
    pub(crate) service_cluster_ip_range: Vec<IpNet>,
    /// NodePorts and health check node ports
    #[arg(long, value_name = "FIRST-LAST", default_value = "30000-32767", value_parser = flags::port_range)]
    pub(crate) service_node_port_range: RangeInclusive<u16>,
    /// Addresses for Services of type LoadBalancer [default: they get none]
    #[arg(long, value_name = "CIDR,..", value_delimiter = ',')]
    pub(crate) load_balancer_cidrs: Vec<IpNet>,
    /// Write once and exit: 1 when anything is wrong with the manifests
    #[arg(long)]
    pub(crate) once: bool,
}
