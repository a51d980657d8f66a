//! `sluice lab`: a cluster of network namespaces on this machine.
//!
//! ```text
//! up, down, list                    ─▶ the lab's folder and its first process
//! apply, get, scale, drain, ..      ─▶ objects: requests to the lab's API
//! exec, probe, pcap                 ─▶ machines: processes in its namespaces
//! draw, web                         ─▶ pictures of its objects
//! ```

#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "they panic when their reader goes: say, put and tell"
)]

mod args;
mod demo;
mod describe;
mod draw;
mod experiments;
mod machines;
mod manifests;
mod objects;
mod output;
mod pcap;
mod show;
mod web;

use std::io::IsTerminal as _;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::process::{Command as Process, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use nix::unistd::getuid;
use serde_json::{Value, json};
use sluice_cluster::client::Client;
use sluice_cluster::images::StandIns;
use sluice_cluster::lab_dir::{LabDir, Settings, both_families, nobody};
use sluice_cluster::launch::Program;
use sluice_cluster::{alone, host_resolver, identity, probe, serve};
use sluice_config::{Invalid, Mode};
use sluice_lab::{Interrupt, Interrupted};
use sluice_node::output::{Stream, write, write_json, write_raw};
use sluice_node::{WebServer, chain, client};
use sluice_plan::Event;
use sluice_plan::settings::Settings as PlanSettings;
use sluice_source::{Wants, kinds};

use crate::output::say;
pub use args::LabArgs;
use args::{LabCommand, LabProcess, UpArgs};

/// Timeout of a start.
const START: Duration = Duration::from_secs(60);

/// The objects of a plan, all of each kind.
fn wants() -> Wants<Event> {
    Wants::new(Event::Notice)
        .want_all::<kinds::Service>(Event::Service)
        .want_all::<kinds::EndpointSlice>(Event::EndpointSlice)
        .want_all::<kinds::Node>(Event::Node)
        .want_all::<kinds::ServiceCidr>(Event::ServiceCidr)
}

/// Functions of the program that the commands belong to.
#[derive(Clone, Copy, Debug)]
pub struct Host {
    /// Prints one line on stderr.
    pub say: fn(&str),
    /// Starts the log of this process.
    pub start_log: fn(),
    /// Whether an agent could run on this machine in the mode with this name.
    pub check_mode: fn(&str) -> anyhow::Result<()>,
    /// The settings of the plan of an agent: its flags, and the name of its node.
    pub settings: fn(&[String], &str) -> anyhow::Result<PlanSettings>,
    /// A web server at an address, for clients that know the token of the file.
    pub web_server: fn(SocketAddr, Option<PathBuf>) -> anyhow::Result<WebServer>,
}

/// The names of a lab's nodes, each with the status socket of its agent.
///
/// # Errors
///
/// There is no such lab, or it does not answer.
pub fn agent_sockets(lab: &str) -> anyhow::Result<Vec<(String, PathBuf)>> {
    let lab_dir = LabDir::of(lab)?;
    let list = Client::open(&lab_dir)?.get("/api/v1/nodes")?;
    let names = list["items"].as_array().into_iter().flatten();
    let names = names.filter_map(|it| it["metadata"]["name"].as_str());
    let sockets = names.map(|it| (it.to_owned(), lab_dir.agent_socket(it)));
    Ok(sockets.collect())
}

/// Runs a command of the lab.
///
/// # Errors
///
/// The failure of the command; [`Invalid`] when there are several problems.
pub fn run(args: &LabArgs, host: Host) -> anyhow::Result<ExitCode> {
    let code = run_command(args, host)?;
    sluice_node::output::result().context("write the answer")?;
    Ok(code)
}

fn run_command(args: &LabArgs, host: Host) -> anyhow::Result<ExitCode> {
    match &args.command {
        LabCommand::Demo(args) => demo::run(args, host)?,
        LabCommand::Up(args) => up(args, host)?,
        LabCommand::Down(args) if args.all => {
            let all = LabDir::all()?;
            let ended = all.iter().map(down);
            let failed = ended.filter_map(Result::err);
            Invalid::check(failed.map(|it| chain(it.as_ref())).collect())?;
        }
        LabCommand::Down(args) => down(&LabDir::of(&args.lab.name)?)?,
        LabCommand::List => list()?,
        LabCommand::Kubeconfig(lab) => {
            let lab_dir = LabDir::of(&lab.name)?;
            lab_dir.settings()?;
            say!("{}", lab_dir.kubeconfig().display());
        }
        LabCommand::Apply(args) => {
            let client = open(&args.at.lab.name)?;
            manifests::apply(&client, &args.files, &args.at.namespace)?;
        }
        LabCommand::Delete(args) => objects::delete(&open(&args.at.lab.name)?, args)?,
        LabCommand::Get(args) => show::get(&open(&args.at.lab.name)?, args)?,
        LabCommand::Describe(args) => describe::describe(&open(&args.at.lab.name)?, args)?,
        LabCommand::Logs(args) => show::logs(&open(&args.at.lab.name)?, args)?,
        LabCommand::Scale(args) => {
            objects::scale(
                &open(&args.object.at.lab.name)?,
                &args.object,
                args.replicas,
            )?;
        }
        LabCommand::Rollout(args) => objects::rollout(&open(&args.object.at.lab.name)?, args)?,
        LabCommand::Drain(args) => objects::drain(&open(&args.at.lab.name)?, &args.machine)?,
        LabCommand::Uncordon(args) => objects::uncordon(&open(&args.at.lab.name)?, &args.machine)?,
        LabCommand::Kill(args) => return machines::kill(args),
        LabCommand::Start(args) => machines::start(args)?,
        LabCommand::Exec(args) => return machines::exec(&args.machine, &args.command),
        LabCommand::Pcap(args) => return pcap::run(args),
        LabCommand::Probe(args) => return machines::probe(args),
        LabCommand::Draw(args) => draw::run(args, host)?,
        LabCommand::Web(args) => return web::run(args, host),
        LabCommand::Experiment(args) => return experiments::run(args, host),
        LabCommand::Process(process) => return run_process(process, host),
    }
    Ok(ExitCode::SUCCESS)
}

fn run_process(process: &LabProcess, host: Host) -> anyhow::Result<ExitCode> {
    let path = std::env::current_exe().context("find the path of this program")?;
    let with = |name: &str, run: &dyn Fn(Program<'_>) -> anyhow::Result<()>| {
        let lab_dir = LabDir::of(name)?;
        run(Program {
            path: &path,
            lab_dir: &lab_dir,
        })
    };
    match process {
        LabProcess::Supervise(lab) => with(&lab.name, &|it| it.supervise())?,
        LabProcess::Init(lab) => with(&lab.name, &|it| it.init())?,
        LabProcess::Serve(lab) => with(&lab.name, &|it| {
            (host.start_log)();
            let listener = std::io::stdin().as_fd().try_clone_to_owned()?;
            let listener = TcpListener::from(listener);
            serve::serve(it, listener, client::is_synced, move |mode, lab| {
                check_mode(mode, lab, host)
            })
        })?,
        LabProcess::Inside(args) => return Err(args.machine.become_program(&args.command)),
        LabProcess::Pages(lab) => web::serve(&LabDir::of(&lab.name)?, host)?,
        LabProcess::Alone(args) => {
            let status = alone::run(Process::new(&path).arg("lab").args(&args.command))?;
            return Ok(machines::code(status));
        }
        LabProcess::Capture(args) => return pcap::capture(&args.task),
        LabProcess::Lap(args) => experiments::lap(&args.mode, args.services)?,
        LabProcess::Identity(args) => {
            let part = identity::Part {
                name: args.server.clone(),
                pages: args.pages.clone(),
                healthy_for: args.healthy_for.map(Duration::from_secs),
                tells_client: args.tells_client,
            };
            identity::serve(part, &args.ports)?;
        }
        LabProcess::Ask(args) => {
            let answers = probe::ask(&args.request);
            write_json(Stream::Out, &serde_json::to_string(&answers)?);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn open(name: &str) -> anyhow::Result<Client> {
    Client::open(&LabDir::of(name)?)
}

fn up(args: &UpArgs, host: Host) -> anyhow::Result<()> {
    let lab_dir = LabDir::of(&args.lab.name)?;
    let name = lab_dir.name();
    let images = StandIns::read(&args.images, &args.tables).map_err(|problems| Invalid {
        problems,
        exit_code: 1,
    })?;
    let given = Settings {
        mode: (args.proxy_mode.clone()).unwrap_or_else(|| "nftables".to_owned()),
        network: (args.network.clone()).unwrap_or_else(|| "host-gw".to_owned()),
        ip_families: (args.ip_families.clone()).unwrap_or_else(both_families),
        unprivileged: !getuid().is_root(),
        port: 0,
        agent: (args.agent.clone()).unwrap_or_else(|| "lab".to_owned()),
        dns_upstream: (args.dns_upstream.clone()).unwrap_or_else(nobody),
        images,
    };
    if given.asks_host() {
        host_resolver::connect().context("--dns-upstream host")?;
    }
    if let Err(why) = check_mode(&given.mode, &given, host) {
        bail!("--proxy-mode {}: {why}", given.mode);
    }
    // Read every manifest before anything is made.
    let objects = manifests::read(&args.manifests, manifests::built_in)?;
    let _lock = lab_dir.lock()?;
    if lab_dir.init().is_some() {
        bail!(
            "lab {name} runs already: `sluice lab apply` changes it, `sluice lab down --name {name}` ends it, \
             --name starts another"
        );
    }
    let existed = lab_dir.exists();
    if existed {
        let made = lab_dir.settings()?;
        for (flag, given, has) in [
            ("--proxy-mode", &args.proxy_mode, &made.mode),
            ("--network", &args.network, &made.network),
            ("--agent", &args.agent, &made.agent),
            ("--ip-families", &args.ip_families, &made.ip_families),
            ("--dns-upstream", &args.dns_upstream, &made.dns_upstream),
        ] {
            if given.as_ref().is_some_and(|it| it != has) {
                bail!("lab {name} was made with {flag} {has}: `sluice lab down` ends it");
            }
        }
        if !given.images.is_empty() && given.images != made.images {
            bail!("lab {name} was made with other programs for images: `sluice lab down` ends it");
        }
    } else if let Err(error) = lab_dir.write_settings(&given) {
        // The disk may be full. A lab that was not made has no folder.
        lab_dir.remove()?;
        return Err(error);
    }
    let progress = Progress::new();
    progress.say(if existed {
        "starting the lab again that was killed"
    } else {
        "namespaces, API, controllers"
    });
    let interrupt = Interrupt::new()?;
    let made = start(&lab_dir, args, &objects, &progress, &interrupt, host);
    progress.clear();
    let client = match made {
        Ok(client) => client,
        // Remove the lab that was just made; the end of its log is in the message.
        Err(error) if !existed => {
            lab_dir.remove()?;
            return Err(error);
        }
        Err(error) if error.is::<Interrupted>() => {
            lab_dir.end();
            return Err(error.context(format!("lab {name} keeps its objects")));
        }
        Err(error) => return Err(error),
    };
    let nodes = client.get("/api/v1/nodes")?;
    let node = nodes["items"][0]["metadata"]["name"].as_str();
    let settings = lab_dir.settings()?;
    say!(
        "lab {name} is up ({}, {}). Next:",
        settings.mode,
        settings.network
    );
    let flag = match name {
        "lab" => String::new(),
        _ => format!(" --name {name}"),
    };
    say!("  sluice lab get pods -A -o wide{flag}");
    say!(
        "  sluice lab exec {}{flag} -- sluice status",
        node.unwrap_or("NODE")
    );
    say!("  export KUBECONFIG=$(sluice lab kubeconfig{flag})");
    say!("  sluice lab down{flag}");
    Ok(())
}

fn start(
    lab_dir: &LabDir,
    args: &UpArgs,
    objects: &[Value],
    progress: &Progress,
    interrupt: &Interrupt,
    host: Host,
) -> anyhow::Result<Client> {
    let program = std::env::current_exe().context("find the path of this program")?;
    let program = Program {
        path: &program,
        lab_dir,
    };
    program.launch()?;
    let started = || {
        let client = Client::open(lab_dir)?;
        client.get("/api/v1/nodes")?;
        anyhow::Ok(client)
    };
    let client = wait(START, lab_dir, interrupt, started)?;
    let has_node = objects.iter().any(|it| it["kind"] == "Node");
    if !has_node && count_ready(&client, "nodes")?.1 == 0 {
        let nodes: Vec<Value> = (0..args.nodes).map(node).collect();
        manifests::write(&client, &nodes, "default", |_| ())?;
    }
    manifests::write(&client, objects, "default", |_| ())?;
    interrupt.wait(Duration::ZERO)?;
    if args.no_wait {
        return Ok(client);
    }
    let ready = || {
        let counts = ["nodes", "pods"].map(|it| count_ready(&client, it));
        let [nodes, pods] = counts;
        let (nodes, pods) = (nodes?, pods?);
        progress.say(&format!(
            "nodes {}/{}, pods {}/{}",
            nodes.0, nodes.1, pods.0, pods.1
        ));
        for plural in ["deployments", "statefulsets", "daemonsets"] {
            let list = client.get(&format!("/apis/apps/v1/{plural}"))?;
            let mut items = list["items"].as_array().into_iter().flatten();
            items.try_for_each(objects::rolled_out)?;
        }
        if nodes.0 < nodes.1 || pods.0 < pods.1 || nodes.1 == 0 {
            bail!(
                "{} of {} nodes and {} of {} pods are ready",
                nodes.0,
                nodes.1,
                pods.0,
                pods.1
            );
        }
        Ok(())
    };
    match wait(START, lab_dir, interrupt, ready) {
        // A pod may wait for an object that is applied later: the lab stays.
        Err(error) if lab_dir.init().is_some() && !error.is::<Interrupted>() => {
            progress.clear();
            let why = chain(error.as_ref());
            (host.say)(&format!(
                "{why} after {START:?}: see `sluice lab get events`"
            ));
        }
        other => other?,
    }
    Ok(client)
}

/// Why nodes of a lab cannot have a data plane.
fn check_mode(mode: &str, lab: &Settings, host: Host) -> Result<(), String> {
    let modes = Mode::ALL.map(Mode::name);
    if !modes.contains(&mode) {
        return Err(format!("no such mode; there are {}", modes.join(", ")));
    }
    if lab.unprivileged && ["ipvs", "ebpf"].contains(&mode) {
        return Err("needs root; without it there are nftables and iptables".to_owned());
    }
    (host.check_mode)(mode).map_err(|it| chain(it.as_ref()))
}

/// The number of objects that are ready, and of all objects.
fn count_ready(client: &Client, plural: &str) -> anyhow::Result<(usize, usize)> {
    let list = client.get(&format!("/api/v1/{plural}"))?;
    let items = list["items"].as_array().cloned().unwrap_or_default();
    let ready = |it: &&Value| {
        let conditions = it["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        it["status"]["phase"] == "Succeeded"
            || conditions.any(|it| it["type"] == "Ready" && it["status"] == "True")
    };
    Ok((items.iter().filter(ready).count(), items.len()))
}

fn wait<T>(
    within: Duration,
    lab_dir: &LabDir,
    interrupt: &Interrupt,
    mut done: impl FnMut() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let deadline = Instant::now() + sluice_lab::scaled(within);
    loop {
        match done() {
            Ok(it) => return Ok(it),
            Err(error) if lab_dir.init().is_none() => {
                let last = lab_dir.last_words();
                return Err(error).with_context(|| format!("the lab ended: {last}"));
            }
            Err(error) if Instant::now() >= deadline => return Err(error),
            Err(_) => interrupt.wait(Duration::from_millis(20))?,
        }
    }
}

fn node(position: u8) -> Value {
    let letter = match position {
        0..26 => char::from(b'a' + position).to_string(),
        _ => position.to_string(),
    };
    let zone = char::from(b'a' + position % 3);
    let name = format!("node-{letter}");
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "topology.kubernetes.io/zone": format!("zone-{zone}"),
            },
        },
    })
}

fn down(lab_dir: &LabDir) -> anyhow::Result<()> {
    if !lab_dir.dir().exists() {
        bail!("there is no lab {}", lab_dir.name());
    }
    let _lock = lab_dir.lock()?;
    lab_dir.remove()
}

fn list() -> anyhow::Result<()> {
    let mut rows = vec![["NAME", "STATE", "MODE", "NETWORK"].map(str::to_owned)];
    for lab_dir in LabDir::all()? {
        let Ok(settings) = lab_dir.settings() else {
            continue;
        };
        let state = match lab_dir.init() {
            Some(_) if lab_dir.is_full() => "running, its disk is full",
            Some(_) if !is_ready(&lab_dir) => "does not answer",
            Some(_) => "running",
            None => "killed",
        };
        rows.push([
            lab_dir.name().to_owned(),
            state.to_owned(),
            settings.mode,
            settings.network,
        ]);
    }
    show::columns(&rows);
    Ok(())
}

fn is_ready(lab_dir: &LabDir) -> bool {
    Client::open(lab_dir).is_ok_and(|it| it.text("/readyz").is_ok())
}

/// One line on a terminal that replaces the one before. Prints nothing when stderr is no terminal.
struct Progress {
    terminal: bool,
}

impl Progress {
    fn new() -> Self {
        Self {
            terminal: std::io::stderr().is_terminal(),
        }
    }

    fn say(&self, text: &str) {
        if self.terminal {
            self.clear();
            write(Stream::Err, format_args!("{text} .."));
        }
    }

    fn clear(&self) {
        if self.terminal {
            write_raw(Stream::Err, b"\r\x1b[K");
        }
    }
}
