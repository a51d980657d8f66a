//! `sluice proxy`: runs the node agent.

mod dns;
mod machine;
mod opening;
mod pages;
mod reload;

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Instant;

use anyhow::{Context, bail};
use jiff::Timestamp;
use sluice_agent::takeover::{AllLeftovers, Carried};
use sluice_agent::{
    Connections, Links, Outputs, ServiceMetrics, TimedEvent, conntrack, health_checks, takeover,
};
use sluice_config::{Mode, encode};
use sluice_dns_agent::{NameEvent, Names};
use sluice_http::{Budget, Own};
use sluice_model::{Announcement, Node, Notice, Reference};
use sluice_node::addresses::Addresses;
use sluice_node::metrics::Metrics;
use sluice_node::sysctl::{self, Memory};
use sluice_node::{
    Health, Lock, NamespaceLock, NodeObject, Programs, Runtime, Server, Shown, chain, descriptors,
    preflight, privileges,
};
use sluice_plan::Event;
use sluice_plane::{DataPlane, Options, Sysctl};
use sluice_policy_agent::Policies;
use sluice_policy_nftables::PolicyTables;
use sluice_policy_plan::{Connections as PolicyConnections, Planner, UnknownPods};
use sluice_source::Hub;
use tracing::{info, warn};

use crate::cli::{ConnectionsArg, NodeArgs, ProxyArgs, UnknownPodsArg};
use crate::config::{self, ProxyConfig, Source, WebConfig};
use crate::config_watch;
use crate::error;
use crate::logging;
use crate::output::print;
use crate::source;
use crate::wanted::{self, Services};

