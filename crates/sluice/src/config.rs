//! What the flags mean. Every problem is reported at once, by the name of its flag.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use sluice_agent::Periods;
use sluice_core::model::IpFamily;
use sluice_core::settings::{LocalDetector, NodePortAddresses, Settings};

use crate::cli::{NodeArgs, ProxyArgs};
use crate::error::Usage;
use crate::go;

/// Port of the health server when only an address is given.
const HEALTH_PORT: u16 = 10256;

/// Data planes by their `--proxy-mode`; only the first is built.
const MODES: [&str; 4] = ["nftables", "iptables", "ipvs", "ebpf"];

/// What a node's rules are made of; holding one is proof that it is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeConfig {
    pub(crate) manifests: PathBuf,
    pub(crate) settings: Settings,
}

/// What the agent runs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProxyConfig {
    pub(crate) node: NodeConfig,
    /// `None`: no health server.
    pub(crate) health_address: Option<SocketAddr>,
    pub(crate) periods: Periods,
    pub(crate) socket: PathBuf,
}

/// Collects problems; a check goes on after each.
#[derive(Debug, Default)]
struct Problems(Vec<String>);

/// `IFNAMSIZ` without the NUL.
const INTERFACE_NAME: usize = 15;

impl Problems {
    fn push(&mut self, flag: &str, problem: impl std::fmt::Display) {
        self.0.push(format!("--{flag}: {problem}"));
    }

    /// The value, or a default in its place that will not be used.
    fn take<T: Default>(&mut self, flag: &str, result: Result<T, String>) -> T {
        result.unwrap_or_else(|problem| {
            self.push(flag, problem);
            T::default()
        })
    }
}

impl NodeArgs {
    /// Checks every flag. `host_name` is the operating system's.
    pub(crate) fn validate(&self, host_name: &str) -> anyhow::Result<NodeConfig> {
        let mut problems = Problems::default();
        let config = self.check(host_name, &mut problems);
        finish(problems, &self.proxy_mode)?;
        Ok(config)
    }

    fn check(&self, host_name: &str, problems: &mut Problems) -> NodeConfig {
        if !MODES.contains(&&*self.proxy_mode) {
            let mode = &self.proxy_mode;
            problems.push(
                "proxy-mode",
                format!("{mode:?} is not one of {}", MODES.join(", ")),
            );
        }
        if self.manifests.is_none() {
            let text = "an API server source is not built yet; use --manifests DIR";
            problems.push("manifests", text);
        }
        let name = self.hostname_override.as_deref().unwrap_or(host_name);
        let name = name.trim().to_lowercase();
        if name.is_empty() {
            problems.push("hostname-override", "the node needs a name");
        }
        let bit = parse_bit(&self.iptables_masquerade_bit);
        let masquerade_all = go::parse_bool(&self.masquerade_all);
        let settings = Settings {
            masquerade_all: problems.take("masquerade-all", masquerade_all),
            masquerade_mark: 1 << problems.take("iptables-masquerade-bit", bit),
            local_detector: self.local_detector(problems),
            node_ports: self.node_ports(problems),
            ..Settings::for_node(name)
        };
        NodeConfig {
            manifests: self.manifests.clone().unwrap_or_default(),
            settings,
        }
    }

    fn local_detector(&self, problems: &mut Problems) -> LocalDetector {
        let cidrs = cluster_cidrs(&self.cluster_cidr);
        let cidrs = problems.take("cluster-cidr", cidrs);
        let mut name = |flag, value: &Option<String>| -> Arc<str> {
            let value = value.as_deref().unwrap_or_default().trim();
            if value.is_empty() {
                let mode = &self.detect_local_mode;
                problems.push(flag, format!("--detect-local-mode {mode} needs it"));
            }
            if value.len() > INTERFACE_NAME {
                let limit = format!("interface names have at most {INTERFACE_NAME} bytes");
                problems.push(flag, format!("{value:?}: {limit}"));
            }
            value.into()
        };
        match &*self.detect_local_mode {
            "ClusterCIDR" if cidrs.is_empty() => LocalDetector::None,
            "ClusterCIDR" => LocalDetector::ClusterCidrs(cidrs),
            "NodeCIDR" => LocalDetector::NodeCidr,
            "BridgeInterface" => {
                LocalDetector::Bridge(name("pod-bridge-interface", &self.pod_bridge_interface))
            }
            "InterfaceNamePrefix" => {
                let flag = "pod-interface-name-prefix";
                LocalDetector::InterfacePrefix(name(flag, &self.pod_interface_name_prefix))
            }
            other => {
                let modes = "ClusterCIDR, NodeCIDR, BridgeInterface, InterfaceNamePrefix";
                problems.push(
                    "detect-local-mode",
                    format!("{other:?} is not one of {modes}"),
                );
                LocalDetector::None
            }
        }
    }

