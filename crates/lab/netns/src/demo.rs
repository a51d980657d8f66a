//! `sluice lab demo`: nodes, Services, real connections, and a pod that dies.

mod folder;
mod rules;
mod screen;
mod svg;
mod web;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

pub use folder::{Address, Endpoint, Folder, Frontend};
pub use screen::Pace;

use crate::{Agent, Cluster, Netns, Node, Probe, Server, Spread};
use rules::Dialled;
use screen::Screen;

/// Connections per picture.
const CONNECTIONS: u32 = 300;

/// Timeout of a change; on an idle machine a change takes milliseconds.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Time to read a page.
const READ: Duration = Duration::from_secs(5);

/// The choices of the demonstration.
#[derive(Debug)]
pub struct Options<'a> {
    /// The agent of each node.
    pub program: &'a Path,
    /// Whether the agent with this socket has written its rules.
    pub is_ready: fn(&Path) -> bool,
    /// The value of `--proxy-mode`.
    pub mode: &'a str,
    /// Whether there are pauses.
    pub pace: Pace,
    /// Whether the cluster stays until the user ends it.
    pub keep: bool,
    /// The SVG file to write.
    pub record: Option<&'a Path>,
    /// The user's Services, instead of the built-in one.
    pub folder: Option<Folder>,
}

