//! The valid configuration of flags and file. All problems are reported at once, by the name of the
//! flag or by file, line and field.

mod ebpf;
mod node_dns;
mod reading;
mod web;

use std::fmt;
use std::io;
use std::ops::RangeInclusive;
use std::path::{self, PathBuf};
use std::time::Duration;

use sluice_agent::Periods;
use sluice_config::{Effective, GoDuration, KubeProxyConfiguration, Mode};
use sluice_plan::settings::{DirectReturn, Settings};
use sluice_plane::{EbpfOptions, Options};

use crate::cli::{NodeArgs, ProxyArgs};
use crate::flags;
pub(crate) use node_dns::Answers;
use reading::{Problems, Read};
pub(crate) use web::WebConfig;

/// Between two comparisons with the kernel in modes in which the kernel reports foreign changes.
const RESYNC: Duration = Duration::from_hours(1);

/// The same in the ipvs mode without `ipvs.syncPeriod`: the kernel reports no changes of virtual
/// servers and ipsets.
const RESYNC_IPVS: Duration = Duration::from_mins(5);

/// The API server's default range of NodePorts.
const NODE_PORTS: RangeInclusive<u16> = 30_000..=32_767;

/// The source of Services and endpoints.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Source {
    /// A folder of manifests.
    Folder(PathBuf),
    ApiServer {
        /// `None`: the pod's service account, unless `master` is given.
        kubeconfig: Option<PathBuf>,
        /// Address of the server, instead of the kubeconfig's.
        master: Option<String>,
        /// Requests per second.
        qps: f32,
        /// Requests in a burst, beyond `qps`.
        burst: u32,
    },
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kubeconfig, master, qps, burst) = match self {
            Self::Folder(path) => return write!(f, "{}", path.display()),
            Self::ApiServer {
                kubeconfig,
                master,
                qps,
                burst,
            } => (kubeconfig, master, qps, burst),
        };
        match (master, kubeconfig) {
            (Some(master), _) => write!(f, "API server {master}")?,
            (None, Some(path)) => write!(f, "API server of {}", path.display())?,
            (None, None) => write!(f, "API server of this cluster")?,
        }
        write!(f, ", {qps} requests per second, {burst} at once")
    }
}

/// The valid configuration of a node's rules.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NodeConfig {
    pub(crate) source: Source,
    pub(crate) settings: Settings,
    /// The configuration as read, with defaults.
    pub(crate) file: KubeProxyConfiguration,
    /// The meaning of `file`.
    pub(crate) effective: Effective,
    /// The flags of the ebpf mode.
    pub(crate) ebpf: EbpfOptions,
    /// The answers of the agent's DNS server; `None` without one.
    pub(crate) dns: Option<Answers>,
    /// Between two comparisons with the kernel, without `--resync-period`.
    pub(crate) resync: Duration,
    /// Flags and fields without effect, one line each.
    pub(crate) warnings: Vec<String>,
}

/// The valid configuration of an agent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ProxyConfig {
    pub(crate) node: NodeConfig,
    pub(crate) periods: Periods,
    /// Made absolute: the folder of a bare file name has a name then, by which the sandbox allows it.
    pub(crate) socket: PathBuf,
    /// The web page; `None` for none.
    pub(crate) web: Option<WebConfig>,
}

impl NodeConfig {
    /// The options of a data plane.
    pub(crate) fn options(&self, counts_connections: bool) -> Options<'_> {
        Options {
            config: &self.effective,
            settings: &self.settings,
            counts_connections,
            ebpf: &self.ebpf,
        }
    }
}

impl NodeArgs {
    /// Checks every flag and the file. `host_name` is the operating system's.
    ///
    /// # Errors
    ///
    /// [`Invalid`](sluice_config::Invalid), or the file cannot be read, or the mode is not built.
    pub(crate) fn validate(&self, host_name: &str) -> anyhow::Result<NodeConfig> {
        let mut problems = Problems::default();
        let config = self.check(host_name, self.file(), &mut problems)?;
        problems.into_result(config)
    }

