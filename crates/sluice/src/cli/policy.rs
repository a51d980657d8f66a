//! The flags of `sluice policy`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use sluice_config::time;

use super::{NodeArgs, Output, SOCKET};

/// `sluice policy`.
#[derive(Clone, Debug, Args)]
pub(crate) struct PolicyArgs {
    #[command(subcommand)]
    pub(crate) command: PolicyCommand,
}

/// Commands about network policies.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Return when a policy is in force: the agent knows it, and the kernel has its rules
    #[command(after_help = "Examples:
  sluice policy wait api-from-web
  sluice policy wait default-deny -n shop --timeout 10s && echo closed
  sluice policy wait tenants --cluster
  sluice policy wait api-from-web --resource-version 48151
  sluice policy wait api-from-web --lab

A policy that was changed is in force as it was before until the agent learns of the change: --resource-version waits for
that. `kubectl apply -o jsonpath={.metadata.resourceVersion}` prints it. Each agent answers for the pods of its node; name --socket once for each, or --lab for all nodes of a lab.
Exit status: 0 when the policy is in force on all of them, 1 when it was not in time, with the reason.")]
    Wait(WaitArgs),
    /// Show packets as policies drop them, or in audit mode would drop them
    #[command(after_help = "Examples:
  sluice policy watch
  sluice policy watch -n shop
  sluice policy watch --pod shop/cart-0 --outcome dropped
  sluice policy watch --recent --count 10 -o json | jq .policies

It goes on until Ctrl-C or --count. The kernel tells of one packet a second for each pair of addresses, and only of packets at
pods of this node: ingress is decided where the destination runs, egress where the source does. A policy with the annotation
sluice.dev/policy-mode: audit drops nothing, and what it would drop is shown as audited.")]
    Watch(WatchArgs),
    /// Show what policies would change before they are applied: which pods no longer reach which, and which do
    #[command(after_help = "Examples:
  sluice policy diff -f new.yaml --kubeconfig ~/.kube/config
  sluice policy diff -f new.yaml --delete default/old --kubeconfig ~/.kube/config
  sluice policy diff -f policies.yaml --manifests /etc/sluice -o json | jq '.changes[].closed'
  sluice policy diff -f new.yaml --kubeconfig /etc/kubernetes/admin.conf --connections

All pods of the cluster are compared as they are now, whatever their node. Pods that no rule tells apart share a line. A
policy of a file replaces the one of its name; one in audit mode changes nothing, and so is compared as if it were enforced
with --enforce.
Exit status: 0 when it could be compared, whatever the difference.")]
    Diff(Box<DiffArgs>),
    /// Show who may talk to whom: namespaces in a table, or the pods of one namespace
    #[command(after_help = "Examples:
  sluice policy matrix --kubeconfig ~/.kube/config
  sluice policy matrix -n shop --kubeconfig ~/.kube/config
  sluice policy matrix --manifests /etc/sluice -o json

In the table a row is who connects. all: every pod of the row reaches every pod of the column with everything; none: no pod
reaches any; some: anything else, which -n shows. Pods that no rule tells apart share a line.")]
    Matrix(Box<MatrixArgs>),
}

/// `sluice policy matrix`.
#[derive(Clone, Debug, Args)]
pub(crate) struct MatrixArgs {
    /// Show the pods that have a part in connections of this namespace, and what they may send
    #[arg(short, long, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: Output,
    // Last: a heading in here is the heading of what follows.
    #[command(flatten)]
    pub(crate) node: NodeArgs,
}

/// `sluice policy diff`.
#[derive(Clone, Debug, Args)]
pub(crate) struct DiffArgs {
    /// File of NetworkPolicies and ClusterNetworkPolicies that are new or changed
    #[arg(
        short,
        long = "file",
        value_name = "FILE",
        required_unless_present = "delete"
    )]
    pub(crate) files: Vec<PathBuf>,
    /// A policy that goes: NAMESPACE/NAME, or NAME of a ClusterNetworkPolicy
    #[arg(long, value_name = "POLICY")]
    pub(crate) delete: Vec<String>,
    /// Compare as if the policies of the files were not in audit mode
    #[arg(long)]
    pub(crate) enforce: bool,
    /// Also list the connections of pods through this machine that would no longer be allowed to begin, as root
    #[arg(long)]
    pub(crate) connections: bool,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: Output,
    // Last: a heading in here is the heading of what follows.
    #[command(flatten)]
    pub(crate) node: NodeArgs,
}

/// `sluice policy watch`.
#[derive(Clone, Debug, Args)]
pub(crate) struct WatchArgs {
    /// Only packets from or to pods of this namespace
    #[arg(short, long, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
    /// Only packets from or to this pod
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub(crate) pod: Option<String>,
    /// Only packets of which this became
    #[arg(long, value_name = "OUTCOME")]
    pub(crate) outcome: Option<OutcomeArg>,
    /// Begin with those that the agent remembers, 1,024 at most
    #[arg(long)]
    pub(crate) recent: bool,
    /// End after so many packets
    #[arg(short, long, value_name = "NUMBER")]
    pub(crate) count: Option<usize>,
    /// The agent's socket
    #[arg(long, value_name = "PATH", default_value = SOCKET)]
    pub(crate) socket: PathBuf,
    /// Output format; JSON has a line for each packet
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: Output,
}

/// Values of `--outcome`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutcomeArg {
    /// It was dropped
    Dropped,
    /// It passed, and a policy in audit mode would drop it
    Audited,
}

/// `sluice policy wait`.
#[derive(Clone, Debug, Args)]
pub(crate) struct WaitArgs {
    /// The policy's name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// The NetworkPolicy's namespace
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    pub(crate) namespace: String,
    /// It is a ClusterNetworkPolicy
    #[arg(long, conflicts_with = "namespace")]
    pub(crate) cluster: bool,
    /// Wait for this version of the policy or a later one: its metadata.resourceVersion
    #[arg(long, value_name = "VERSION")]
    pub(crate) resource_version: Option<String>,
    /// How long to wait, as in `30s`
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = time)]
    pub(crate) timeout: Duration,
    /// The agent's socket; several for several agents
    #[arg(long, value_name = "PATH", default_value = SOCKET)]
    pub(crate) socket: Vec<PathBuf>,
    /// On every node of a lab of this machine: of `lab`, or the one that SLUICE_LAB names, without a name
    #[cfg(feature = "lab")]
    #[arg(long, value_name = "LAB", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "", conflicts_with = "socket")]
    pub(crate) lab: Option<String>,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: Output,
}

/// Values of `--policy-unknown-pods`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum UnknownPodsArg {
    /// They pass until the pod is known
    Accept,
    /// They are dropped until the pod is known
    Drop,
}

/// Values of `--policy-connections`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConnectionsArg {
    /// They go on until they end
    Keep,
    /// They end: their packets are dropped
    Cut,
}
