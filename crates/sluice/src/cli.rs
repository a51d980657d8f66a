//! The command line: one definition for parser, help, completions and man page.

#[cfg(feature = "controller")]
mod controller;
mod dns;
mod ebpf;
mod node_dns;
mod policy;
#[cfg(feature = "top")]
mod top;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use sluice_config::time;
#[cfg(feature = "lab")]
use sluice_lab_commands::LabArgs;
use sluice_yaml::shown;

use crate::flags::{self, Flags, Heading};
#[cfg(feature = "controller")]
pub(crate) use controller::ControllerArgs;
pub(crate) use dns::{DnsArgs, DnsCommand, QueryArgs, ServeArgs};
pub(crate) use ebpf::{DsrArg, EbpfArgs, EndedArg, SocketsArg};
pub(crate) use node_dns::NodeDnsArgs;
pub(crate) use policy::{
    ConnectionsArg, DiffArgs, MatrixArgs, OutcomeArg, PolicyArgs, PolicyCommand, UnknownPodsArg,
    WaitArgs, WatchArgs,
};
#[cfg(feature = "top")]
pub(crate) use top::TopArgs;

/// The agent's status socket.
pub(crate) const SOCKET: &str = "/run/sluice/sluice.sock";

/// Most columns of help.
const WIDTH: usize = 100;

/// A Kubernetes service proxy: every Service address of the cluster, served by the kernel.
#[derive(Debug, Parser)]
#[command(name = "sluice", version, max_term_width = WIDTH)]
#[command(after_help = "Examples:
  sluice proxy --manifests /etc/sluice --cluster-cidr 10.244.0.0/16
  sluice status --services
  sluice doctor default/web
  sluice explain node default/web:http

Started under the name `kube-proxy`, it behaves as `sluice proxy`; under the name `coredns` as `sluice dns`.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// Commands of the program.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the node agent: keep this node's rules in line with Services and endpoints
    #[command(after_help = "Examples:
  sluice proxy --manifests /etc/sluice
  sluice proxy --manifests /etc/sluice --cluster-cidr 10.244.0.0/16 --nodeport-addresses primary
  sluice proxy --config /var/lib/kube-proxy/config.conf
  sluice proxy --config old.conf --write-config-to new.conf

Rules stay in place when the agent stops; `sluice cleanup` removes them.")]
    Proxy(ProxyArgs),
    /// Print the rules of a node as text; needs no privileges and no kernel
    #[command(after_help = "Examples:
  sluice render --manifests examples --hostname-override node-a
  sluice render --manifests examples --hostname-override node-a | nft --check -f -")]
    Render(RenderArgs),
    /// Explain what happens to a packet on this node, and why
    #[command(after_help = "Examples:
  sluice explain node default/web:http
  sluice explain 10.244.0.5 10.96.0.10:53/udp
  sluice explain default/client-1 web:http
  sluice explain 10.244.0.5 queue-0.queue.shop.svc.cluster.local:5672
  sluice explain default/client-1 default/web:http --kubeconfig ~/.kube/config
  sluice explain outside default/web:http --live
  sluice explain default/client-1 default/web:http --trace
  sluice explain outside default/web:http --trace --wait 30s
  sluice explain node '[fd00:10:96::a]:80' --manifests examples -o json

A DNS name is looked up as the resolver of FROM does, with the search path of that pod, and each address of the answer is
explained: exit status 1 when it leads nowhere. Nothing is sent: names outside the cluster are only named. An agent
knows names when it has --dns.

The running agent answers, unless --manifests, --kubeconfig, --master or --config name another source.
--trace runs on the node itself, as root. It adds an nftables table for the time of the trace, which goes with
the command, and it opens a connection to an endpoint, or sends an empty datagram.")]
    Explain(ExplainArgs),
    /// Check why a Service does not answer: its objects, the rules, the way, the machine, its name
    #[command(after_help = "Examples:
  sluice doctor default/web
  sluice doctor default/web --probe
  sluice doctor default/web --from 203.0.113.7
  sluice doctor --kubeconfig /etc/kubernetes/admin.conf default/web
  sluice doctor

