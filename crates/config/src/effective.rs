//! What the configuration means.

mod check;
mod network;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use sluice_model::IpFamily;
use sluice_plan::NodePlan;
use sluice_plan::settings::{LocalDetector, NodePortAddresses, Settings};
use sluice_plan::state::ClusterState;
use sluice_yaml::quoted;

use crate::duration::GoDuration;
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
    /// No mode was chosen. kube-proxy would take iptables, so the values are those of its section
    /// and NodePorts answer on every address unless something else is said.
    pub mode_is_default: bool,
    /// Masquerade all traffic to ClusterIPs.
    pub masquerade_all: bool,
    /// The one mark bit that says "masquerade this packet".
    pub masquerade_mark: u32,
    /// How traffic of this node's pods is recognised.
    pub local_detector: LocalDetector,
    /// Addresses of the node that answer on NodePorts.
    pub node_ports: NodePortAddresses,
    /// The node's primary address of its family, if the configuration names one.
    pub node_ip: Option<IpAddr>,
    /// Of the section of the mode.
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
    /// How often the API server is asked for everything again.
    pub config_sync_period: Duration,
    /// Whether NodePorts may answer on the loopback address, in the iptables mode.
    pub localhost_node_ports: bool,
    /// For the ipvs mode.
    pub ipvs: IpvsSettings,
    /// How much to log, from 0.
    pub verbosity: u32,
    /// How to log.
    pub log_format: LogFormat,
}

/// A data plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Verdict maps of nf_tables.
    Nftables,
    /// Rules of iptables.
    Iptables,
    /// Virtual servers of the kernel's load balancer.
    Ipvs,
    /// Programs in the kernel.
    Ebpf,
}

/// A mode that Sluice knows and does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("mode {0} is not built yet: use nftables, iptables or ipvs")]
pub struct NotBuilt(pub Mode);

impl Mode {
    /// Every mode.
    pub const ALL: [Self; 4] = [Self::Nftables, Self::Iptables, Self::Ipvs, Self::Ebpf];

    /// Whether this program has the data plane.
    ///
    /// # Errors
    ///
    /// [`NotBuilt`] for ebpf.
    pub fn check_built(self) -> Result<(), NotBuilt> {
        match self {
            Self::Nftables | Self::Iptables | Self::Ipvs => Ok(()),
            Self::Ebpf => Err(NotBuilt(self)),
        }
    }

    /// As in a configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nftables => "nftables",
            Self::Iptables => "iptables",
            Self::Ipvs => "ipvs",
            Self::Ebpf => "ebpf",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How often the node is brought in line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Periods {
    /// Between two repairs; failures are tried again after it, health looks at twice of it.
    pub sync: Duration,
    /// Between the end of one sync and the start of the next, at least.
    pub min_sync: Duration,
}

/// What to set of the kernel's connection tracking; zero leaves the kernel's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConntrackLimits {
    /// Entries per core; 0 leaves the limit and ignores `min`.
    pub max_per_core: u32,
    /// Entries at least.
    pub min: u32,
    /// Of established TCP connections.
    pub tcp_established: Duration,
    /// Of TCP connections in CLOSE_WAIT.
    pub tcp_close_wait: Duration,
    /// Takes packets outside the TCP window for valid; false leaves the kernel's choice.
    pub tcp_be_liberal: bool,
    /// Of UDP flows without an answer.
    pub udp: Duration,
    /// Of UDP flows with answers.
    pub udp_stream: Duration,
}

/// How to reach the API server.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiClient {
    /// `None`: the pod's service account, unless the address is given otherwise.
    pub kubeconfig: Option<PathBuf>,
    /// Requests per second.
    pub qps: f32,
    /// Requests at once before `qps` counts.
    pub burst: u32,
}

/// For the ipvs mode; zero timeouts leave the kernel's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpvsSettings {
    /// How endpoints are chosen; empty for round robin.
    pub scheduler: String,
    /// Virtual servers in these prefixes are left alone.
    pub exclude_cidrs: Vec<IpNet>,
    /// Sets `arp_ignore` and `arp_announce`.
    pub strict_arp: bool,
    /// Of idle TCP connections.
    pub tcp_timeout: Duration,
    /// Of TCP connections after a FIN.
    pub tcp_fin_timeout: Duration,
    /// Of UDP.
    pub udp_timeout: Duration,
}