    fn node_ports(&self, problems: &mut Problems) -> NodePortAddresses {
        let all = words(&self.nodeport_addresses);
        if all.is_empty() || all == ["primary"] {
            return NodePortAddresses::Primary;
        }
        let mut prefixes = Vec::new();
        for word in all {
            match (word, word.parse::<IpNet>()) {
                ("primary", _) => {
                    problems.push("nodeport-addresses", "`primary` stands alone");
                }
                (_, Ok(prefix)) => prefixes.push(prefix),
                (_, Err(_)) => problems.push(
                    "nodeport-addresses",
                    format!("{word:?} is neither `primary` nor a prefix such as 192.168.0.0/16"),
                ),
            }
        }
        NodePortAddresses::Within(prefixes)
    }
}

impl ProxyArgs {
    /// Checks every flag. `host_name` is the operating system's.
    pub(crate) fn validate(&self, host_name: &str) -> anyhow::Result<ProxyConfig> {
        let mut problems = Problems::default();
        let node = self.node.check(host_name, &mut problems);
        let health = health_address(&self.healthz_bind_address);
        let min_sync = go::parse_duration(&self.min_sync_period);
        let resync = go::parse_duration(&self.resync_period).and_then(positive);
        let config = ProxyConfig {
            node,
            health_address: problems.take("healthz-bind-address", health),
            periods: Periods {
                min_sync: problems.take("min-sync-period", min_sync),
                resync: problems.take("resync-period", resync),
            },
            socket: self.socket.clone(),
        };
        let Periods { min_sync, resync } = config.periods;
        if min_sync > resync && !resync.is_zero() {
            problems.push("min-sync-period", "is longer than --resync-period");
        }
        finish(problems, &self.node.proxy_mode)?;
        Ok(config)
    }
}

/// Wrong flags first: a mode that is not built is no wrong usage.
fn finish(problems: Problems, mode: &str) -> anyhow::Result<()> {
    if !problems.0.is_empty() {
        return Err(Usage(problems.0).into());
    }
    if mode != MODES[0] {
        anyhow::bail!("--proxy-mode {mode} is not built yet: use nftables");
    }
    Ok(())
}

/// The parts of a list flag; an empty flag is an empty list.
fn words(list: &[String]) -> Vec<&str> {
    let words = list.iter().map(|it| it.trim());
    words.filter(|it| !it.is_empty()).collect()
}

fn cluster_cidrs(list: &[String]) -> Result<Vec<IpNet>, String> {
    let parse = |word: &str| {
        let wrong = || format!("{word:?} is no prefix such as 10.244.0.0/16");
        word.parse::<IpNet>().map_err(|_| wrong())
    };
    let all: Vec<IpNet> = words(list)
        .into_iter()
        .map(parse)
        .collect::<Result<_, _>>()?;
    match &all[..] {
        [] | [_] => Ok(all),
        [a, b] if IpFamily::of_net(a) != IpFamily::of_net(b) => Ok(all),
        [_, _] => Err("two prefixes must be one of each family".to_owned()),
        _ => Err(format!(
            "{} prefixes, at most one of each family",
            all.len()
        )),
    }
}

fn parse_bit(text: &str) -> Result<u32, String> {
    let bit = text.trim().parse().ok().filter(|it| *it <= 31);
    bit.ok_or_else(|| format!("{text:?} is not in 0 to 31"))
}

fn positive(duration: Duration) -> Result<Duration, String> {
    match duration.is_zero() {
        true => Err("must be longer than 0".to_owned()),
        false => Ok(duration),
    }
}

fn health_address(text: &str) -> Result<Option<SocketAddr>, String> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let bare = text.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    let ip = bare.unwrap_or(text).parse::<IpAddr>();
    let with_port = ip.map(|it| SocketAddr::new(it, HEALTH_PORT));
    match with_port.or_else(|_| text.parse()) {
        Ok(address) if address.port() != 0 => Ok(Some(address)),
        Ok(_) => Err("port 0 is none; leave the flag empty for no health server".to_owned()),
        Err(_) => Err(format!(
            "{text:?} is no address and port such as 0.0.0.0:10256"
        )),
    }
}

/// The operating system's name for this machine.
pub(crate) fn host_name() -> String {
    let name = nix::unistd::gethostname().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests;