Without a Service it checks the machine, and what names need: the cluster's DNS and the node's, which are asked for
one name, the nameserver of pods, the servers that queries are forwarded to. Exit status: 0 when nothing is wrong, 1
when something is.
The running agent says what it knows of the Service, unless --manifests, --kubeconfig, --master or
--config name another source, as on a node that runs kube-proxy.")]
    Doctor(DoctorArgs),
    /// Show the status of the running agent
    #[command(after_help = "Examples:
  sluice status
  sluice status --watch
  sluice status --wait 30s && echo ready
  sluice status --services 'default/*'
  sluice status --service default/web
  sluice status --connections | head
  sluice status -o json | jq .issues")]
    Status(StatusArgs),
    /// Network policies: what changes with them, whether they are in force, what they drop
    #[command(after_help = "Examples:
  sluice policy wait api-from-web -n shop
  sluice policy watch
  sluice policy diff -f new.yaml --kubeconfig ~/.kube/config
  sluice policy matrix --kubeconfig ~/.kube/config

The agent enforces policies with `sluice proxy --network-policy`. Why a connection passes or is dropped:
`sluice explain FROM TO`. How many pods are isolated, and what is wrong with policies: `sluice status`.")]
    Policy(PolicyArgs),
    #[cfg(feature = "top")]
    /// Watch the Services of the running agent on the terminal: new connections, endpoints, what is wrong
    #[command(after_help = "Examples:
  sluice top
  sluice top --interval 5s

Keys: Up, Down, PageUp, PageDown, Home and End choose a Service; Enter shows its endpoints, Esc goes back;
/ filters by name; s sorts by trouble, new connections or name; i shows everything that is wrong; q quits.

New connections are counted in the ipvs mode, and in the nftables mode by an agent with --count-connections.")]
    Top(TopArgs),
    /// Remove the rules of Sluice from the kernel, in any mode, and say what is left and why
    #[command(after_help = "Examples:
  sluice cleanup
  sluice cleanup --restore-sysctls
  sluice cleanup --kube-proxy

Stop the agent first, or it puts the rules back. Established connections go on: their translation is
in conntrack, except through IPVS.")]
    Cleanup(CleanupArgs),
    #[cfg(feature = "controller")]
    /// Complete manifests as a control plane does: EndpointSlices from Pods, addresses and ports for Services
    #[command(after_help = "Examples:
  sluice controller --manifests /etc/sluice/manifests --output /run/sluice/cluster
  sluice controller --manifests examples --output /tmp/cluster --once
  sluice proxy --manifests /run/sluice/cluster

It reads Services, Pods with their addresses, Nodes, Endpoints and ServiceCIDRs, and writes one file for each
Service into the other folder, which is its memory too: addresses and ports stay the same over restarts.")]
    Controller(ControllerArgs),
    /// Serve the cluster's DNS from a Corefile, in CoreDNS's place
    #[command(after_help = "Examples:
  sluice dns --conf /etc/coredns/Corefile
  sluice dns --conf Corefile --dns.port 1053 --manifests examples
  sluice dns --conf Corefile --check
  sluice dns query web.default.svc.cluster.local --manifests examples

A Corefile with the plugin `reload` is read again when it changes; SIGUSR1 reads any again. One that cannot be read
leaves the last good one in force.")]
    Dns(Box<DnsArgs>),
    #[cfg(feature = "lab")]
    /// Run a cluster of network namespaces on this machine: nodes, pods, Services, the Kubernetes API
    #[command(after_help = "Examples:
  sluice lab up
  sluice lab apply -f web.yaml
  sluice lab probe client svc/web -n 1000
  sluice lab exec node-a -- nft list ruleset
  sluice lab down")]
    Lab(LabArgs),
    /// Print a completion script for a shell
    #[command(after_help = "Examples:
  sluice completions bash > /etc/bash_completion.d/sluice
  sluice completions fish > ~/.config/fish/completions/sluice.fish")]
    Completions(CompletionsArgs),
    /// Print a manual page
    #[command(after_help = "Examples:
  sluice man | man -l -
  sluice man proxy | man -l -
  sluice man --dir /usr/share/man/man8")]
    Man(ManArgs),
}

