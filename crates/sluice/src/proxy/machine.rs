//! Makes the machine fit and gives up what that took, before the first thread.

use std::path::Path;

use anyhow::Context;
use sluice_config::ConntrackLimits;
use sluice_node::{oom, preflight, privileges, sysctl};
use tracing::warn;

use crate::cli::ProxyArgs;
use crate::config::ProxyConfig;
use crate::planes;

/// Sets what the operator wants of the machine.
pub(super) fn prepare(args: &ProxyArgs, config: &ProxyConfig) -> anyhow::Result<()> {
    let effective = &config.node.effective;
    if args.node.asks_for_oom_score() {
        oom::adjust(effective.oom_score_adj);
    }
    // The agent does it as well; in a container only the init container may.
    if args.init_only {
        let options = config.node.options(args.node.count_connections);
        (planes::of(effective.mode)?.initialize)(&options)?;
    }
    if args.init_only || args.node.asks_for_conntrack() {
        limit_conntrack(&effective.conntrack)?;
    }
    Ok(())
}

/// Sets the kernel's limits of connection tracking.
pub(super) fn limit_conntrack(limits: &ConntrackLimits) -> anyhow::Result<()> {
    sysctl::apply(limits).context("set the limits of connection tracking")
}

/// Capabilities belong to threads, so this comes before the first.
pub(super) fn give_up_privileges(needs_programs: bool, to_read: &[Option<&Path>]) {
    preflight::report();
    let to_read: Vec<&Path> = to_read.iter().copied().flatten().collect();
    let needed = match needs_programs {
        true => privileges::IPTABLES,
        false => privileges::NETLINK,
    };
    let kept = privileges::to_read(needed, &to_read);
    if let Err(error) = kept.and_then(|it| privileges::reduce(&it)) {
        let error = format!("{:#}", anyhow::Error::new(error));
        warn!(error, "running with more privileges than needed");
    }
}
