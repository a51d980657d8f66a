//! Prepares the machine and gives up privileges, before the first thread.

use std::path::{Path, PathBuf};

use anyhow::Context;
use sluice_agent::limits;
use sluice_config::ConntrackLimits;
use sluice_node::sandbox::{self, Files};
use sluice_node::sysctl::Memory;
use sluice_node::{chain, oom, preflight, privileges};
use tracing::warn;

use super::Agent;
use crate::cli::{ProxyArgs, Sandbox};
use crate::config::ProxyConfig;
use crate::source;

/// Sets OOM score, connection tracking and, with `--init-only`, the needs of the data plane.
pub(super) fn prepare(args: &ProxyArgs, config: &ProxyConfig, agent: &Agent) -> anyhow::Result<()> {
    let effective = &config.node.effective;
    let init_only = args.init_only == Some(true);
    if args.node.asks_for_oom_score() {
        oom::adjust(effective.oom_score_adj);
    }
    let memory = if init_only {
        Memory::of_init_only(&config.socket)
    } else {
        Memory::beside(&config.socket)
    };
    // The agent does the same, but in a container only the init container may.
    if init_only {
        let options = config.node.options(args.node.count_connections);
        (agent.initialize)(&options, &memory)?;
    }
    if init_only || args.node.asks_for_conntrack() {
        limit_conntrack(&effective.conntrack, &memory)?;
    }
    Ok(())
}

/// Sets the kernel's limits of connection tracking.
pub(super) fn limit_conntrack(limits: &ConntrackLimits, memory: &Memory) -> anyhow::Result<()> {
    limits::apply(limits, memory).context("set the limits of connection tracking")
}

/// What a data plane, and the removal of an earlier one, require from the machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Needs {
    /// The programs of iptables.
    pub(super) programs: bool,
    /// eBPF programs, their maps and pins.
    pub(super) bpf: bool,
    /// The network namespaces of pods.
    pub(super) namespaces: bool,
    /// A port below 1024 for the DNS server.
    pub(super) dns: bool,
}

/// Reduces the capabilities. Call it before the first thread: capabilities belong to threads.
pub(super) fn give_up_privileges(needs: Needs, to_read: &[Option<&Path>]) {
    preflight::report();
    let to_read: Vec<&Path> = to_read.iter().copied().flatten().collect();
    let (needed, lent) = if needs.programs {
        (privileges::IPTABLES, privileges::IPTABLES)
    } else {
        (privileges::NETLINK, [].as_slice())
    };
    let bpf = if needs.bpf { privileges::BPF } else { &[] };
    let namespaces = if needs.namespaces {
        privileges::NAMESPACES
    } else {
        &[]
    };
    let ports = if needs.dns { privileges::PORTS } else { &[] };
    let needed = [needed, bpf, namespaces, ports].concat();
    let kept = privileges::to_read(&needed, &to_read);
    if let Err(error) = kept.and_then(|it| privileges::reduce(&it, lent)) {
        let error = chain(&error);
        warn!(error, "running with more privileges than needed");
    }
}

/// Enters the sandbox. Call it before the first thread, when sockets and netlink are open.
pub(super) fn enter_sandbox(args: &ProxyArgs, config: &ProxyConfig, needs: Needs) {
    if args.sandbox == Sandbox::Off {
        return;
    }
    let source = source::needs(&config.node.source);
    let corefile = args.node.dns.dns_corefile.clone();
    let files = [args.node.config.clone(), corefile];
    let read = source.paths.into_iter().chain(files.into_iter().flatten());
    let read: Vec<PathBuf> = read.collect();
    let files = match config.socket.parent() {
        _ if needs.namespaces => Files::All {
            why: "off: sockets of other processes are ended",
        },
        Some(write) if !needs.programs && !source.has_plugin => Files::Only { read: &read, write },
        _ => Files::All {
            why: "off: other programs are run",
        },
    };
    let needs = sandbox::Needs {
        bpf: needs.bpf,
        namespaces: needs.namespaces,
    };
    sandbox::enter(files, needs);
}