/// The flags that define a node's rules; most names are kube-proxy's.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = Heading::Sluice.title())]
pub(crate) struct NodeArgs {
    /// Folder of Services, EndpointSlices, Nodes and ServiceCIDRs, with its subfolders: *.yaml, *.yml, *.json
    #[arg(long, value_name = "DIR")]
    pub(crate) manifests: Option<PathBuf>,
    /// A KubeProxyConfiguration file. Beside it, of kube-proxy's flags only --hostname-override and
    /// those of logging count
    #[arg(long, value_name = "PATH")]
    pub(crate) config: Option<PathBuf>,
    /// Serve only the externalIPs of Services in these prefixes; empty for none [default: all]
    #[arg(long, value_name = "CIDR,..", value_delimiter = ',')]
    pub(crate) external_ip_allow: Option<Vec<String>>,
    /// Do not serve external and load balancer addresses that belong to nodes or pods, or lie in a
    /// ServiceCIDR
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true", value_parser = flags::boolean)]
    pub(crate) refuse_shadowing_vips: Option<bool>,
    /// The NodePorts and health check node ports that manifests may have; an API server has its own
    /// range [default: 30000-32767]
    #[arg(long, value_name = "FIRST-LAST")]
    pub(crate) service_node_port_range: Option<String>,
    /// Count the connections of Services and endpoints in the nftables mode, for metrics and
    /// `sluice status`; the ipvs mode always does
    #[arg(long)]
    pub(crate) count_connections: bool,
    /// Address of the API server, instead of the kubeconfig's
    #[arg(long, value_name = "URL", help_heading = Heading::Api.title())]
    pub(crate) master: Option<String>,
    #[command(flatten)]
    pub(crate) ebpf: EbpfArgs,
    #[command(flatten)]
    pub(crate) dns: NodeDnsArgs,
    #[command(flatten)]
    pub(crate) flags: Flags,
}

/// `sluice proxy`.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = Heading::Sluice.title())]
pub(crate) struct ProxyArgs {
    /// Shortest time between two syncs, as 1m30s, 500ms [default: the configuration's]
    #[arg(long, value_name = "TIME")]
    pub(crate) min_sync_period: Option<String>,
    /// Time between two comparisons of all rules with the kernel [default: 1h; in the ipvs mode
    /// --ipvs-sync-period, because the kernel reports no changes of virtual servers and ipsets]
    #[arg(long, value_name = "TIME")]
    pub(crate) resync_period: Option<String>,
    /// Where `sluice status` finds this agent
    #[arg(long, value_name = "PATH", default_value = SOCKET)]
    pub(crate) socket: PathBuf,
    /// Serve a web page of this agent: 127.0.0.1:10261 is for browsers of this machine. Any other address
    /// than a loopback one needs --web-token-file [default: none]
    #[arg(long, value_name = "IP:PORT")]
    pub(crate) web_bind_address: Option<String>,
    /// File with the secret that the web page asks for, at least 16 characters
    #[arg(long, value_name = "PATH", requires = "web_bind_address")]
    pub(crate) web_token_file: Option<PathBuf>,
    /// Enforce NetworkPolicies and ClusterNetworkPolicies for the pods of this node, in a table of nftables of their
    /// own, in every mode
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true", value_parser = flags::boolean)]
    pub(crate) network_policy: Option<bool>,
    /// What becomes of connections that are open when a network policy begins to forbid them, unless the policy has the
    /// annotation sluice.dev/policy-connections
    #[arg(long, value_name = "WHAT", default_value = "keep")]
    pub(crate) policy_connections: ConnectionsArg,
    /// With --network-policy: what becomes of connections of an address in spec.podCIDRs of this node that no known pod
    /// has, such as that of a pod that just began. Drop only where the network plugin takes its addresses from there
    #[arg(long, value_name = "WHAT", default_value = "accept")]
    pub(crate) policy_unknown_pods: UnknownPodsArg,
    /// Whether the kernel refuses the agent system calls and files that it never needs
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) sandbox: Sandbox,
    /// Write the configuration with all defaults to a file and exit
    #[arg(long, value_name = "PATH")]
    pub(crate) write_config_to: Option<PathBuf>,
    /// Set the sysctls and exit, as root; the agent itself then needs only CAP_NET_ADMIN
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true", value_parser = flags::boolean)]
    pub(crate) init_only: Option<bool>,
    /// Remove all rules, those of kube-proxy too, and exit, as `sluice cleanup --kube-proxy`
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true", value_parser = flags::boolean)]
    pub(crate) cleanup: Option<bool>,
    // Last: a heading in here is the heading of what follows.
    #[command(flatten)]
    pub(crate) node: NodeArgs,
}

