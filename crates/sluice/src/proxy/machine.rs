//! Makes the machine fit and gives up what that took, before the first thread.

use std::path::Path;

use anyhow::Context;
use sluice_config::{ConntrackLimits, Mode};
use sluice_node::sysctl::{self, ConntrackSettings};
use sluice_node::takeover::Ours;
use sluice_node::{oom, preflight, privileges, takeover};
use tracing::warn;

use crate::cli::ProxyArgs;
use crate::config::ProxyConfig;
use crate::data_plane::{prepare_for_iptables, prepare_for_ipvs};

/// Sets what the operator wants of the machine.
pub(super) fn prepare(args: &ProxyArgs, config: &ProxyConfig) -> anyhow::Result<()> {
    let effective = &config.node.effective;
    if args.node.asks_for_oom_score() {
        oom::adjust(effective.oom_score_adj);
    }
    // The agent does it as well; in a container only the init container may.
    if args.init_only {
        match effective.mode {
            Mode::Iptables => prepare_for_iptables(effective)?,
            Mode::Ipvs => prepare_for_ipvs(&effective.ipvs)?,
            Mode::Nftables | Mode::Ebpf => {}
        }
    }
    if args.init_only || args.node.asks_for_conntrack() {
        limit_conntrack(&effective.conntrack)?;
    }
    Ok(())
}

/// Sets the kernel's limits of connection tracking.
pub(super) fn limit_conntrack(limits: &ConntrackLimits) -> anyhow::Result<()> {
    let settings = ConntrackSettings {
        max_per_core: limits.max_per_core,
        min: limits.min,
        tcp_established: limits.tcp_established,
        tcp_close_wait: limits.tcp_close_wait,
        tcp_be_liberal: limits.tcp_be_liberal,
        udp: limits.udp,
        udp_stream: limits.udp_stream,
    };
    sysctl::apply(&settings).context("set the limits of connection tracking")
}

/// Capabilities belong to threads, so this comes before the first.
pub(super) fn give_up_privileges(ours: Ours, to_read: &[Option<&Path>]) {
    preflight::report();
    let to_read: Vec<&Path> = to_read.iter().copied().flatten().collect();
    let kept = privileges::to_read(takeover::needed_privileges(ours), &to_read);
    if let Err(error) = kept.and_then(|it| privileges::reduce(&it)) {
        let error = format!("{:#}", anyhow::Error::new(error));
        warn!(error, "running with more privileges than needed");
    }
}
