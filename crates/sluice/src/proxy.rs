//! `sluice proxy`: puts the parts of the node agent together.

use std::collections::BTreeMap;
use std::fs;
use std::panic;
use std::path::Path;
use std::process::{self, ExitCode};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use anyhow::{Context, bail};
use jiff::Timestamp;
use sluice_agent::addresses::Addresses;
use sluice_agent::drift::Drift;
use sluice_agent::metrics::{BuildInfo, Identity, Metrics, Mode};
use sluice_agent::sysctl::{self, ConntrackSettings};
use sluice_agent::{
    Agent, HEALTH_TIMEOUT, Health, Input, Lock, NamespaceLock, NodeObject, Outputs, PortTaken,
    Server, Wires, conntrack, health_checks, preflight, privileges, takeover,
};
use sluice_config::{ConntrackLimits, KubeProxyConfiguration, encode};
use sluice_nftables::{Nftables, TABLE};
use tracing::{info, warn};

use crate::cli::ProxyArgs;
use crate::config::{self, Source};
use crate::config_watch::{self, Reload};
use crate::logging;
use crate::render::print;

/// Runs until it is told to stop.
pub(crate) fn run(args: &ProxyArgs) -> anyhow::Result<ExitCode> {
    if let Some(file) = &args.write_config_to {
        return write_config(&args.node.configuration()?, file);
    }
    let host_name = config::host_name();
    let config = args.validate(&host_name)?;
    let effective = &config.node.effective;
    logging::start(effective.verbosity, effective.log_format);
    config.node.warnings.iter().for_each(|it| warn!("{it}"));
    end_on_panic();
    if args.init_only {
        sysctl::apply(&conntrack_settings(&effective.conntrack))?;
        return Ok(ExitCode::SUCCESS);
    }
    let Source::Folder(manifests) = &config.node.source else {
        bail!(
            "{} is not built yet; use --manifests DIR",
            config.node.source
        );
    };
    preflight::check_capability()?;
    let lock = Lock::take(&config.socket)?;
    let _namespace = NamespaceLock::take()?;
    let mut backend = open_backend()?;
    preflight::report();
    let config_file = args.node.config.as_deref();
    give_up_privileges(&[Some(&**manifests), config_file]);
    if effective.mode_is_default {
        info!(
            "no proxy mode is set: nftables, with the periods and masquerading of the iptables \
             section; NodePorts answer on every address unless nodePortAddresses says otherwise"
        );
    }
    // Runbooks look for this line of kube-proxy's.
    info!("Using {} Proxier", effective.mode);

    // A folder may have Services and no Node.
    let node = NodeObject::Optional;
    let health = Health::new(HEALTH_TIMEOUT, node, Instant::now(), Timestamp::now());
    let health = Arc::new(health);
    let metrics = Arc::new(Metrics::new(&identity()));
    let counter = metrics.clone();
    backend.on_exchange(move |it| counter.netlink_request(it.sent, it.received, it.elapsed));
    let (health_checks, health_check_servers) = health_checks();
    // The log and the status say it too; a folder has nobody else to tell.
    let (announce, _) = mpsc::channel();
    let (sender, inputs) = mpsc::channel();
    let (port_id, generation) = (backend.port_id(), backend.generation());
    let watcher = sender.clone();
    let outputs = Outputs {
        health: health.clone(),
        metrics: metrics.clone(),
        health_checks,
        announce: announce.clone(),
        stale: conntrack::spawn(metrics.clone()).context("start conntrack cleanup")?,
        after_first_sync: Box::new(move || {
            watch_for_drift(port_id, &generation, watcher);
            takeover::take_over();
        }),
    };
    let server = Server {
        socket: config.socket.clone(),
        health_address: effective.health_address,
        metrics: None,
        port_taken: match effective.bind_address_hard_fail {
            true => PortTaken::Fail,
            false => PortTaken::Retry,
        },
        node_name: config.node.settings.node_name.clone(),
    };
    let wires = Wires {
        health,
        metrics,
        health_checks: health_check_servers,
        announce,
        inputs: sender.clone(),
    };
    let _served = server.start(lock, wires)?;
    let _addresses = Addresses::follow(sender.clone())?;
    let restart = Arc::new(OnceLock::new());
    let (stop, why) = (sender.clone(), restart.clone());
    let reloaded = move |reload| reloaded(&reload, &stop, &why);
    let watched = config_watch::watch(args, &host_name, &config, reloaded);
    let _config = watched.context("watch the configuration")?;
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
        source = %config.node.source,
        "started"
    );
    Agent::new("nftables", settings, backend, config.periods, outputs).run(&inputs);
    match restart.get() {
        Some(why) => bail!("{why}: start again"),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// What a changed configuration file does. Like kube-proxy the agent ends when it says something
/// else, for its supervisor to start it again; the rules stay meanwhile.
fn reloaded(reload: &Reload, stop: &Sender<Input>, restart: &OnceLock<String>) {
    let why = match reload {
        Reload::Invalid(error) => {
            let error = format!("{error:#}");
            warn!(error, "the changed configuration is not used");
            return;
        }
        Reload::Apply(config) => {
            config.node.warnings.iter().for_each(|it| warn!("{it}"));
            "the configuration has changed".to_owned()
        }
        Reload::Restart(fields) => {
            format!("the configuration has changed: {}", fields.join(", "))
        }
    };
    // The first reason is the one that is told, and the agent stops once.
    if restart.set(why).is_ok() {
        let _ = stop.send(Input::Stop);
    }
}

fn identity() -> Identity {
    let build = BuildInfo {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: String::new(),
    };
    Identity {
        mode: Mode::Nftables,
        build,
        features: BTreeMap::new(),
    }
}

/// Before the first thread, because capabilities belong to threads.
fn give_up_privileges(to_read: &[Option<&Path>]) {
    let to_read: Vec<&Path> = to_read.iter().copied().flatten().collect();
    let kept = privileges::to_read(privileges::NETLINK, &to_read);
    if let Err(error) = kept.and_then(|it| privileges::reduce(&it)) {
        let error = format!("{:#}", anyhow::Error::new(error));
        warn!(error, "running with more privileges than needed");
    }
}

/// The same in the words of the agent, which knows no configuration.
fn conntrack_settings(limits: &ConntrackLimits) -> ConntrackSettings {
    ConntrackSettings {
        max_per_core: limits.max_per_core,
        min: limits.min,
        tcp_established: limits.tcp_established,
        tcp_close_wait: limits.tcp_close_wait,
        tcp_be_liberal: limits.tcp_be_liberal,
        udp: limits.udp,
        udp_stream: limits.udp_stream,
    }
}

/// Writes the configuration with all its defaults.
fn write_config(config: &KubeProxyConfiguration, file: &Path) -> anyhow::Result<ExitCode> {
    let name = file.display();
    fs::write(file, encode(config)).with_context(|| format!("write configuration {name}"))?;
    print(&format!("wrote configuration {name}\n"))?;
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