/// Runs the demonstration.
///
/// # Errors
///
/// The lab could not be built, the user interrupts, or traffic to the built-in Service does not go where
/// it should.
pub fn demo(options: &Options<'_>) -> anyhow::Result<()> {
    if !crate::netns_available() {
        bail!("the lab makes network namespaces: run it as root");
    }
    ensure!(
        options.mode != "ebpf",
        "the demonstration shows rules, and the ebpf mode has none: choose another --proxy-mode"
    );
    let mut screen = Screen::new(options.pace)?;
    let mut demo = match &options.folder {
        None => web::build(options)?,
        Some(folder) => folder::build(folder, options)?,
    };
    screen.page("A cluster on this machine: network namespaces, real packets");
    screen.say(&demo.machines);
    screen.hold(READ)?;
    screen.page(&demo.title);
    screen.say(&demo.introduction);
    demo.start_agents(options, &screen)?;
    screen.say(&format!(
        "  sluice proxy runs on each node (mode {}). All rules were in the kernel\n  \
         {} ms after the start of the processes.",
        demo.mode,
        demo.started.as_millis()
    ));
    screen.hold(READ)?;
    for dial in &demo.dials {
        demo.show(dial, &mut screen)?;
        screen.hold(READ)?;
    }
    if options.folder.is_none() {
        web::kill_a_pod(&mut demo, &mut screen)?;
    }
    if options.keep {
        screen.page("The cluster stays up. Press Enter or Ctrl-C to end it");
        screen.say(&demo.ways_in());
        screen.hold(READ)?;
        screen.interrupt.wait_for_end()?;
    }
    drop(demo);
    screen.page("Done. Namespaces, rules and processes are gone");
    screen.hold(READ)?;
    if let Some(path) = options.record {
        let text = svg::document(screen.frames());
        std::fs::write(path, text).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

/// A running cluster with its Services. Agents are dropped before their namespaces.
struct Demo {
    agents: Vec<Agent>,
    /// Servers, each with its pod.
    servers: Vec<(String, Server)>,
    cluster: Cluster,
    scratch: tempfile::TempDir,
    mode: String,
    manifests: PathBuf,
    /// The name of each Node object, in the order of the cluster's nodes.
    node_names: Vec<String>,
    /// The cluster as a picture or a list.
    machines: String,
    title: String,
    introduction: String,
    dials: Vec<Dial>,
    /// From the start of the agents until all rules are written.
    started: Duration,
}

/// Connections to one frontend.
#[derive(Clone, Debug)]
struct Dial {
    title: String,
    from: From,
    dialled: Dialled,
    /// The pods that must answer, and no others; `None` for any result.
    expected: Option<Vec<&'static str>>,
}

/// A client.
#[derive(Clone, Copy, Debug)]
enum From {
    /// The pod `shell`, on the first node.
    Shell,
    /// The machine `client`, outside the cluster.
    Client,
}

impl Demo {
    fn start_agents(&mut self, options: &Options<'_>, screen: &Screen) -> anyhow::Result<()> {
        let started = Instant::now();
        let manifests = self.manifests.to_str().context("the path is not UTF-8")?;
        for (node, name) in self.cluster.nodes().iter().zip(&self.node_names) {
            let flags = [
                "--manifests",
                manifests,
                "--hostname-override",
                name,
                "--proxy-mode",
                &self.mode,
                "--cluster-cidr",
                "10.244.0.0/16,fd00:10:244::/56",
                "--nodeport-addresses",
                "0.0.0.0/0,::/0",
                "--healthz-bind-address",
                "",
                "--metrics-bind-address",
                "",
            ];
            let (scratch, is_ready) = (self.scratch.path(), options.is_ready);
            let start = || Agent::start(options.program, node, scratch, &flags, is_ready);
            self.agents.push(screen.interrupt.unblocked(start)??);
        }
        self.started = started.elapsed();
        Ok(())
    }

    fn first_node(&self) -> &Node {
        &self.cluster.nodes()[0]
    }

    fn netns(&self, from: From) -> &Netns {
        match from {
            From::Shell => self.cluster.pod("shell").netns(),
            From::Client => self.cluster.client("client").netns(),
        }
    }

    /// Connects, and shows who answered and why.
    fn show(&self, dial: &Dial, screen: &mut Screen) -> anyhow::Result<()> {
        let Dialled {
            target, protocol, ..
        } = dial.dialled;
        let from = self.netns(dial.from);
        screen.page(&format!("{}: {target}", dial.title));
        let mut probe = Probe::new(target, protocol);
        // A frontend that drops is a second for each request. An answer may come late on a machine that does other work.
        if dial.expected.is_some() {
            probe = probe.timeout(TIMEOUT);
        }
        let first = probe.from(from);
        let count = if first.name().is_some() {
            CONNECTIONS
        } else {
            3
        };
        let spread = crate::probe_many(from, probe, count);
        screen.say(&format!(
            "  {count} connections:\n{}",
            indent(&spread.to_string())
        ));
        if let Some(source) = first.source() {
            screen.say(&format!("  The pod sees the client address {source}."));
        }
        if spread.failures() > 0 {
            screen.say(&format!("  The reason:\n    {}", self.question(dial)));
        }
        self.say_rules(&dial.dialled, screen)?;
        match &dial.expected {
            Some(expected) => answered_by(&spread, expected),
            None => Ok(()),
        }
    }

    fn say_rules(&self, dialled: &Dialled, screen: &mut Screen) -> anyhow::Result<()> {
        let (node, command) = (self.first_node(), dialled.command(&self.mode));
        let rules = dialled.rules(node, &self.mode)?;
        let found = if rules.is_empty() {
            "(no rule)"
        } else {
            &rules
        };
        screen.say(&format!(
            "\n  The kernel of {} has (from `{command}`):\n{}",
            node.name(),
            indent(found)
        ));
        Ok(())
    }

    /// The command that explains what happens to these packets.
    fn question(&self, dial: &Dial) -> String {
        let client = self.cluster.client("client");
        let from = match (dial.from, dial.dialled.target.ip()) {
            (From::Shell, IpAddr::V4(_)) => self.cluster.pod("shell").ipv4().to_string(),
            (From::Shell, IpAddr::V6(_)) => self.cluster.pod("shell").ipv6().to_string(),
            (From::Client, IpAddr::V4(_)) => client.ipv4().to_string(),
            (From::Client, IpAddr::V6(_)) => client.ipv6().to_string(),
        };
        format!(
            "sluice explain {from} {}/{} --manifests {} --hostname-override {}",
            dial.dialled.target,
            dial.dialled.protocol(),
            self.manifests.display(),
            self.node_names[0]
        )
    }

    /// How to enter the namespaces and talk to the agents.
    fn ways_in(&self) -> String {
        let first = self.first_node();
        let socket = self.agents.first().map_or(Path::new(""), Agent::socket);
        let dial = self.dials.first().map(|it| it.dialled);
        let connect = dial.map_or_else(String::new, |it| {
            let (ip, port) = (it.target.ip(), it.target.port());
            let protocol = if it.protocol == crate::Protocol::Udp {
                "udp"
            } else {
                "tcp"
            };
            format!("\n  connect, in that shell:  head -1 </dev/{protocol}/{ip}/{port}")
        });
        format!(
            "  a shell in the pod:      ip netns exec {} bash{connect}\n  \
             a shell on a node:       ip netns exec {} bash\n  \
             what its agent holds:    sluice status --socket {}\n  \
             what the agents follow:  {}",
            self.netns(From::Shell).name(),
            first.netns().name(),
            socket.display(),
            self.manifests.display()
        )
    }
}

fn answered_by(spread: &Spread, expected: &[&str]) -> anyhow::Result<()> {
    let names: Vec<&str> = spread.answered.keys().map(String::as_str).collect();
    ensure!(
        names == expected && spread.failures() == 0,
        "expected answers of {expected:?} only:\n{spread}"
    );
    Ok(())
}

fn indent(text: &str) -> String {
    let lines = text.lines().map(|line| format!("    {line}"));
    lines.collect::<Vec<_>>().join("\n")
}