/// Values of `--sandbox`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sandbox {
    /// Seccomp, and Landlock where no other program is run
    Auto,
    /// Neither
    Off,
}

/// Values of `-o`.
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
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: Output,
    /// Fail when anything is wrong with the manifests
    #[arg(long)]
    pub(crate) strict: bool,
    // Last: a heading in here is the heading of what follows.
    #[command(flatten)]
    pub(crate) node: NodeArgs,
}

/// `sluice explain`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ExplainArgs {
    /// Who sends: `node`, `outside`, an address, or a pod as NAMESPACE/NAME
    #[arg(value_name = "FROM")]
    pub(crate) from: String,
    /// Where to: a Service as in `default/web:http`, a DNS name as in `web:http` and `web.default.svc:80`, or
    /// an address with port and protocol as in `10.96.0.10:53/udp`
    #[arg(value_name = "TO")]
    pub(crate) to: String,
    /// The socket of the agent that is asked
    #[arg(long, value_name = "PATH", default_value = SOCKET)]
    pub(crate) socket: PathBuf,
    /// Interface through which the packet arrives, for the modes that look at it
    #[arg(long, value_name = "NAME")]
    pub(crate) interface: Option<String>,
    /// Also read the kernel of this machine: the objects that carry the decision, their counters, the
    /// client's connections, and where kernel and plan differ
    #[arg(long)]
    pub(crate) live: bool,
    /// Send one packet from FROM, and show its way through the rules of this machine, whoever wrote them
    #[arg(long)]
    pub(crate) trace: bool,
    /// With --trace: send nothing, and wait this long for a packet from FROM, as in `30s`
    #[arg(long, value_name = "TIME", requires = "trace", value_parser = time)]
    pub(crate) wait: Option<Duration>,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: Output,
    // Last: a heading in here is the heading of what follows.
    #[command(flatten)]
    pub(crate) node: NodeArgs,
}

/// `sluice doctor`.
#[derive(Clone, Debug, Args)]
pub(crate) struct DoctorArgs {
    /// The Service, as in `default/web`, or its DNS name
    #[arg(value_name = "SERVICE")]
    pub(crate) service: Option<String>,
    /// The client that gets no answer: an address, or a pod as NAMESPACE/NAME [default: this node, and
    /// for Services that are open to the outside, a client there]
    #[arg(long, value_name = "FROM", requires = "service")]
    pub(crate) from: Option<String>,
    /// Connect to endpoints and virtual IPs from this node, and ask the cluster's DNS
    #[arg(long, requires = "service")]
    pub(crate) probe: bool,
    /// kubelet's configuration, which says which DNS server pods ask
    #[arg(
        long,
        value_name = "PATH",
        default_value = "/var/lib/kubelet/config.yaml"
    )]
    pub(crate) kubelet_config: PathBuf,
    /// The agent's socket
    #[arg(long, value_name = "PATH", default_value = SOCKET)]
    pub(crate) socket: PathBuf,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: Output,
    // Last: a heading in here is the heading of what follows.
    #[command(flatten)]
    pub(crate) node: NodeArgs,
}