    /// The configuration with defaults for `--write-config-to`, and the warnings about it. Its mode
    /// may be one that is not built. `ipvs.syncPeriod` is 0 if it is not set: written out, its default
    /// would override ours.
    pub(crate) fn configuration(&self) -> anyhow::Result<(KubeProxyConfiguration, Vec<String>)> {
        let mut problems = Problems::default();
        let mut read = self.read(self.file(), &mut problems)?;
        let mode = self.effective(&read, &mut problems).map(|it| it.mode);
        let idle = mode.map_or_else(Vec::new, |it| self.idle(it));
        if !read.has_ipvs_sync_period {
            read.config.ipvs.sync_period = GoDuration::default();
        }
        problems.into_result(Some((read.config, [read.warnings, idle].concat())))
    }

    fn check(
        &self,
        host_name: &str,
        file: Option<io::Result<Vec<u8>>>,
        problems: &mut Problems,
    ) -> anyhow::Result<Option<NodeConfig>> {
        let read = self.read(file, problems)?;
        let effective = self.effective(&read, problems);
        let external_ips =
            problems.prefixes("--external-ip-allow", self.external_ip_allow.as_deref());
        let node_port_range = self.node_port_range(problems);
        let ebpf = self.ebpf.check(problems);
        let not_direct = self.ebpf.not_direct(problems);
        if self.manifests.is_some() {
            let kubeconfig = self.flags.has("kubeconfig").then_some("--kubeconfig");
            let master = self.master.as_ref().map(|_| "--master");
            for flag in [kubeconfig, master].into_iter().flatten() {
                problems.usage(format!(
                    "{flag}: not together with --manifests: give one of them"
                ));
            }
        }
        let Some(effective) = effective else {
            return Ok(None);
        };
        let dns = self.dns.answers(problems);
        let settings = Settings {
            dns: self.dns.check(problems),
            external_ips,
            refuse_shadowing: self.refuse_shadowing_vips == Some(true),
            node_port_range,
            direct_return: match effective.mode {
                Mode::Ebpf => self.ebpf.direct_return(),
                _ => DirectReturn::Off,
            },
            not_direct: match effective.mode {
                Mode::Ebpf => not_direct,
                _ => Vec::new(),
            },
            stale_tcp: effective.mode == Mode::Ebpf
                && ebpf.sockets.and(ebpf.ended_sockets).has_tcp(),
            ..effective.settings(host_name)
        };
        if settings.node_name.is_empty() {
            problems.usage("--hostname-override: the node needs a name".to_owned());
        }
        let client = &effective.client;
        let source = match &self.manifests {
            Some(folder) => Source::Folder(folder.clone()),
            None => Source::ApiServer {
                kubeconfig: client.kubeconfig.clone(),
                master: self.master.clone().filter(|it| !it.is_empty()),
                qps: client.qps,
                burst: client.burst,
            },
        };
        Ok(Some(NodeConfig {
            source,
            settings,
            file: read.config,
            resync: match effective.mode {
                Mode::Ipvs if read.has_ipvs_sync_period => effective.periods.sync,
                Mode::Ipvs => RESYNC_IPVS,
                _ => RESYNC,
            },
            warnings: [read.warnings, self.idle(effective.mode)].concat(),
            effective,
            ebpf,
            dns,
        }))
    }

    fn effective(&self, read: &Read, problems: &mut Problems) -> Option<Effective> {
        let wrong = match read.config.effective() {
            Ok(effective) => return Some(effective),
            Err(wrong) => wrong,
        };
        for mut problem in wrong {
            match &self.config {
                Some(file) if !self.flags.overrides(&problem.field) => {
                    problem.line = read.lines.of(&problem.field);
                    problems.of_file(file, &problem);
                }
                _ => problems.usage(flags::in_flags(&problem)),
            }
        }
        None
    }

    /// The ports that may be NodePorts; `None` with an API server, which checks them itself.
    fn node_port_range(&self, problems: &mut Problems) -> Option<RangeInclusive<u16>> {
        let Some(text) = &self.service_node_port_range else {
            return self.manifests.as_ref().map(|_| NODE_PORTS);
        };
        if self.manifests.is_none() {
            let problem =
                "--service-node-port-range: only with --manifests: an API server has its own";
            problems.usage(problem.to_owned());
        }
        let range = flags::port_range(text);
        problems.keep(range.map_err(|why| format!("--service-node-port-range: {why}")))
    }

