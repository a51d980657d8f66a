//! `sluice explain --live` beside real connections. Needs root.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;

use sluice_lab::{Cluster, Netns, Protocol, Server, Session, require_netns};

use crate::common::{Agent, Files, SLUICE};

/// A Service with one endpoint at this address.
fn manifests(endpoint: Ipv4Addr) -> String {
    format!(
        "
apiVersion: v1
kind: Service
metadata: {{name: web, namespace: default}}
spec:
  type: NodePort
  clusterIP: 10.96.0.1
  ports: [{{name: http, port: 80, nodePort: 30080}}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: web-1, namespace: default, labels: {{kubernetes.io/service-name: web}}}}
addressType: IPv4
ports: [{{name: http, protocol: TCP, port: 8080}}]
endpoints:
- {{addresses: [{endpoint}], nodeName: node-a, targetRef: {{kind: Pod, name: web-1}}}}
"
    )
}

struct World {
    cluster: Cluster,
    files: Files,
    _server: Server,
}

impl World {
    /// A node with one pod behind a Service, and a client.
    fn new() -> Self {
        let builder = Cluster::builder().node("node-a").client("client");
        let cluster = builder.pod("web-1", "node-a").build().expect("a cluster");
        let pod = cluster.pod("web-1");
        let server = Server::start(pod.netns(), "web-1", 8080, Protocol::Tcp);
        let files = Files::new();
        files.write("web.yaml", &manifests(pod.ipv4()));
        Self {
            cluster,
            _server: server.expect("a free port"),
            files,
        }
    }

    fn node(&self) -> &Netns {
        self.cluster.node("node-a").netns()
    }

    /// `sluice explain --live` with the node's agent, or with the plan of its manifests.
    #[track_caller]
    fn explain(&self, from: &str, to: &str, source: &[&str]) -> String {
        let mut command = self
            .node()
            .command(SLUICE, &["explain", "--live", from, to]);
        command
            .args(source)
            .arg("--socket")
            .arg(self.files.socket());
        text(&mut command, 0)
    }

    fn run(&self, program: &str, args: &[&str]) {
        text(&mut self.node().command(program, args), 0);
    }
}

#[track_caller]
fn text(command: &mut Command, code: i32) -> String {
    let output = command.output().expect("the program is installed");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    let all = text(output.stdout) + &text(output.stderr);
    assert_eq!(output.status.code(), Some(code), "{command:?}: {all}");
    all
}

#[track_caller]
fn contains(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

/// In each mode: connections and counters are evidence; then the agent ends, somebody breaks the rules,
/// and the plan of the manifests tells the difference.
fn play(mode: &str, evidence: &[&str], break_it: &[&str], difference: &str, remove: &[&[&str]]) {
    let world = World::new();
    world.run("sysctl", &["-qw", "net.netfilter.nf_conntrack_acct=1"]);
    let mut command = world.files.proxy(world.node());
    command.args(["--proxy-mode", mode, "--count-connections"]);
    let agent = Agent(command.spawn().expect("it was built"));
    world.files.await_status("synced", |it| it.synced);

    let node = world.cluster.node("node-a").ipv4();
    let client = world.cluster.client("client");
    let target = SocketAddr::new(node.into(), 30080);
    let _session = Session::connect(client.netns(), target).expect("the Service answers");
    let live = world.explain("outside", "default/web", &[]);
    let endpoint = format!(" → {}:8080, ESTABLISHED", world.cluster.pod("web-1").ipv4());
    contains(&live, evidence);
    contains(&live, &[&endpoint, "differs   nothing"]);
    let connection = live.lines().find(|it| it.contains("ESTABLISHED"));
    let connection = connection.unwrap_or_default();
    assert!(connection.contains(" packets, "), "{live}");

    drop(agent);
    world.run(break_it[0], &break_it[1..]);
    let folder = world.files.manifests();
    let folder = folder.to_str().expect("text");
    let plan = ["--manifests", folder, "--hostname-override", "node-a"];
    contains(
        &world.explain("outside", "default/web", &plan),
        &[difference],
    );
    for command in remove {
        world.run(command[0], &command[1..]);
    }
    contains(
        &world.explain("node", "10.96.0.1:80", &plan),
        &[
            "this machine has no rules of Sluice and none of kube-proxy",
            "but the kernel leaves the packet alone",
        ],
    );
}

#[test]
fn the_nftables_mode_is_read() {
    require_netns!();
    play(
        "nftables",
        &[
            "element of map ip sluice nodeports           tcp . 30080 : goto nodeport-1 (default/web:http)",
            "tcp . 30080 . 0 : ",
            "  1 packet\n",
        ],
        &["nft", "delete element ip sluice nodeports { tcp . 30080 }"],
        "map ip sluice nodeports has no element tcp . 30080",
        &[&["nft", "flush ruleset"]],
    );
}

#[test]
fn the_iptables_mode_is_read() {
    require_netns!();
    play(
        "iptables",
        &["rule of chain nat KUBE-NODEPORTS", "  1 packet, 60 bytes\n"],
        &["iptables-nft", "-t", "nat", "-F", "KUBE-NODEPORTS"],
        "by the plan this node sends the packet to an endpoint, but the kernel leaves the packet alone",
        &[&["nft", "flush ruleset"]],
    );
}

#[test]
fn a_stale_connection_is_named() {
    require_netns!();
    let world = World::new();
    let agent = Agent::run(&world.files, world.files.proxy(world.node()));
    let client = world.cluster.client("client");
    let target = SocketAddr::new(world.cluster.node("node-a").ipv4().into(), 30080);
    let _session = Session::connect(client.netns(), target).expect("the Service answers");
    drop(agent);
    let pod = world.cluster.pod("web-1").ipv4();
    world
        .files
        .write("web.yaml", &manifests([10, 244, 0, 77].into()));
    let folder = world.files.manifests();
    let folder = folder.to_str().expect("text");
    let plan = ["--manifests", folder, "--hostname-override", "node-a"];
    let live = world.explain("outside", "default/web", &plan);
    contains(
        &live,
        &[
            &format!("the kernel sends packets to {pod}:8080: not so the plan"),
            "the kernel sends no packet to 10.244.0.77:8080: the plan does",
            &format!(" → {pod}:8080 is stale: no such endpoint is in the plan"),
        ],
    );
    let json = [&plan[..], &["-o", "json"]].concat();
    let live = world.explain("outside", "default/web", &json);
    contains(
        &live,
        &[
            "\"verdict\": \"balance\"",
            "\"live\": {",
            "\"differences\": [",
        ],
    );
}

#[test]
fn who_may_not_read_the_kernel_is_told() {
    require_netns!();
    let world = World::new();
    let mut command = world.node().command(
        "setpriv",
        &["--bounding-set=-net_admin", "--inh-caps=-net_admin", SLUICE],
    );
    command.args(["explain", "--live", "node", "default/web", "--manifests"]);
    command.arg(world.files.manifests());
    let text = text(&mut command, 1);
    contains(
        &text,
        &["the kernel shows its rules to root only, or with CAP_NET_ADMIN"],
    );
}
