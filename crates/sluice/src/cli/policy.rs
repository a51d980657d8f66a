//! The flags of `sluice policy`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use sluice_config::time;

use super::{Output, SOCKET};

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
  sluice policy wait api-from-web --resource-version \
    $(kubectl get networkpolicy api-from-web -o jsonpath={.metadata.resourceVersion})
  sluice policy wait api-from-web --lab

A policy that was changed is in force as it was before until the agent learns of the change: --resource-version waits for
that. Each agent answers for the pods of its node; name --socket once for each, or --lab for all nodes of a lab.
Exit status: 0 when the policy is in force on all of them, 1 when it was not in time, with the reason.")]
    Wait(WaitArgs),
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
