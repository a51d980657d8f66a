//! `sluice dns`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{NodeArgs, Output, SOCKET};

/// `sluice dns`.
#[derive(Clone, Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct DnsArgs {
    #[command(subcommand)]
    pub(crate) command: Option<DnsCommand>,
    #[command(flatten)]
    pub(crate) serve: ServeArgs,
}

/// Commands beside the server.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum DnsCommand {
    /// Show what a name is, and why: which object answers, or why none does
    #[command(after_help = "Examples:
  sluice dns query web.default.svc.cluster.local
  sluice dns query web --from default/client-1
  sluice dns query _http._tcp.web.default.svc.cluster.local SRV
  sluice dns query 10.96.0.10 PTR
  sluice dns query web.default AAAA --from shop/cart-0 --manifests examples -o json

With --from the name is completed as the resolver of that pod does it: each step of its search path is shown.
The running agent answers, unless --manifests, --kubeconfig or --master name another source.")]
    Query(QueryArgs),
}

/// The flags of the server; CoreDNS's have one dash in its documentation, and may have here.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServeArgs {
    /// The Corefile
    #[arg(long, value_name = "PATH", default_value = "Corefile")]
    pub(crate) conf: PathBuf,
    /// The port of server blocks that name none
    #[arg(
        long = "dns.port",
        short = 'p',
        value_name = "PORT",
        default_value_t = 53
    )]
    pub(crate) dns_port: u16,
    /// Folder of Services, EndpointSlices, Namespaces and Pods, in place of an API server
    #[arg(long, value_name = "DIR")]
    pub(crate) manifests: Option<PathBuf>,
    /// File with the way to an API server, in place of the Corefile's and the pod's service account
    #[arg(long, value_name = "PATH", conflicts_with = "manifests")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Check the Corefile, print what is wrong with it, and exit
    #[arg(long)]
    pub(crate) check: bool,
    /// Write the number of this process into a file
    #[arg(long, value_name = "PATH")]
    pub(crate) pidfile: Option<PathBuf>,
    /// Log warnings and errors only
    #[arg(long)]
    pub(crate) quiet: bool,
    /// Print the plugins of the Corefile that this program has, and exit
    #[arg(long)]
    pub(crate) plugins: bool,
}

/// `sluice dns query`.
#[derive(Clone, Debug, Args)]
pub(crate) struct QueryArgs {
    /// The name; an address with the type PTR is its reverse name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// The type of record, as in `AAAA`, `SRV`; several in each step as in `A,AAAA`
    #[arg(value_name = "TYPE", default_value = "A")]
    pub(crate) kind: String,
    /// The pod that asks, as NAMESPACE/NAME or by its address: its search path completes the name
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub(crate) from: Option<String>,
    /// The socket of the agent that is asked
    #[arg(long, value_name = "PATH", default_value = SOCKET)]
    pub(crate) socket: PathBuf,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: Output,
    // Last: a heading in here is the heading of what follows.
    #[command(flatten)]
    pub(crate) node: NodeArgs,
}

/// Whether CoreDNS would print its version.
pub(super) fn asks_for_version(arg: &OsString) -> bool {
    arg == "-version" || arg == "--version"
}

/// The line of `coredns -version`. It names the version whose answers and metrics these are.
pub(super) fn coredns_version() -> String {
    format!("CoreDNS-1.13.1 (Sluice {})", env!("CARGO_PKG_VERSION"))
}

/// `-conf` is `--conf`, as Go's programs read it.
pub(super) fn with_two_dashes(arg: OsString) -> OsString {
    const NAMES: [&str; 6] = ["conf", "dns.port", "pidfile", "plugins", "quiet", "help"];
    let name = arg.to_str().and_then(|it| it.strip_prefix('-'));
    let is_flag = name.is_some_and(|it| NAMES.contains(&it.split('=').next().unwrap_or(it)));
    match (is_flag, arg.to_str()) {
        (true, Some(text)) => format!("-{text}").into(),
        _ => arg,
    }
}
