//! The command line: one definition for parser, help, completions and man page.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

/// Where the agent listens for questions.
pub(crate) const SOCKET: &str = "/run/sluice/sluice.sock";

/// A Kubernetes service proxy: every Service address of the cluster, served by the kernel.
#[derive(Debug, Parser)]
#[command(name = "sluice", version, max_term_width = 100)]
#[command(after_help = "Examples:
  sluice proxy --manifests /etc/sluice --cluster-cidr 10.244.0.0/16
  sluice explain node default/web:http --manifests /etc/sluice
  sluice status

Started under the name `kube-proxy`, it behaves as `sluice proxy`.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the node agent: keep this node's rules in line with Services and endpoints
    #[command(after_help = "Examples:
  sluice proxy --manifests /etc/sluice
  sluice proxy --manifests /etc/sluice --cluster-cidr 10.244.0.0/16 --nodeport-addresses primary

Rules stay in place when the agent stops; `sluice cleanup` removes them.")]
    Proxy(ProxyArgs),
    /// Print the rules of a node as text; needs no privileges and no kernel
    #[command(after_help = "Examples:
  sluice render --manifests examples --hostname-override node-a
  sluice render --manifests examples --hostname-override node-a | nft --check -f -")]
    Render(RenderArgs),
    /// Say what happens to a packet on this node, and why
    #[command(after_help = "Examples:
  sluice explain 10.244.0.5 10.96.0.10:53/udp --manifests examples
  sluice explain default/client-1 default/web:http --manifests examples
  sluice explain node '[fd00:10:96::a]:80' --manifests examples -o json")]
    Explain(ExplainArgs),
    /// Show what the running agent holds
    #[command(after_help = "Examples:
  sluice status
  sluice status --watch
  sluice status -o json | jq .issues")]
    Status(StatusArgs),
    /// Remove every trace of Sluice from the kernel
    #[command(after_help = "Examples:
  sluice cleanup
  sluice cleanup --kube-proxy

Stop the agent first, or it puts the rules back.")]
    Cleanup(CleanupArgs),
    /// Build a cluster of network namespaces on this machine
    #[command(after_help = "Example:
  sluice lab demo")]
    Lab(LabArgs),
    /// Measure syncs, changes, starts and connections on this machine (needs root)
    #[command(after_help = "Examples:
  sluice bench
  sluice bench --services 1000")]
    Bench(BenchArgs),
    /// Print a completion script for a shell
    #[command(after_help = "Examples:
  sluice completions bash > /etc/bash_completion.d/sluice
  sluice completions fish > ~/.config/fish/completions/sluice.fish")]
    Completions(CompletionsArgs),
    /// Print the manual page
    #[command(after_help = "Example:
  sluice man > /usr/share/man/man8/sluice.8")]
    Man,
}

/// What to measure.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// How many Services
    #[arg(long, value_name = "N,..", value_delimiter = ',')]
    #[arg(default_values_t = [1, 1_000, 10_000, 50_000])]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pub(crate) services: Vec<u32>,
}

/// A lab on this machine.
#[derive(Debug, Args)]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    pub(crate) command: LabCommand,
}

/// What to do in the lab.
#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// Show a Service balancing real connections, and a pod that dies (needs root)
    Demo,
}

/// What defines a node's rules; the names are kube-proxy's.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct NodeArgs {
    /// Folder of Services, EndpointSlices, Nodes and ServiceCIDRs: *.yaml, *.yml, *.json
    #[arg(long, value_name = "DIR")]
    pub(crate) manifests: Option<PathBuf>,
    /// Name of this node [default: the host's name]
    #[arg(long, value_name = "NODE")]
    pub(crate) hostname_override: Option<String>,
    /// Data plane: nftables (iptables, ipvs and ebpf are not built yet)
    #[arg(long, value_name = "MODE", default_value = "nftables")]
    pub(crate) proxy_mode: String,
    /// Addresses of pods: one prefix, or one of each family
    #[arg(long, value_name = "CIDR[,CIDR]", value_delimiter = ',')]
    pub(crate) cluster_cidr: Vec<String>,
    /// How traffic of this node's pods is recognised: ClusterCIDR, NodeCIDR, BridgeInterface or
    /// InterfaceNamePrefix
    #[arg(long, value_name = "HOW", default_value = "ClusterCIDR")]
    pub(crate) detect_local_mode: String,
    /// Bridge of this node's pods, for BridgeInterface
    #[arg(long, value_name = "NAME")]
    pub(crate) pod_bridge_interface: Option<String>,
    /// Beginning of the names of this node's pod interfaces, for InterfaceNamePrefix
    #[arg(long, value_name = "PREFIX")]
    pub(crate) pod_interface_name_prefix: Option<String>,
    /// Addresses of the node that answer on NodePorts: `primary`, or prefixes
    #[arg(
        long,
        value_name = "CIDR,..",
        value_delimiter = ',',
        default_value = "primary"
    )]
    pub(crate) nodeport_addresses: Vec<String>,
    /// Masquerade all traffic to ClusterIPs
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(
        default_value = "false",
        default_missing_value = "true",
        hide_possible_values = true
    )]
    pub(crate) masquerade_all: String,
    /// Bit of the packet mark that says "masquerade this", 0 to 31
    #[arg(
        long,
        value_name = "BIT",
        visible_alias = "masquerade-bit",
        default_value = "14"
    )]
    pub(crate) iptables_masquerade_bit: String,
}