/// `sluice status`.
#[derive(Clone, Debug, Args)]
pub(crate) struct StatusArgs {
    /// The agent's socket
    #[arg(long, value_name = "PATH", default_value = SOCKET)]
    pub(crate) socket: PathBuf,
    /// Show a line for each Service, or for those that PATTERN fits: a part of NAMESPACE/NAME; with
    /// `*` for any text, as in `nginx*`, the whole of NAME or NAMESPACE/NAME
    #[arg(long, value_name = "PATTERN", num_args = 0..=1, default_missing_value = "")]
    #[arg(conflicts_with_all = ["service", "connections"])]
    pub(crate) services: Option<String>,
    /// Show one Service with every endpoint, and why the endpoint is used or not
    #[arg(long, value_name = "NAMESPACE/NAME", conflicts_with = "connections")]
    pub(crate) service: Option<String>,
    /// Show the connections of Services, those with most first
    #[arg(long)]
    pub(crate) connections: bool,
    /// Show it again every second
    #[arg(short, long)]
    pub(crate) watch: bool,
    /// First wait until the agent answers and its rules are up to date, this long at most, as in `30s`
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) wait: Option<Duration>,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: Output,
}

/// `sluice cleanup`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CleanupArgs {
    /// Socket of the agent that was stopped: the old values of sysctls are in a file beside it
    #[arg(long, value_name = "PATH", default_value = SOCKET)]
    pub(crate) socket: PathBuf,
    /// Also remove the rules of kube-proxy, in any of its modes
    #[arg(long)]
    pub(crate) kube_proxy: bool,
    /// Also set the sysctls that the agent changed to their old values
    #[arg(long)]
    pub(crate) restore_sysctls: bool,
}

impl ProxyArgs {
    /// `--cleanup`, which means what it means to kube-proxy.
    pub(crate) fn as_cleanup(&self) -> CleanupArgs {
        CleanupArgs {
            socket: self.socket.clone(),
            kube_proxy: true,
            restore_sysctls: false,
        }
    }
}

/// `sluice completions`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// Which shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}

/// `sluice man`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ManArgs {
    /// The command whose page is printed, as in `proxy` or `lab demo` [default: the program's page]
    #[arg(value_name = "COMMAND", conflicts_with = "dir")]
    pub(crate) command: Vec<String>,
    /// Write every page into this folder: sluice.8, sluice-proxy.8 and so on
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

/// The whole definition: for the parser, completions and the manual page.
pub(crate) fn definition() -> clap::Command {
    // `render` and `explain` take every flag of the agent, so that a command line can be copied.
    // Their help shows only the flags that have an effect.
    let shown = [Heading::Sluice, Heading::DataPlane, Heading::Dns].map(Heading::title);
    let hide = |arg: clap::Arg| {
        let heading = arg.get_help_heading().map(str::to_owned);
        let hidden = heading.is_some_and(|it| !shown.contains(&&*it));
        arg.hide(hidden)
    };
    Cli::command()
        .infer_long_args(false)
        .args_override_self(true)
        .mut_subcommand("render", |it| it.mut_args(hide))
        .mut_subcommand("explain", |it| it.mut_args(hide))
        .mut_subcommand("doctor", |it| it.mut_args(hide))
        .mut_subcommand("dns", |it| {
            it.mut_subcommand("query", |it| it.mut_args(hide))
        })
        .mut_subcommand("policy", |it| {
            it.mut_subcommand("diff", |it| it.mut_args(hide))
                .mut_subcommand("matrix", |it| it.mut_args(hide))
        })
}