/// How to log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Lines for people.
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
            ..Settings::for_node(&**name)
        }
    }

    /// Whether NodePorts answer on the loopback address: no object has a say in that.
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
    /// What this means. The configuration must have its defaults.
    ///
    /// # Errors
    ///
    /// Everything that `pkg/proxy/apis/config/validation` of kube-proxy refuses, at once. Unlike
    /// there an unknown feature gate is no error.
    pub fn effective(&self) -> Result<Effective, Vec<Problem>> {
        let mut problems = Problems::default();
        let effective = self.check(&mut problems);
        match problems.0.is_empty() {
            true => Ok(effective),
            false => Err(problems.0),
        }
    }

    fn check(&self, problems: &mut Problems) -> Effective {
        let chosen = problems.mode(&self.mode);
        let mode = chosen.unwrap_or(Mode::Nftables);
        let section = Section::of(self, chosen);
        let marks = [
            ("iptables.masqueradeBit", self.iptables.masquerade_bit),
            ("nftables.masqueradeBit", self.nftables.masquerade_bit),
        ]
        .map(|(field, bit)| problems.bit(field, bit));
        let name = node_name(&self.hostname_override);
        let override_given = !self.hostname_override.is_empty();
        if override_given && name.is_empty() {
            let value = quoted(&self.hostname_override);
            problems.push("hostnameOverride", value, "the node needs a name");
        }
        let client = &self.client_connection;
        problems.metrics_version(&self.show_hidden_metrics_for_version);
        problems.logging(&self.logging);
        let log_format = problems.log_format(&self.logging.format);
        Effective {
            hostname_override: override_given.then_some(name),
            mode,
            mode_is_default: chosen.is_none(),
            masquerade_all: section.masquerade_all,
            masquerade_mark: marks[usize::from(section.is_nftables)],
            local_detector: self.local_detector(problems),
            node_ports: self.node_ports(chosen, problems),
            node_ip: self.node_ip(problems),
            periods: section.periods(problems),
            conntrack: self.conntrack_limits(problems),
            oom_score_adj: problems.oom_score_adj(self.oom_score_adj),
            health_address: problems.server("healthzBindAddress", &self.healthz_bind_address),
            metrics_address: problems.server("metricsBindAddress", &self.metrics_bind_address),
            bind_address_hard_fail: self.bind_address_hard_fail,
            profiling: self.enable_profiling,
            client: ApiClient {
                kubeconfig: (!client.kubeconfig.is_empty()).then(|| (&client.kubeconfig).into()),
                qps: client.qps,
                burst: problems.not_negative("clientConnection.burst", client.burst),
            },
            config_sync_period: problems.positive("configSyncPeriod", self.config_sync_period),
            localhost_node_ports: self.iptables.localhost_node_ports.unwrap_or(true),
            ipvs: self.ipvs_settings(mode, problems),
            verbosity: self.logging.verbosity,
            log_format,
        }
    }

    fn conntrack_limits(&self, problems: &mut Problems) -> ConntrackLimits {
        let it = &self.conntrack;
        let max_per_core = it.max_per_core.unwrap_or_default();
        let (established, close_wait) = (it.tcp_established_timeout, it.tcp_close_wait_timeout);
        let mut timeout = |field, value: GoDuration| {
            problems.not_before_zero(&format!("conntrack.{field}"), value)
        };
        let tcp_established = timeout("tcpEstablishedTimeout", established.unwrap_or_default());
        let tcp_close_wait = timeout("tcpCloseWaitTimeout", close_wait.unwrap_or_default());
        let udp = timeout("udpTimeout", it.udp_timeout);
        let udp_stream = timeout("udpStreamTimeout", it.udp_stream_timeout);
        ConntrackLimits {
            max_per_core: problems.not_negative("conntrack.maxPerCore", max_per_core),
            min: problems.not_negative("conntrack.min", it.min.unwrap_or_default()),
            tcp_established,
            tcp_close_wait,
            tcp_be_liberal: it.tcp_be_liberal,
            udp,
            udp_stream,
        }
    }

    /// Wrong values are no problem while another mode runs.
    fn ipvs_settings(&self, mode: Mode, problems: &mut Problems) -> IpvsSettings {
        let mut ignored = Problems::default();
        let problems = match mode {
            Mode::Ipvs => problems,
            _ => &mut ignored,
        };
        let it = &self.ipvs;
        IpvsSettings {
            scheduler: it.scheduler.clone(),
            exclude_cidrs: problems.exclude_cidrs(it.exclude_cidrs.as_deref().unwrap_or_default()),
            strict_arp: it.strict_arp,
            tcp_timeout: problems.not_before_zero("ipvs.tcpTimeout", it.tcp_timeout),
            tcp_fin_timeout: problems.not_before_zero("ipvs.tcpFinTimeout", it.tcp_fin_timeout),
            udp_timeout: problems.not_before_zero("ipvs.udpTimeout", it.udp_timeout),
        }
    }
}

/// What the sections have in common, of the section of the mode.
struct Section {
    name: &'static str,
    is_nftables: bool,
    masquerade_all: bool,
    sync: GoDuration,
    min_sync: GoDuration,
}

impl Section {
    /// The ipvs mode masquerades as the iptables section says. Without a mode kube-proxy takes
    /// iptables, so that is what the values were written for.
    fn of(config: &KubeProxyConfiguration, mode: Option<Mode>) -> Self {
        let KubeProxyConfiguration {
            iptables,
            nftables,
            ipvs,
            ..
        } = config;
        let (name, sync, min_sync) = match mode {
            Some(Mode::Nftables | Mode::Ebpf) => {
                ("nftables", nftables.sync_period, nftables.min_sync_period)
            }
            Some(Mode::Ipvs) => ("ipvs", ipvs.sync_period, ipvs.min_sync_period),
            Some(Mode::Iptables) | None => {
                ("iptables", iptables.sync_period, iptables.min_sync_period)
            }
        };
        let is_nftables = name == "nftables";
        let masquerade_all = match is_nftables {
            true => nftables.masquerade_all,
            false => iptables.masquerade_all,
        };
        Self {
            name,
            is_nftables,
            masquerade_all,
            sync,
            min_sync,
        }
    }

    fn periods(&self, problems: &mut Problems) -> Periods {
        let sync_field = format!("{}.syncPeriod", self.name);
        let min_field = format!("{}.minSyncPeriod", self.name);
        if self.min_sync > self.sync {
            let limit = format!("must not be longer than {sync_field}, {}", self.sync);
            problems.push(&min_field, self.min_sync, limit);
        }
        Periods {
            sync: problems.positive(&sync_field, self.sync),
            min_sync: problems.not_before_zero(&min_field, self.min_sync),
        }
    }
}

#[cfg(test)]
mod tests;
