//! A client that connects without pause sees no failure, whatever happens to the agent.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sluice_lab::{Cluster, Hammer, Probe, Protocol, Server, Session, eventually, require_netns};

const SOON: Duration = Duration::from_secs(30);
const VIP: &str = "10.96.0.10:80";
const POD_PORT: u16 = 8080;
/// For a probe on a busy machine.
const PATIENT: Duration = Duration::from_secs(5);

/// A node with an agent, three pods that serve, and a client that never stops.
struct World {
    agent: Option<Child>,
    _servers: Vec<Server>,
    cluster: Cluster,
    scratch: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let mut builder = Cluster::builder().node("node-a").pod("shell", "node-a");
        for pod in ["web-1", "web-2", "web-3"] {
            builder = builder.pod(pod, "node-a");
        }
        let cluster = builder.build().unwrap();
        let servers = ["web-1", "web-2", "web-3"].map(|pod| {
            Server::start(cluster.pod(pod).netns(), pod, POD_PORT, Protocol::Tcp).unwrap()
        });
        let world = Self {
            agent: None,
            _servers: servers.into(),
            cluster,
            scratch: tempfile::tempdir().unwrap(),
        };
        fs::create_dir(world.manifests()).unwrap();
        world.write("web.yaml", &service("web", "10.96.0.10"));
        world.web(&["web-1", "web-2", "web-3"]);
        world
    }

    fn manifests(&self) -> PathBuf {
        self.scratch.path().join("manifests")
    }

    fn write(&self, name: &str, text: &str) {
        let draft = self.scratch.path().join(name);
        fs::write(&draft, text).unwrap();
        fs::rename(draft, self.manifests().join(name)).unwrap();
    }

    /// The pods that serve from now on.
    fn web(&self, pods: &[&str]) {
        let ips = pods
            .iter()
            .map(|pod| self.cluster.pod(pod).ipv4().to_string());
        self.write("web-slice.yaml", &slice("web", &ips.collect::<Vec<_>>()));
    }

    /// `count` Services that have nothing to do with it.
    fn others(&self, count: u32, generation: u32) {
        let mut text = String::new();
        for index in 0..count {
            let name = format!("other-{index}");
            let (high, low) = (1 + index / 250, 1 + index % 250);
            text += &service(&name, &format!("10.96.{high}.{low}"));
            let ip = format!("10.244.{}.{low}", 10 + generation % 100);
            text += &format!("---\n{}---\n", slice(&name, &[ip]));
        }
        self.write("others.yaml", &text);
    }

    fn socket(&self) -> PathBuf {
        self.scratch.path().join("sluice.sock")
    }

    fn sluice(&self, arguments: &[&str]) -> Command {
        let netns = self.cluster.node("node-a").netns();
        netns.command(env!("CARGO_BIN_EXE_sluice"), arguments)
    }

    fn start(&mut self) {
        self.agent = Some(self.spawn());
    }

    fn spawn(&self) -> Child {
        let (manifests, socket) = (self.manifests(), self.socket());
        let mut command = self.sluice(&[
            "proxy",
            "--hostname-override",
            "node-a",
            "--healthz-bind-address",
            "",
            "--manifests",
            manifests.to_str().unwrap(),
            "--socket",
            socket.to_str().unwrap(),
        ]);
        command.stderr(Stdio::null()).spawn().unwrap()
    }

    fn start_and_wait(&mut self) {
        self.start();
        self.settle();
    }

    /// Waits until the agent has nothing left to do.
    fn settle(&self) {
        let socket = self.socket();
        let status = || {
            let mut command = self.sluice(&["status", "-o", "json", "--socket"]);
            let output = command.arg(&socket).output().ok()?;
            let status: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
            (status["synced"] == true).then_some(())
        };
        eventually(SOON, status).expect("the agent is up");
    }

    fn signal(&mut self, signal: Signal) {
        let mut agent = self.agent.take().unwrap();
        kill(Pid::from_raw(agent.id().cast_signed()), signal).unwrap();
        agent.wait().unwrap();
    }

    fn nft(&self, arguments: &[&str]) -> String {
        let output = self
            .cluster
            .node("node-a")
            .netns()
            .command("nft", arguments);
        let output = { output }.output().unwrap();
        assert!(output.status.success(), "nft {arguments:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Waits until the kernel's rules contain a text, or no longer do.
    fn until_rules(&self, contain: bool, text: &str) {
        let holds = || {
            let rules = self.nft(&["list", "ruleset"]);
            (rules.contains(text) == contain).then_some(())
        };
        eventually(SOON, holds).unwrap_or_else(|| panic!("rules contain {text:?}: not {contain}"));
    }

    fn hammer(&self) -> Hammer {
        let target: SocketAddr = VIP.parse().unwrap();
        let probe = Probe::tcp(target).timeout(PATIENT);
        let shell = self.cluster.pod("shell").netns();
        let hammer = Hammer::start(shell, probe).unwrap();
        more(&hammer, 50);
        hammer
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(mut agent) = self.agent.take() {
            let _ = agent.kill();
            let _ = agent.wait();
        }
    }
}

fn service(name: &str, ip: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: default}}\n\
         spec: {{clusterIP: {ip}, clusterIPs: [{ip}], ports: [{{port: 80}}]}}\n"
    )
}

fn slice(name: &str, ips: &[String]) -> String {
    let mut text = format!(
        "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: {name}\n  \
         namespace: default\n  labels: {{kubernetes.io/service-name: {name}}}\n\
         addressType: IPv4\nports: [{{name: \"\", port: {POD_PORT}}}]\nendpoints:\n"
    );
    for ip in ips {
        text += &format!("- {{addresses: [{ip}]}}\n");
    }
    text
}