/// The agent with one data plane.
pub(crate) struct Agent {
    /// Prepares the machine for an agent without privileges: `--init-only`.
    initialize: fn(&Options<'_>, &Memory) -> anyhow::Result<()>,
    serve: fn(Start<'_>) -> anyhow::Result<ExitCode>,
}

impl Agent {
    /// The agent with this data plane.
    pub(crate) const fn of<P: DataPlane>() -> Self {
        Self {
            initialize: initialize::<P>,
            serve: serve::<P>,
        }
    }
}

/// Runs until a signal or a changed configuration ends it. `leftovers`: what earlier agents may have left, of any mode.
pub(crate) fn run(
    args: &ProxyArgs,
    agent_of: fn(Mode) -> anyhow::Result<&'static Agent>,
    leftovers: AllLeftovers,
) -> anyhow::Result<ExitCode> {
    if let Some(path) = &args.write_config_to {
        return write_config(&args.node, path);
    }
    let host_name = config::host_name();
    let config = args.validate(&host_name)?;
    let effective = &config.node.effective;
    logging::start(effective.verbosity, effective.log_format);
    config.node.warnings.iter().for_each(|it| warn!("{it}"));
    error::end_on_panic();
    let init_only = args.init_only == Some(true);
    if !init_only {
        source::check(&config.node.source, args.node.config.as_deref())?;
    }
    let agent = agent_of(effective.mode)?;
    machine::prepare(args, &config, agent)?;
    if init_only {
        info!("the machine is prepared");
        return Ok(ExitCode::SUCCESS);
    }
    (agent.serve)(Start {
        args,
        config: &config,
        host_name: &host_name,
        leftovers,
    })
}

/// The arguments of an agent.
struct Start<'a> {
    args: &'a ProxyArgs,
    config: &'a ProxyConfig,
    host_name: &'a str,
    leftovers: AllLeftovers,
}

/// Prepares the machine for a data plane.
fn prepare<P: DataPlane>(options: &Options<'_>, memory: &Memory) -> anyhow::Result<()> {
    let context = || format!("set the machine up for {}", P::NAME);
    let needed = P::prepare(options).with_context(context)?;
    let wanted = needed.into_iter().map(wanted_by::<P>);
    sysctl::write(wanted, memory).with_context(context)
}

fn wanted_by<P: DataPlane>(sysctl: Sysctl) -> sysctl::Write {
    sysctl::Write {
        path: sysctl.path,
        wanted_by: sysctl::WantedBy::Mode(P::NAME),
        value: sysctl.value,
    }
}

/// Sets sysctls that are safe only with rules. Everything else works without.
fn set_guarded<P: DataPlane>(sysctls: Vec<Sysctl>, memory: &Memory) {
    for sysctl in sysctls {
        if let Err(error) = sysctl::write([wanted_by::<P>(sysctl)], memory) {
            warn!(%error, "{}", sysctl.without);
        }
    }
}

/// Does the work that an agent without privileges cannot do.
fn initialize<P: DataPlane>(options: &Options<'_>, memory: &Memory) -> anyhow::Result<()> {
    prepare::<P>(options, memory)?;
    lend_privileges::<P>();
    let sysctls = opening::interruptible(|| Ok(P::initialize(options)?))?;
    set_guarded::<P>(sysctls, memory);
    Ok(())
}

/// Passes capabilities to the iptables programs, before their first run.
fn lend_privileges<P: DataPlane>() {
    if P::RUNS_PROGRAMS
        && let Err(error) = privileges::lend(privileges::IPTABLES)
    {
        let error = chain(&error);
        warn!(error, "the iptables programs get no capabilities");
    }
}

/// Runs the agent with a data plane.
fn serve<P: DataPlane>(start: Start<'_>) -> anyhow::Result<ExitCode> {
    let Start {
        args,
        config,
        host_name,
        leftovers,
    } = start;
    let (file, effective) = (&config.node.file, &config.node.effective);
    preflight::check_capability()?;
    let web_server = config.web.as_ref().map(WebConfig::server).transpose()?;
    let lock = Lock::take(&config.socket)?;
    let _namespace = NamespaceLock::take()?;
    let options = config.node.options(args.node.count_connections);
    let memory = Memory::beside(&config.socket);
    prepare::<P>(&options, &memory)?;
    lend_privileges::<P>();
    let open = || P::open(&options).with_context(|| format!("open the {} mode", P::NAME));
    let mut plane = opening::interruptible(open)?;
    let (policy_tables, stale_policies) = if args.network_policy == Some(true) {
        (Some(PolicyTables::connect()?), Vec::new())
    } else {
        (None, stale_policies())
    };
    let keep = Arc::from(plane.keep());
    let needs = machine::Needs {
        programs: P::RUNS_PROGRAMS || leftovers.iter().any(|it| it.need_programs()),
        bpf: P::LOADS_BPF || leftovers.iter().any(|it| it.need_bpf()),
        namespaces: P::enters_namespaces(&options),
        dns: config.node.dns.is_some(),
    };
    let config_file = args.node.config.as_deref();
    let corefile = config
        .node
        .dns
        .as_ref()
        .and_then(|it| it.corefile.as_deref());
    let files = [source::files(&config.node.source), config_file, corefile];
    machine::give_up_privileges(needs, &files);
    machine::enter_sandbox(args, config, needs);
    log_mode(config);
    let of_process = Arc::new(Metrics::new(&pages::identity(P::NAME, file)));
    let own = Own::default();
    let budget = Budget::new(descriptors::raise(), own.clone(), of_process.clone());
    let mut dns = dns::NodeDns::start(config, budget.clone())?;

    let node_name = config.node.settings.node_name.clone();
    let health = Arc::new(health(config));
    let health_timeout = config.periods.health_timeout(effective.periods.sync);
    let clock = health.clock(health_timeout, Instant::now());
    let metrics = ServiceMetrics::new(&of_process, P::DESCRIPTION);
    let observed = metrics.clone();
    plane.on_exchange(Box::new(move |it| {
        observed.netlink_request(it.sent, it.received, it.elapsed);
    }));
    if let Some(packets) = plane.packet_counters() {
        metrics.show_packets(packets);
    }
    if let Some(fills) = plane.table_fills() {
        metrics.show_tables(fills);
    }
    if let Some(denials) = plane.denial_counters()? {
        metrics.show_denials(denials);
    }
    if let Some(dns) = &dns {
        of_process.show_beside(dns.registry());
    }
    let (health_checks, health_check_servers) = health_checks();
    let (announce, announcements) = mpsc::channel();
    let mut runtime = Runtime::new(&node_name, P::NAME);
    if let Source::ApiServer {
        kubeconfig: Some(path),
        ..
    } = &config.node.source
    {
        runtime.follows(path);
    }
    let services = runtime.inbox::<sluice_agent::Services<P>>();
    let names = runtime.inbox::<Names>();
    let of_pods = runtime.inbox::<Policies>();
    let unknown_pods = match args.policy_unknown_pods {
        UnknownPodsArg::Accept => UnknownPods::Accept,
        UnknownPodsArg::Drop => UnknownPods::Drop,
    };
    let policies = policy_tables.map(|mut tables| {
        let clock = health.clock(health_timeout, Instant::now());
        if let Some(group) = sluice_policy_agent::listen(of_pods.handle())
            && let Err(error) = tables.log_to(group)
        {
            let why = chain(&error);
            warn!(why, "packets that network policies drop are not logged");
        }
        let to = of_pods.handle();
        let watch = tables.watch(move |change| {
            to.tell(move |it: &mut Policies| it.kernel_changed(change, Instant::now()));
        });
        sluice_policy_agent::show_metrics(&of_process, of_pods.handle());
        if unknown_pods == UnknownPods::Accept {
            warn!("{OPEN_AT_FIRST}");
        }
        let planner = Planner::new(node_name.clone()).with_unknown_pods(unknown_pods);
        let policies = Policies::new(planner, tables, clock)
            .watched(watch)
            .with_bridges()
            .announcing(announce.clone());
        let usual = match args.policy_connections {
            ConnectionsArg::Keep => PolicyConnections::Keep,
            ConnectionsArg::Cut => PolicyConnections::Cut,
        };
        let cutting = sluice_policy_agent::cutting(usual, of_pods.handle());
        let cutting = cutting.context("start cutting connections")?;
        anyhow::Ok(cutting(policies))
    });
    let policies = policies.transpose()?;
    let (proxy, control) = (services.handle(), runtime.control());
    let plans = sluice_agent::Services::plans(proxy.clone());
    if let Some(counters) = plane.counters()? {
        let connections = Connections::start(counters, plans.clone());
        metrics.show_connections(connections.context("start counting connections")?);
    }
    let foreign = proxy.clone();
    let carried = Carried::default();
    let stale = conntrack::spawn(plane.flow_table(), metrics.clone());
    let outputs = Outputs {
        clock,
        health: health.clone(),
        metrics: metrics.clone(),
        health_checks,
        announce: announce.clone(),
        stale: stale.context("start conntrack cleanup")?,
        foreign_changes: Some(Box::new(move |what| {
            foreign.tell(move |it: &mut sluice_agent::Services<P>| it.kernel_changed(what));
        })),
        set_sysctls: Box::new({
            let memory = memory.clone();
            move |sysctls| set_guarded::<P>(sysctls, &memory)
        }),
        take_over: Box::new({
            let carried = carried.clone();
            move |families| {
                let (all, keep) = (leftovers.clone(), Arc::clone(&keep));
                takeover::take_over(all, keep, families, carried.clone());
            }
        }),
        awaited: dns.is_some(),
        carried,
    };
    // kube-proxy's Event on the Node; only an API server takes it.
    let _ = announce.send(starting(&node_name));
    let links = Links {
        health: health.clone(),
        metrics: metrics.clone(),
        announce: announce.clone(),
    };
    let of_policies = policies.is_some().then(|| of_pods.handle());
    let shown = Shown {
        questions: sluice_agent::questions(plans.clone(), metrics.clone())
            .merge(sluice_dns_agent::questions(
                dns.as_ref().map(dns::NodeDns::questions),
            ))
            .merge(sluice_policy_agent::questions(of_policies.clone())),
        page: sluice_agent::page(),
        data: sluice_agent::data(plans, metrics).merge(sluice_policy_agent::data(of_policies)),
    };
    let (to, origin) = (
        proxy.clone(),
        Arc::from(config.socket.display().to_string()),
    );
    let server = Server {
        socket: config.socket.clone(),
        report_socket: Box::new(move |problems| {
            let origin = Arc::clone(&origin);
            to.events([TimedEvent::from(Event::Notice(Notice::Problems {
                origin,
                problems,
            }))]);
        }),
        health_address: effective.health_address,
        metrics_server: pages::metrics_server(P::NAME, effective, file, args.node.flags.given()),
        web_server,
        bind_hard_fail: effective.bind_address_hard_fail,
        node_name: node_name.clone(),
        budget,
        health,
        metrics: of_process.clone(),
        others: vec![Box::new(move |budget| {
            Box::pin(health_check_servers.run(links, budget))
        })],
        announce,
        control: control.clone(),
        programs: Programs {
            running: sluice_plane::running_program,
            end_all: sluice_plane::end_programs,
        },
        shown,
    };
    let _served = server.start(lock)?;
    if let Some(dns) = &mut dns {
        let to = proxy.clone();
        dns.follow(move |it| to.events([TimedEvent::from(Event::Notice(it))]))?;
    }
    let to = proxy.clone();
    if !stale_policies.is_empty() {
        to.events([TimedEvent::from(Event::Notice(Notice::Problems {
            origin: "network policies".into(),
            problems: stale_policies,
        }))]);
    }
    let tell = move |it| to.events([TimedEvent::from(Event::LocalAddresses(it))]);
    let _addresses = Addresses::follow(tell, own, sluice_plane::kube_proxy::DEVICE)?;
    let mut reload = reload::Reloading::new(proxy.clone(), control, effective.clone(), memory);
    let restart = reload.restart();
    let watched = config_watch::watch(args, host_name, config, move |it| reload.apply(it));
    let _config = watched.context("watch the configuration")?;
    let from = &config.node.source;
    let hub = Hub::default();
    let to = proxy.clone();
    let of_plan = match dns {
        Some(_) => wanted::of_plan(&config.node.settings, Services::All),
        None => wanted::of_plan(&config.node.settings, Services::Proxied),
    };
    // The proxy hears a batch first: the names wait for its rules.
    let _of_plan = hub.subscribe(of_plan.with_every_problem(), move |events: Vec<Event>| {
        to.events(events.into_iter().map(TimedEvent::from));
    });
    let _of_names = dns.is_some().then(|| {
        let (wanted, to) = (wanted::Names::of_agent(&node_name), names.handle());
        hub.subscribe(wanted.wants(), move |events| {
            to.events(events.into_iter().filter_map(NameEvent::new));
        })
    });
    let _of_policies = policies.is_some().then(|| {
        let to = of_pods.handle();
        hub.subscribe(
            wanted::of_policies(&node_name, unknown_pods),
            move |events| to.events(events.into_iter().flatten()),
        )
    });
    let _source = source::start(from, &node_name, &hub, announcements, &of_process)?;
    info!(
        version = env!("CARGO_PKG_VERSION"),
        node = &*node_name,
        mode = P::NAME,
        source = %from,
        "started"
    );
    let settings = config.node.settings.clone();
    let consumer = sluice_agent::Services::new(settings, plane, config.periods, outputs);
    runtime.add(services, consumer);
    if let Some(policies) = policies {
        runtime.add(of_pods, policies);
    }
    if let Some(dns) = &dns {
        runtime.add_after(names, dns.names(), &proxy);
    }
    runtime.run();
    if let Some(dns) = dns {
        dns.stop();
    }
    match restart.get() {
        Some(why) => bail!("{why}: start again"),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// The rules of network policies that an earlier agent left, as problems. They stay: what it isolated would be open without
/// them. Where there is no nf_tables there are none.
fn stale_policies() -> Vec<String> {
    let tables = PolicyTables::connect().and_then(|mut it| it.present());
    let problem = |table: String| {
        format!(
            "table {table} of an earlier agent is in force, and this one does not keep it up: start with --network-policy, \
             or remove it with `sluice cleanup` after this agent has ended"
        )
    };
    tables
        .unwrap_or_default()
        .into_iter()
        .map(problem)
        .collect()
}

/// What is not isolated with `--policy-unknown-pods accept`.
const OPEN_AT_FIRST: &str = "a new pod is isolated when the agent hears of it, a moment after it begins: --policy-unknown-pods drop \
                             isolates it at once, where the network plugin takes addresses from spec.podCIDRs of the Node";

/// What differs from the iptables mode, which kube-proxy runs when no mode is set.
const DEFAULT_MODE: &str = "no proxy mode is set: nftables, with the settings of the iptables section; \
     NodePorts answer on every address unless nodePortAddresses says otherwise. Unlike kube-proxy's \
     default, iptables: NodePorts do not answer on 127.0.0.1, no rule accepts packets of Services ahead \
     of a host firewall, forwarded packets that conntrack finds invalid are not dropped, metrics of \
     iptables are absent. --proxy-mode=iptables does as kube-proxy";

fn log_mode(config: &ProxyConfig) {
    let effective = &config.node.effective;
    if effective.mode_is_default {
        info!("{DEFAULT_MODE}");
    }
    // Runbooks look for this line of kube-proxy's.
    info!("Using {} Proxier", effective.mode);
}

/// With an API server, a node without its Node object is not part of the cluster. A folder may have
/// Services and no Node.
fn health(config: &ProxyConfig) -> Health {
    let node = match config.node.source {
        Source::Folder(_) => NodeObject::Optional,
        Source::ApiServer { .. } => NodeObject::Required,
    };
    Health::new(node, Timestamp::now())
}

/// kube-proxy's Event on the Node at start.
fn starting(node_name: &Arc<str>) -> Announcement {
    Announcement {
        about: Reference::cluster_scoped::<Node>(node_name),
        is_warning: false,
        reason: "Starting",
        action: "StartKubeProxy",
        note: format!("Starting Sluice {}", env!("CARGO_PKG_VERSION")),
    }
}

/// Writes the configuration with all defaults, and prints the warnings that an agent logs.
fn write_config(args: &NodeArgs, file: &Path) -> anyhow::Result<ExitCode> {
    let (config, warnings) = args.configuration()?;
    warnings.iter().for_each(|it| error::say(it));
    let name = file.display();
    fs::write(file, encode(&config)).with_context(|| format!("write configuration {name}"))?;
    print(format!("wrote configuration {name}\n"))?;
    Ok(ExitCode::SUCCESS)
}
