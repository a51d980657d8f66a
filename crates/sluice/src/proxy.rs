//! `sluice proxy`: puts the parts of the node agent together.

use std::panic;
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc;

use anyhow::Context;
use sluice_agent::drift::Drift;
use sluice_agent::{
    Agent, Health, Input, Lock, Outputs, Server, conntrack, node, preflight, takeover,
};
use sluice_nftables::{Nftables, TABLE};
use tracing::{info, warn};

use crate::cli::ProxyArgs;
use crate::config;
use crate::logging;

/// Runs until it is told to stop.
pub(crate) fn run(args: &ProxyArgs) -> anyhow::Result<ExitCode> {
    let mut config = args.validate(&config::host_name())?;
    logging::start(args.verbosity, args.log_format);
    end_on_panic();
    preflight::check_capability()?;
    let lock = Lock::take(&config.socket)?;
    let backend = open_backend()?;
    preflight::warn_if_not_forwarding();
    config.node.settings.fallback_node_ips = node::default_route_addresses();

    let health = Arc::new(Health::default());
    let conntrack_deleted = Arc::new(AtomicU64::new(0));
    let (sender, inputs) = mpsc::channel();
    let outputs = Outputs {
        health: health.clone(),
        stale: conntrack::spawn(conntrack_deleted.clone()).context("start conntrack cleanup")?,
        conntrack_deleted,
        after_first_sync: Box::new(takeover::take_over),
    };
    // Before the first sync: the kernel hides our own changes from it, so that none of another
    // program is missed.
    match Drift::listen(&[backend.port_id()]) {
        Ok(drift) => drift
            .report(TABLE, sender.clone())
            .context("start drift watch")?,
        Err(error) => warn!(%error, "no watch for foreign changes: only the resync repairs them"),
    }
    let server = Server {
        health_address: config.health_address,
        socket: config.socket,
    };
    let _served = server.start(lock, health, sender.clone())?;
    let manifests = &config.node.manifests;
    let sink = move |events| {
        // The agent has stopped; the process is about to end.
        let _ = sender.send(Input::Events(events));
    };
    let _watch = sluice_source::watch(manifests, sink)?;
    let settings = config.node.settings;
    info!(
        version = env!("CARGO_PKG_VERSION"),
        node = &*settings.node_name,
        mode = "nftables",
        manifests = %manifests.display(),
        "started"
    );
    Agent::new("nftables", settings, backend, config.periods, outputs).run(&inputs);
    Ok(ExitCode::SUCCESS)
}

/// An agent that has lost a thread looks well and is not: better none, until somebody restarts
/// it. The rules stay.
fn end_on_panic() {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        report(info);
        process::exit(101);
    }));
}

/// Finds out now, in one line, whether the kernel can do what we need.
fn open_backend() -> anyhow::Result<Nftables> {
    let need = "this kernel offers no nf_tables (CONFIG_NF_TABLES, CONFIG_NF_TABLES_IPV4)";
    let mut backend = Nftables::open().context(need)?;
    backend.probe().context(need)?;
    Ok(backend)
}