    /// The warnings about flags in a mode in which they have no effect.
    fn idle(&self, mode: Mode) -> Vec<String> {
        [self.idle_counting(mode), self.ebpf.idle(mode)].concat()
    }

    fn idle_counting(&self, mode: Mode) -> Vec<String> {
        let why = match mode {
            Mode::Ipvs => "the ipvs mode always counts connections",
            Mode::Iptables => "the iptables mode counts packets, by rule",
            Mode::Ebpf => "the ebpf mode counts connections of the node, not of endpoints",
            Mode::Nftables => return Vec::new(),
        };
        let warning = || format!("--count-connections does nothing: {why}");
        self.count_connections.then(warning).into_iter().collect()
    }

    /// Whether a flag names a source of Services.
    pub(crate) fn names_source(&self) -> bool {
        let has_file = self.manifests.is_some() || self.config.is_some();
        has_file || self.master.is_some() || self.flags.has("kubeconfig")
    }

    /// Whether to set the machine's connection tracking: kube-proxy's defaults are for the nodes of a
    /// cluster.
    pub(crate) fn asks_for_conntrack(&self) -> bool {
        !self.is_standalone() || self.flags.has_for("conntrack.")
    }

    /// Whether to set the OOM score.
    pub(crate) fn asks_for_oom_score(&self) -> bool {
        !self.is_standalone() || self.flags.has("oom-score-adj")
    }

    /// Whether kube-proxy's defaults for a cluster do not apply: a folder without a configuration.
    fn is_standalone(&self) -> bool {
        self.manifests.is_some() && self.config.is_none()
    }
}

impl ProxyArgs {
    /// Checks every flag and the file. `host_name` is the operating system's.
    ///
    /// # Errors
    ///
    /// As of [`NodeArgs::validate`].
    pub(crate) fn validate(&self, host_name: &str) -> anyhow::Result<ProxyConfig> {
        self.validate_with(host_name, self.node.file())
    }

    /// As `validate`, with the content of `--config` already read; `None` without that flag.
    pub(crate) fn validate_with(
        &self,
        host_name: &str,
        file: Option<io::Result<Vec<u8>>>,
    ) -> anyhow::Result<ProxyConfig> {
        let mut problems = Problems::default();
        let node = self.node.check(host_name, file, &mut problems)?;
        let min_sync = self.min_sync_period.as_deref();
        let min_sync = min_sync.map(|it| problems.duration("--min-sync-period", it));
        let resync = match &self.resync_period {
            Some(given) => problems.duration("--resync-period", given),
            None => Some(node.as_ref().map_or(RESYNC, |it| it.resync)),
        };
        if resync == Some(Duration::ZERO) {
            problems.usage("--resync-period: must be longer than 0".to_owned());
        }
        let min_sync = match (min_sync, &node) {
            (Some(given), _) => given,
            (None, node) => node.as_ref().map(|it| it.effective.periods.min_sync),
        };
        let periods = Periods {
            min_sync: min_sync.unwrap_or_default(),
            resync: resync.unwrap_or_default(),
        };
        if periods.min_sync > periods.resync && !periods.resync.is_zero() {
            let pause = match self.min_sync_period {
                Some(_) => "--min-sync-period",
                None => "minSyncPeriod",
            };
            let mode = node.as_ref().map(|it| it.effective.mode);
            let look = match (&self.resync_period, mode) {
                (None, Some(Mode::Ipvs)) => "ipvs.syncPeriod",
                _ => "--resync-period",
            };
            problems.usage(format!("{pause}: is longer than {look}"));
        }
        let web = self.web(&mut problems);
        let config = node.map(|mut node| ProxyConfig {
            node: {
                let port = web.as_ref().map(|it| it.address.port());
                node.settings.own_ports.extend(port);
                node
            },
            periods,
            web,
            socket: path::absolute(&self.socket).unwrap_or_else(|_| self.socket.clone()),
        });
        problems.into_result(config)
    }
}

/// The operating system's name for this machine.
pub(crate) fn host_name() -> String {
    let name = nix::unistd::gethostname().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests;
