//! `sluice proxy`: puts the parts of the node agent together.

use std::panic;
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};

use anyhow::Context;
use sluice_agent::addresses::Addresses;
use sluice_agent::drift::Drift;
use sluice_agent::{
    Agent, Health, Input, Lock, NamespaceLock, Outputs, Server, conntrack, preflight, takeover,
};
use sluice_nftables::{Nftables, TABLE};
use tracing::{info, warn};

use crate::cli::ProxyArgs;
use crate::config;
use crate::logging;

/// Runs until it is told to stop.
pub(crate) fn run(args: &ProxyArgs) -> anyhow::Result<ExitCode> {
    let config = args.validate(&config::host_name())?;
    logging::start(args.verbosity, args.log_format);
    end_on_panic();
    preflight::check_capability()?;
    let lock = Lock::take(&config.socket)?;
    let _namespace = NamespaceLock::take()?;
    let backend = open_backend()?;
    preflight::warn_if_not_forwarding();

    let health = Arc::new(Health::default());
    let conntrack_deleted = Arc::new(AtomicU64::new(0));
    let (sender, inputs) = mpsc::channel();
    let (port_id, generation) = (backend.port_id(), backend.generation());
    let watcher = sender.clone();
    let outputs = Outputs {
        health: health.clone(),
        stale: conntrack::spawn(conntrack_deleted.clone()).context("start conntrack cleanup")?,
        conntrack_deleted,
        after_first_sync: Box::new(move || {
            watch_for_drift(port_id, &generation, watcher);
            takeover::take_over();
        }),
    };
    let server = Server {
        health_address: config.health_address,
        socket: config.socket,
    };
    let _served = server.start(lock, health, sender.clone())?;
    let _addresses = Addresses::follow(sender.clone())?;
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

/// Begins to hear of foreign changes, those since the first sync included.
fn watch_for_drift(port_id: u32, generation: &AtomicU32, inputs: Sender<Input>) {
    let listening = Drift::listen(&[port_id]);
    let listening = listening.map_err(anyhow::Error::new).and_then(|drift| {
        drift.check(generation.load(Ordering::Acquire), &inputs);
        drift.report(TABLE, inputs).context("start a thread")
    });
    if let Err(error) = listening {
        let error = format!("{error:#}");
        warn!(
            error,
            "no watch for foreign changes: only the resync repairs them"
        );
    }
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
