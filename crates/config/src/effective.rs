//! The configuration as the program uses it.

mod check;
mod network;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use sluice_model::IpFamily;
use sluice_plan::NodePlan;
use sluice_plan::settings::{Costs, LocalDetector, NodePortAddresses, Settings};
use sluice_plan::state::ClusterState;

use crate::problem::Problem;
use crate::types::KubeProxyConfiguration;
use check::Problems;

/// The configuration as the program uses it; holding one is proof that it is valid.
#[derive(Clone, Debug, PartialEq)]
pub struct Effective {
    /// Name of the Node, trimmed and in lower case; `None` for the host's name.
    pub hostname_override: Option<String>,
    /// The data plane.
    pub mode: Mode,
    /// No mode was chosen. kube-proxy would run iptables, so the values are those of its section, and
    /// NodePorts answer on every address by default.
    pub mode_is_default: bool,
    /// Masquerade all traffic to ClusterIPs.
    pub masquerade_all: bool,
    /// The packet mark, one bit, for packets to masquerade.
    pub masquerade_mark: u32,
    /// How the node recognises traffic of its own pods.
    pub local_detector: LocalDetector,
    /// Addresses of the node that answer on NodePorts.
    pub node_ports: NodePortAddresses,
    /// The node's primary address of its family, if the configuration names one.
    pub node_ip: Option<IpAddr>,
    /// Periods of the mode's section.
    pub periods: Periods,
    /// Limits to give the kernel.
    pub conntrack: ConntrackLimits,
    /// `oom_score_adj` of the process, -1000 to 1000.
    pub oom_score_adj: i32,
    /// `None`: no health server.
    pub health_address: Option<SocketAddr>,
    /// `None`: no metrics server.
    pub metrics_address: Option<SocketAddr>,
    /// Whether a server that cannot bind its address ends the process.
    pub bind_address_hard_fail: bool,
    /// Whether the metrics server offers profiles.
    pub profiling: bool,
    /// How to reach the API server.
    pub client: ApiClient,
    /// Interval at which kube-proxy lists all objects again.
    pub config_sync_period: Duration,
    /// Whether NodePorts may answer on the loopback address, in the iptables mode.
    pub localhost_node_ports: bool,
    /// For the ipvs mode.
    pub ipvs: IpvsSettings,
    /// Verbosity of the log, from 0.
    pub verbosity: u32,
    pub log_format: LogFormat,
}

/// A data plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Rules and maps of nf_tables.
    Nftables,
    /// Rules of iptables.
    Iptables,
    /// Virtual servers of the kernel's load balancer, IPVS.
    Ipvs,
    /// eBPF programs at interfaces.
    Ebpf,
}

impl Mode {
    /// Every mode.
    pub const ALL: [Self; 4] = [Self::Nftables, Self::Iptables, Self::Ipvs, Self::Ebpf];

    /// The name in a configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nftables => "nftables",
            Self::Iptables => "iptables",
            Self::Ipvs => "ipvs",
            Self::Ebpf => "ebpf",
        }
    }

    /// What its data plane writes beyond an object for each frontend and endpoint. nftables writes a
    /// list of source ranges once for all frontends; iptables a rule, IPVS a set's entry, for each
    /// range of each frontend. Session affinity is a flag in IPVS. In iptables it is a list for each
    /// endpoint, and the kernel walks through all lists of the node for each rule that names one
    /// (`recent_table_lookup` in `xt_recent.c`): at 10,000 of them a thousand more take 1.5 s.
    fn costs(self) -> Costs {
        let (source_range, affinity) = match self {
            Self::Nftables | Self::Ebpf => (0, 9),
            Self::Iptables => (1, 20),
            Self::Ipvs => (1, 0),
        };
        Costs {
            source_range,
            affinity,
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How often the node syncs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Periods {
    /// Interval between two full repairs, and before the retry of a failed sync. The node is
    /// unhealthy after twice this time without a sync.
    pub sync: Duration,
    /// Shortest time between the end of one sync and the start of the next; 0 leaves it to the mode.
    pub min_sync: Duration,
}

/// Settings of the kernel's connection tracking; 0 keeps the kernel's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConntrackLimits {
    /// Most entries per core; 0 keeps the kernel's limit and ignores `min`.
    pub max_per_core: u32,
    /// Lower bound of the limit, in entries.
    pub min: u32,
    /// Timeout of established TCP connections.
    pub tcp_established: Duration,
    /// Timeout of TCP connections in CLOSE_WAIT.
    pub tcp_close_wait: Duration,
    /// Accepts packets outside the TCP window as valid; false keeps the kernel's value.
    pub tcp_be_liberal: bool,
    /// Timeout of UDP flows without an answer.
    pub udp: Duration,
    /// Timeout of UDP flows with answers.
    pub udp_stream: Duration,
}

/// How to reach the API server.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiClient {
    /// `None`: the pod's service account, unless the address is given otherwise.
    pub kubeconfig: Option<PathBuf>,
    /// Requests per second.
    pub qps: f32,
    /// Requests that may go out at once before `qps` limits them.
    pub burst: u32,
}