/// `sluice proxy`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ProxyArgs {
    #[command(flatten)]
    pub(crate) node: NodeArgs,
    /// Address of the health server, empty for none
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:10256")]
    pub(crate) healthz_bind_address: String,
    /// Shortest time between two syncs, as 1m30s, 500ms
    #[arg(long, value_name = "TIME", default_value = "0s")]
    pub(crate) min_sync_period: String,
    /// Time between two comparisons of all rules with the kernel
    #[arg(long, value_name = "TIME", default_value = "1h")]
    pub(crate) resync_period: String,
    /// Where `sluice status` finds this agent
    #[arg(long, value_name = "PATH", default_value = SOCKET)]
    pub(crate) socket: PathBuf,
    /// Remove all rules and exit, as `sluice cleanup`
    #[arg(long)]
    pub(crate) cleanup: bool,
    /// How much to log: 0 what changed, 4 details, 6 everything
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value = "0")]
    pub(crate) verbosity: u8,
    /// How to log
    #[arg(
        long,
        value_name = "FORMAT",
        visible_alias = "logging-format",
        default_value = "text"
    )]
    pub(crate) log_format: LogFormat,
}

/// `--log-format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for people
    Text,
    /// One JSON object per line
    Json,
}

/// `-o`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people
    #[value(alias = "table")]
    Text,
    /// For scripts
    Json,
}

/// `sluice render`.
#[derive(Clone, Debug, Args)]
pub(crate) struct RenderArgs {
    #[command(flatten)]
    pub(crate) node: NodeArgs,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: Output,
    /// Fail when anything is wrong with the manifests
    #[arg(long)]
    pub(crate) strict: bool,
}

/// `sluice explain`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ExplainArgs {
    /// Who sends: an address, `node`, or a pod as NAMESPACE/NAME
    #[arg(value_name = "FROM")]
    pub(crate) from: String,
    /// Where to: an address with port and protocol as in `10.96.0.10:53/udp`, or a Service as
    /// in `default/web:http`
    #[arg(value_name = "TO")]
    pub(crate) to: String,
    #[command(flatten)]
    pub(crate) node: NodeArgs,
    /// Interface through which the packet arrives, for the modes that look at it
    #[arg(long, value_name = "NAME")]
    pub(crate) interface: Option<String>,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: Output,
}

/// `sluice status`.
#[derive(Clone, Debug, Args)]
pub(crate) struct StatusArgs {
    /// The agent's socket
    #[arg(long, value_name = "PATH", default_value = SOCKET)]
    pub(crate) socket: PathBuf,
    /// Show it again every second
    #[arg(short, long)]
    pub(crate) watch: bool,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: Output,
}

/// `sluice cleanup`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CleanupArgs {
    /// Socket of the agent that must not be running
    #[arg(long, value_name = "PATH", default_value = SOCKET)]
    pub(crate) socket: PathBuf,
    /// Also remove the tables of kube-proxy's nftables mode
    #[arg(long)]
    pub(crate) kube_proxy: bool,
}

/// `sluice completions`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// Which shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}

/// The whole definition, for completions and the manual page.
pub(crate) fn definition() -> clap::Command {
    Cli::command().infer_long_args(false)
}

/// Understands what was typed; ends the process on wrong usage and after `--help`.
pub(crate) fn parse(args: impl Iterator<Item = OsString>) -> Command {
    Cli::parse_from(as_kube_proxy(args)).command
}

/// A program called `kube-proxy` has no commands: it is the agent.
fn as_kube_proxy(mut args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let program = args.next().unwrap_or_else(|| "sluice".into());
    let name = Path::new(&program).file_name();
    let is_kube_proxy = name.is_some_and(|it| it == "kube-proxy");
    let command = is_kube_proxy.then(|| OsString::from("proxy"));
    [program].into_iter().chain(command).chain(args).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        definition().debug_assert();
    }

    #[test]
    fn kube_proxy_is_the_agent() {
        let args = |all: &[&str]| {
            let all: Vec<OsString> = all.iter().map(OsString::from).collect();
            as_kube_proxy(all.into_iter())
        };
        assert_eq!(
            args(&["/usr/local/bin/kube-proxy", "--v=2"]),
            ["/usr/local/bin/kube-proxy", "proxy", "--v=2"]
        );
        assert_eq!(args(&["sluice", "status"]), ["sluice", "status"]);
        let kube = args(&[
            "kube-proxy",
            "--manifests=/x",
            "--masquerade-all",
            "-v",
            "4",
        ]);
        let Command::Proxy(proxy) = Cli::parse_from(kube).command else {
            panic!("another command");
        };
        assert_eq!(proxy.node.masquerade_all, "true");
        assert_eq!(proxy.verbosity, 4);
    }
}