/// Parses the command line. Ends the process on wrong usage, and after `--help` and `--version`.
pub(crate) fn parse(args: impl Iterator<Item = OsString>) -> Command {
    let mut args: Vec<OsString> = args.map(with_dashes).collect();
    if args.first().is_some_and(|it| is_named(it, "coredns")) {
        if args.iter().any(dns::asks_for_version) {
            end_with(&dns::coredns_version());
        }
        args.splice(0..1, ["sluice".into(), "dns".into()]);
    }
    let is_kube_proxy = args.first().is_some_and(|it| is_named(it, "kube-proxy"));
    if args.get(1).is_some_and(|it| it == "dns") {
        args = args.into_iter().map(dns::with_two_dashes).collect();
    }
    let runs_agent = is_kube_proxy || args.get(1).is_some_and(|it| it == "proxy");
    if runs_agent && args.iter().any(asks_for_version) {
        end_with(&kube_proxy_version());
    }
    let mut definition = if is_kube_proxy {
        kube_proxy()
    } else {
        definition()
    };
    let matches = definition.try_get_matches_from_mut(args);
    let matches = matches.unwrap_or_else(|error| end_by(&error));
    let command = if is_kube_proxy {
        ProxyArgs::from_arg_matches(&matches).map(Command::Proxy)
    } else {
        Cli::from_arg_matches(&matches).map(|it| it.command)
    };
    command.unwrap_or_else(|error| end_by(&error.format(&mut definition)))
}

/// The flags of an agent, as its own process reads them.
///
/// # Errors
///
/// What that process would say.
#[cfg(feature = "lab")]
pub(crate) fn agent(flags: &[String]) -> Result<ProxyArgs, clap::Error> {
    let args = flags.iter().map(|it| with_dashes(it.into()));
    let args = [OsString::from("kube-proxy")].into_iter().chain(args);
    ProxyArgs::from_arg_matches(&kube_proxy().try_get_matches_from(args)?)
}

/// Under the name `kube-proxy` the program has no commands: it runs the agent.
fn kube_proxy() -> clap::Command {
    let sluice = definition();
    let proxy = sluice.find_subcommand("proxy").cloned();
    let proxy = proxy.expect("the agent is a command");
    let examples = proxy.get_after_help().map(ToString::to_string);
    let examples = examples.unwrap_or_default();
    proxy
        .name("kube-proxy")
        .args_override_self(true)
        .max_term_width(WIDTH)
        .after_help(examples.replace("sluice proxy", "kube-proxy"))
}

/// The line of `kube-proxy --version`: scripts look for `Kubernetes v`. It names the version whose
/// behaviour Sluice follows.
fn kube_proxy_version() -> String {
    format!("Kubernetes v1.36.0 (Sluice {})", env!("CARGO_PKG_VERSION"))
}

fn asks_for_version(arg: &OsString) -> bool {
    ["--version", "--version=true", "--version=raw"]
        .iter()
        .any(|it| arg == it)
}

/// Whether the program was started under a name that means one of its commands.
fn is_named(program: &OsString, name: &str) -> bool {
    let own = Path::new(program).file_name();
    own.is_some_and(|it| it == name)
}

/// Prints a version, and ends the process as clap does.
fn end_with(version: &str) -> ! {
    // The reader may have closed the pipe.
    let _ = writeln!(io::stdout(), "{version}");
    #[expect(clippy::disallowed_methods, reason = "as clap ends at --version")]
    std::process::exit(0);
}

/// Ends the process with what clap says: help, or what is wrong with the arguments. These may be names of anybody's files.
fn end_by(error: &clap::Error) -> ! {
    if error.use_stderr() {
        // The reader may have closed the pipe.
        let _ = write!(io::stderr(), "{}", shown(&error.render().to_string()));
    } else {
        let _ = error.print();
    }
    #[expect(clippy::disallowed_methods, reason = "as clap ends")]
    std::process::exit(error.exit_code());
}

/// `--cluster_cidr` is `--cluster-cidr`, as in all programs of Kubernetes.
fn with_dashes(arg: OsString) -> OsString {
    let Some(flag) = arg.to_str().filter(|it| it.starts_with("--")) else {
        return arg;
    };
    let end = flag.find('=').unwrap_or(flag.len());
    let (name, value) = flag.split_at(end);
    format!("{}{value}", name.replace('_', "-")).into()
}

#[cfg(test)]
mod tests;