/// For the ipvs mode; a timeout of 0 keeps the kernel's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpvsSettings {
    /// The scheduler; empty for round robin.
    pub scheduler: String,
    /// Prefixes of virtual servers that are not ours.
    pub exclude_cidrs: Vec<IpNet>,
    /// Sets `arp_ignore` and `arp_announce`.
    pub strict_arp: bool,
    /// Timeout of idle TCP connections.
    pub tcp_timeout: Duration,
    /// Timeout of TCP connections after a FIN.
    pub tcp_fin_timeout: Duration,
    /// Timeout of UDP flows.
    pub udp_timeout: Duration,
}

/// Format of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

impl Effective {
    /// The settings of the plan, for a host of this name.
    pub fn settings(&self, host_name: &str) -> Settings {
        let host_name = node_name(host_name);
        let name = self.hostname_override.as_ref().unwrap_or(&host_name);
        Settings {
            masquerade_all: self.masquerade_all,
            masquerade_mark: self.masquerade_mark,
            local_detector: self.local_detector.clone(),
            node_ports: self.node_ports.clone(),
            node_ip: self.node_ip,
            localhost_node_ports: self.localhost_node_ports && self.mode == Mode::Iptables,
            own_ports: [self.health_address, self.metrics_address]
                .into_iter()
                .flatten()
                .map(|it| it.port())
                .collect(),
            costs: self.mode.costs(),
            ..Settings::for_node(&**name)
        }
    }

    /// Whether NodePorts answer on the loopback address. No object changes that.
    pub fn node_ports_on_loopback(&self) -> bool {
        let node = NodePlan::new(&self.settings(""), &ClusterState::default());
        node.family(IpFamily::V4).node_ports_on_loopback
    }
}

/// How kube-proxy writes the name of a host.
fn node_name(text: &str) -> String {
    text.trim().to_lowercase()
}

impl KubeProxyConfiguration {
    /// Checks the configuration, which must have its defaults.
    ///
    /// # Errors
    ///
    /// Every problem that `pkg/proxy/apis/config/validation` of kube-proxy refuses, except unknown
    /// feature gates.
    pub fn effective(&self) -> Result<Effective, Vec<Problem>> {
        let mut problems = Problems::default();
        let effective = self.check(&mut problems);
        if problems.0.is_empty() {
            Ok(effective)
        } else {
            Err(problems.0)
        }
    }

    fn check(&self, problems: &mut Problems) -> Effective {
        let chosen = problems.mode(&self.mode);
        let mode = chosen.unwrap_or(Mode::Nftables);
        let (iptables, ipvs, nftables) = (&self.iptables, &self.ipvs, &self.nftables);
        let iptables_mark = problems.bit("iptables.masqueradeBit", iptables.masquerade_bit);
        let nftables_mark = problems.bit("nftables.masqueradeBit", nftables.masquerade_bit);
        // The ipvs mode masquerades as the iptables section says, as in kube-proxy. Without a mode
        // kube-proxy runs iptables, so its users wrote that section.
        let (section, sync, min_sync) = match chosen {
            Some(Mode::Nftables | Mode::Ebpf) => {
                ("nftables", nftables.sync_period, nftables.min_sync_period)
            }
            Some(Mode::Ipvs) => ("ipvs", ipvs.sync_period, ipvs.min_sync_period),
            Some(Mode::Iptables) | None => {
                ("iptables", iptables.sync_period, iptables.min_sync_period)
            }
        };
        let (masquerade_all, masquerade_mark) = match section {
            "nftables" => (nftables.masquerade_all, nftables_mark),
            _ => (iptables.masquerade_all, iptables_mark),
        };
        let hostname_override = problems.hostname(&self.hostname_override);
        problems.metrics_version(&self.show_hidden_metrics_for_version);
        let log_format = problems.logging(&self.logging);
        Effective {
            hostname_override,
            mode,
            mode_is_default: chosen.is_none(),
            masquerade_all,
            masquerade_mark,
            log_format,
            local_detector: self.local_detector(problems),
            node_ports: self.node_ports(chosen, problems),
            node_ip: self.node_ip(problems),
            periods: problems.periods(section, sync, min_sync),
            conntrack: problems.conntrack(&self.conntrack),
            oom_score_adj: problems.oom_score_adj(self.oom_score_adj),
            health_address: problems.server("healthzBindAddress", &self.healthz_bind_address),
            metrics_address: problems.server("metricsBindAddress", &self.metrics_bind_address),
            bind_address_hard_fail: self.bind_address_hard_fail,
            profiling: self.enable_profiling,
            client: problems.client(&self.client_connection),
            config_sync_period: problems.positive("configSyncPeriod", self.config_sync_period),
            localhost_node_ports: iptables.localhost_node_ports.unwrap_or(true),
            ipvs: match mode {
                Mode::Ipvs => problems.ipvs(ipvs),
                // kube-proxy does not check the section of another mode.
                _ => Problems::default().ipvs(ipvs),
            },
            verbosity: self.logging.verbosity,
        }
    }
}

#[cfg(test)]
mod tests;
