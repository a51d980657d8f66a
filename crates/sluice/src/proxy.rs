//! `sluice proxy`: puts the parts of the node agent together.

mod machine;
mod pages;
mod reload;
mod source;

use std::fs;
use std::panic;
use std::path::Path;
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Instant;

use anyhow::{Context, bail};
use jiff::Timestamp;
use sluice_config::{KubeProxyConfiguration, Mode, encode};
use sluice_model::Announcement;
use sluice_model::ObjectKey;
use sluice_node::addresses::Addresses;
use sluice_node::metrics::Metrics;
use sluice_node::{
    Agent, Connections, Health, Lock, NamespaceLock, NodeObject, Outputs, PortTaken, Server, Wires,
    conntrack, health_checks, preflight, takeover,
};
use sluice_plane::DataPlane as _;
use tracing::{info, warn};

use crate::cli::ProxyArgs;
use crate::config::{self, ProxyConfig, Source};
use crate::config_watch;
use crate::data_plane::{DataPlane, IptablesPlane, IpvsPlane, NftablesPlane};
use crate::logging;
use crate::render::print;

/// Runs until it is told to stop.
pub(crate) fn run(args: &ProxyArgs) -> anyhow::Result<ExitCode> {
    if let Some(path) = &args.write_config_to {
        return write_config(&args.node.configuration()?, path);
    }
    let host_name = config::host_name();
    let config = args.validate(&host_name)?;
    let effective = &config.node.effective;
    logging::start(effective.verbosity, effective.log_format);
    config.node.warnings.iter().for_each(|it| warn!("{it}"));
    end_on_panic();
    machine::prepare(args, &config)?;
    if args.init_only {
        info!("the machine is prepared");
        return Ok(ExitCode::SUCCESS);
    }
    match effective.mode {
        Mode::Nftables => serve::<NftablesPlane>(args, &config, &host_name),
        Mode::Iptables => serve::<IptablesPlane>(args, &config, &host_name),
        Mode::Ipvs => serve::<IpvsPlane>(args, &config, &host_name),
        // Refused with the configuration.
        Mode::Ebpf => bail!("mode ebpf has no data plane"),
    }
}

/// Runs the agent with a data plane.
fn serve<P: DataPlane>(
    args: &ProxyArgs,
    config: &ProxyConfig,
    host_name: &str,
) -> anyhow::Result<ExitCode> {
    let (file, effective) = (&config.node.file, &config.node.effective);
    preflight::check_capability()?;
    let lock = Lock::take(&config.socket)?;
    let _namespace = NamespaceLock::take()?;
    let mut plane = P::open(args, config)?;
    let ours = plane.ours();
    let config_file = args.node.config.as_deref();
    machine::give_up_privileges(ours, &[source::files(&config.node.source), config_file]);
    say_hello(config);

    let node_name = config.node.settings.node_name.clone();
    let health = Arc::new(health(config));
    let metrics = Arc::new(Metrics::new(&pages::identity(effective.mode, file)));
    plane.meter(&metrics);
    let (health_checks, health_check_servers) = health_checks();
    let (announce, announcements) = mpsc::channel();
    let (sender, inputs) = mpsc::channel();
    let after_first_sync = plane.after_first_sync(sender.clone());
    let backend = plane.into_backend();
    if let Some(counters) = backend.counters()? {
        let connections = Connections::start(counters, sender.clone());
        metrics.show_connections(connections.context("start counting connections")?);
    }
    let outputs = Outputs {
        health: health.clone(),
        metrics: metrics.clone(),
        health_checks,
        announce: announce.clone(),
        stale: conntrack::spawn(metrics.clone()).context("start conntrack cleanup")?,
        after_first_sync,
        take_over: Box::new(move |families| {
            P::remove_tables(families);
            takeover::take_over(ours, families);
        }),
    };
    let server = Server {
        socket: config.socket.clone(),
        health_address: effective.health_address,
        metrics: pages::metrics_server(effective, file, args.node.flags.given()),
        port_taken: match effective.bind_address_hard_fail {
            true => PortTaken::Fail,
            false => PortTaken::Retry,
        },
        node_name: node_name.clone(),
    };
    // The first to be told, if anybody listens.
    let _ = announce.send(starting(&node_name));
    let wires = Wires {
        health,
        metrics: metrics.clone(),
        health_checks: health_check_servers,
        announce,
        inputs: sender.clone(),
    };
    let _served = server.start(lock, wires)?;
    let _addresses = Addresses::follow(sender.clone())?;
    let mut reload = reload::Reloading::new(sender.clone(), effective.clone());
    let restart = reload.restart();
    let watched = config_watch::watch(args, host_name, config, move |it| reload.hear(it));
    let _config = watched.context("watch the configuration")?;
    let from = &config.node.source;
    let _source = source::start(from, &node_name, sender, announcements, &metrics)?;
    info!(
        version = env!("CARGO_PKG_VERSION"),
        node = &*node_name,
        mode = effective.mode.name(),
        source = %from,
        "started"
    );
    let settings = config.node.settings.clone();
    let mode = effective.mode.name();
    Agent::new(mode, settings, backend, config.periods, outputs).run(&inputs);
    match restart.get() {
        Some(why) => bail!("{why}: start again"),
        None => Ok(ExitCode::SUCCESS),
    }
}

fn say_hello(config: &ProxyConfig) {
    let effective = &config.node.effective;
    if effective.mode_is_default {
        info!(
            "no proxy mode is set: nftables, with the periods and masquerading of the iptables \
             section; NodePorts answer on every address unless nodePortAddresses says otherwise"
        );
    }
    // Runbooks look for this line of kube-proxy's.
    info!("Using {} Proxier", effective.mode);
}

/// Behind an API server, a node without its Node object is not part of the cluster; a folder may
/// have Services and no Node.
fn health(config: &ProxyConfig) -> Health {
    let node = match config.node.source {
        Source::Folder(_) => NodeObject::Optional,
        Source::ApiServer { .. } => NodeObject::Required,
    };
    let timeout = config.periods.patience(config.node.effective.periods.sync);
    Health::new(timeout, node, Instant::now(), Timestamp::now())
}

/// kube-proxy's Event on the Node.
fn starting(node_name: &Arc<str>) -> Announcement {
    Announcement {
        about: ObjectKey::Node(node_name.clone()),
        is_warning: false,
        reason: "Starting",
        action: "StartKubeProxy",
        note: format!("Starting Sluice {}", env!("CARGO_PKG_VERSION")),
    }
}

/// Writes the configuration with all its defaults.
fn write_config(config: &KubeProxyConfiguration, file: &Path) -> anyhow::Result<ExitCode> {
    let name = file.display();
    fs::write(file, encode(config)).with_context(|| format!("write configuration {name}"))?;
    print(&format!("wrote configuration {name}\n"))?;
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