/// Waits for this many further connections.
fn more(hammer: &Hammer, count: u64) {
    let until = hammer.attempts() + count;
    let reached = || (hammer.attempts() >= until).then_some(());
    eventually(SOON, reached).expect("connections go on");
}

fn unhurt(hammer: Hammer) {
    let report = hammer.stop();
    assert!(report.failures.is_empty(), "{report}");
}

#[test]
fn changes_of_this_and_other_services_hurt_nobody() {
    require_netns!();
    let mut world = World::new();
    world.start_and_wait();
    let hammer = world.hammer();
    let pods = [
        &["web-1", "web-2"][..],
        &["web-3"],
        &["web-1", "web-2", "web-3"],
        &["web-2"],
    ];
    for round in 0..12 {
        world.others(40 + round, round);
        world.web(pods[round as usize % pods.len()]);
        world.until_rules(true, &format!("10.244.{}.1 . {POD_PORT}", 10 + round));
        more(&hammer, 20);
    }
    fs::remove_file(world.manifests().join("others.yaml")).unwrap();
    world.until_rules(false, "other-0");
    unhurt(hammer);
}

#[test]
fn restarts_hurt_nobody_and_cut_no_connection() {
    require_netns!();
    let mut world = World::new();
    world.others(200, 0);
    world.start_and_wait();
    let shell = world.cluster.pod("shell").netns();
    let mut session = Session::connect(shell, VIP.parse().unwrap()).unwrap();
    let hammer = world.hammer();
    for signal in [Signal::SIGTERM, Signal::SIGKILL, Signal::SIGTERM] {
        world.signal(signal);
        more(&hammer, 20);
        world.start_and_wait();
        more(&hammer, 20);
    }
    session.ping().unwrap();
    unhurt(hammer);
}

#[test]
fn a_kill_in_the_middle_of_a_sync_hurts_nobody() {
    require_netns!();
    let mut world = World::new();
    world.start_and_wait();
    let hammer = world.hammer();
    for round in 1..=6 {
        // Thousands of objects to read, plan and write: killed somewhere on the way.
        world.others(1500, round);
        more(&hammer, u64::from(round) * 15);
        world.signal(Signal::SIGKILL);
        world.start();
        more(&hammer, 5);
    }
    world.settle();
    world.until_rules(true, &format!("10.244.{}.1 . {POD_PORT}", 10 + 6));
    unhurt(hammer);
}

#[test]
fn repairs_of_one_service_cut_no_connection_of_others() {
    require_netns!();
    let mut world = World::new();
    world.others(100, 0);
    world.start_and_wait();
    let hammer = world.hammer();
    let deeds = [
        ("delete table ip6 sluice", true, "table ip6 sluice"),
        (
            "delete element ip sluice frontends { 10.96.1.1 . tcp . 80 }",
            true,
            "10.96.1.1 . tcp . 80 comment",
        ),
        (
            "add element ip sluice cluster-ips { 10.96.99.99 }",
            false,
            "10.96.99.99",
        ),
        ("add chain ip sluice strange", false, "strange"),
        (
            "add rule ip sluice unserved counter comment foreign",
            false,
            "foreign",
        ),
    ];
    for (deed, contain, text) in deeds {
        world.nft(&[deed]);
        world.until_rules(contain, text);
        more(&hammer, 50);
    }
    unhurt(hammer);
}

/// Without any NAT chain the kernel translates nothing, not even for connections it knows, so what
/// is under way during a flush may be lost. What comes after the repair is not, and neither is a
/// connection that was silent.
#[test]
fn after_a_flush_the_next_connection_gets_through() {
    require_netns!();
    let mut world = World::new();
    world.others(100, 0);
    world.start_and_wait();
    let shell = world.cluster.pod("shell").netns();
    let mut session = Session::connect(shell, VIP.parse().unwrap()).unwrap();
    for deed in [
        "flush ruleset",
        "delete table ip sluice",
        "flush chain ip sluice services",
    ] {
        world.nft(&[deed]);
        world.until_rules(true, "vmap @frontends");
        let hammer = world.hammer();
        more(&hammer, 50);
        unhurt(hammer);
    }
    session.ping().unwrap();
}

/// A SYN that is sent while there are no rules gets a conntrack entry that leads nowhere, and so
/// would each SYN after it. The repair deletes the entry.
#[test]
fn who_dialled_while_the_rules_were_away_gets_through() {
    require_netns!();
    let mut world = World::new();
    world.start_and_wait();
    world.signal(Signal::SIGKILL);
    world.nft(&["flush ruleset"]);
    // Conntrack goes on without our rules when anybody's rules ask for it.
    world.nft(&["add table ip theirs"]);
    world.nft(&["add chain ip theirs c { type filter hook forward priority 0; }"]);
    world.nft(&["add rule ip theirs c ct state new counter"]);
    let probe = Probe::tcp(VIP.parse().unwrap()).timeout(SOON);
    let shell = world.cluster.pod("shell").netns();
    let outcome = std::thread::scope(|scope| {
        let caller = scope.spawn(|| probe.from(shell));
        let dialled = || {
            let node = world.cluster.node("node-a").netns();
            let arguments = ["-L", "-p", "tcp", "--orig-dst", "10.96.0.10"];
            let entries = node.command("conntrack", &arguments).output().ok()?;
            let entries = String::from_utf8_lossy(&entries.stdout).into_owned();
            entries.contains("[UNREPLIED]").then_some(())
        };
        eventually(SOON, dialled).expect("a SYN into the void");
        let mut agent = world.spawn();
        let outcome = caller.join().unwrap();
        agent.kill().unwrap();
        agent.wait().unwrap();
        outcome
    });
    assert!(outcome.name().is_some(), "{outcome}");
}
