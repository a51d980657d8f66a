//! Questions to a running agent. Needs root.

use std::path::Path;
use std::process::{Command, Stdio};

use sluice_lab::{Cluster, Netns, Protocol, Server, eventually, require_netns};

use crate::common::{Agent, Files, SLUICE, WITHIN};

const MANIFESTS: &str = "
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec:
  type: NodePort
  clusterIP: 10.96.0.1
  ports: [{name: http, port: 80, nodePort: 30080}]
---
apiVersion: v1
kind: Service
metadata: {name: empty, namespace: default}
spec:
  clusterIP: 10.96.0.2
  ports: [{port: 80}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: default, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, protocol: TCP, port: 8080}]
endpoints:
- {addresses: [10.244.0.7], nodeName: node-a, zone: z1, targetRef: {kind: Pod, name: web-a}}
- {addresses: [10.244.1.7], conditions: {ready: false}}
";

/// What a command prints to stdout and stderr.
#[track_caller]
fn ask(command: &mut Command, args: &[&str], socket: &Path, code: i32) -> (String, String) {
    let output = command.args(args).arg("--socket").arg(socket).output();
    let output = output.expect("it was built");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    let (out, err) = (text(output.stdout), text(output.stderr));
    assert_eq!(output.status.code(), Some(code), "{args:?}: {out}{err}");
    (out, err)
}

struct World {
    _cluster: Cluster,
    files: Files,
    _agent: Agent,
}

fn world() -> World {
    let cluster = Cluster::builder()
        .node("node-a")
        .build()
        .expect("a cluster");
    let files = Files::new();
    files.write("web.yaml", MANIFESTS);
    let agent = Agent::run(&files, files.proxy(cluster.node("node-a").netns()));
    World {
        _cluster: cluster,
        files,
        _agent: agent,
    }
}

#[test]
fn status_waits_for_the_rules() {
    require_netns!();
    let cluster = Cluster::builder().node("node-a").build();
    let cluster = cluster.expect("a cluster");
    let files = Files::new();
    files.write("web.yaml", MANIFESTS);
    let socket = files.socket();
    let in_vain = ["status", "--wait", "200ms"];
    let (_, none) = ask(&mut Command::new(SLUICE), &in_vain, &socket, 1);
    assert!(none.contains("after 200ms: no agent at"), "{none}");
    let mut waiting = Command::new(SLUICE);
    waiting
        .args(["status", "--wait", "60s", "--socket"])
        .arg(&socket);
    let waiting = waiting
        .stdout(Stdio::piped())
        .spawn()
        .expect("it was built");
    let _agent = Agent::run(&files, files.proxy(cluster.node("node-a").netns()));
    let output = waiting.wait_with_output().expect("it ends");
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(shown.contains("up to date"), "{shown}");
}

#[test]
fn the_running_agent_explains() {
    require_netns!();
    let world = world();
    let explain = |from, to, code| {
        let args = ["explain", from, to];
        // As in `kubectl exec`: nothing but the socket leads to the agent.
        ask(
            &mut Command::new(SLUICE),
            &args,
            &world.files.socket(),
            code,
        )
    };
    let (by_name, _) = explain("node", "web.default.svc.cluster.local", 0);
    assert!(by_name.contains("balance over 1 endpoint"), "{by_name}");
    assert!(by_name.contains("10.244.1.7:8080  out"), "{by_name}");
    let (pod, _) = explain("default/web-a", "default/web:http", 0);
    assert!(pod.starts_with("10.244.0.7 → 10.96.0.1:80/tcp"), "{pod}");
    // The node's addresses are the machine's: no Node object names any.
    let (outside, _) = explain("outside", "default/web", 0);
    assert!(outside.contains(":30080/tcp"), "{outside}");
    assert!(outside.contains("balance over 1 endpoint"), "{outside}");
    let (empty, _) = explain("node", "default/empty", 0);
    let why = "no IPv4 EndpointSlice has the label kubernetes.io/service-name=empty";
    assert!(empty.contains(why), "{empty}");
    let (_, unknown) = explain("node", "default/wbe", 1);
    assert!(unknown.contains("did you mean default/web?"), "{unknown}");
}

/// An agent and a plan of the same manifests on the same machine give the same answers.
#[test]
fn agent_and_manifests_give_one_answer() {
    require_netns!();
    let world = world();
    let netns: &Netns = world._cluster.node("node-a").netns();
    let folder = world.files.manifests();
    let folder = folder.to_str().expect("text");
    for (from, to) in [
        ("node", "default/web"),
        ("outside", "default/web"),
        ("10.244.0.7", "10.96.0.1:81"),
        ("node", "127.0.0.1:30080"),
        ("default/web-a", "10.244.0.7:8080"),
    ] {
        let args = ["explain", from, to];
        let (agent, _) = ask(&mut Command::new(SLUICE), &args, &world.files.socket(), 0);
        let own = ["--manifests", folder, "--hostname-override", "node-a"];
        let args = [&args[..], &own].concat();
        let mut command = netns.command(SLUICE, &[]);
        let (planned, _) = ask(&mut command, &args, &world.files.socket(), 0);
        assert_eq!(agent, planned, "{from} {to}");
    }
}

#[test]
fn status_lists_services_and_shows_one() {
    require_netns!();
    let world = world();
    let status = |args: &[&str], code| {
        let args = [&["status"], args].concat();
        ask(
            &mut Command::new(SLUICE),
            &args,
            &world.files.socket(),
            code,
        )
    };
    let (all, _) = status(&["--services"], 0);
    let expected = "\
service        type       ready  issues  connections  frontends
default/empty  ClusterIP  0/0    0       -            10.96.0.2:80/tcp
default/web    NodePort   1/2    0       -            10.96.0.1:80/tcp, IPv4 NodePort 30080/tcp
";
    assert_eq!(all, expected);
    let (one, _) = status(&["--services", "*/w*"], 0);
    assert_eq!(one.lines().count(), 2, "{one}");
    let (detail, _) = status(&["--service", "default/web"], 0);
    let expected = "\
service   default/web (NodePort)
policies  Cluster, Cluster (internal, external)
slice     default/web-1 (IPv4): http 8080/tcp; 1 of 2 ready

port http (tcp, IPv4): 10.96.0.1:80/tcp, IPv4 NodePort 30080/tcp
  10.96.0.1:80/tcp (ClusterIP, policy Cluster): 1 of 2 endpoints: 10.244.0.7:8080; not ready: 10.244.1.7:8080
  IPv4 NodePort 30080/tcp (NodePort, policy Cluster): 1 of 2 endpoints: 10.244.0.7:8080; not ready: 10.244.1.7:8080
  endpoint              node           zone  pod    conditions  connections  why
  10.244.0.7:8080  in   node-a (here)  z1    web-a  ready       -
  10.244.1.7:8080  out  -              -     -      serving     -            not ready
";
    assert_eq!(detail, expected);
    let (_, unknown) = status(&["--service", "default/api"], 1);
    assert!(
        unknown.contains("there is no Service default/api"),
        "{unknown}"
    );
}

/// The names of the tables of nftables.
fn tables(netns: &Netns) -> String {
    let output = netns.command("nft", &["list", "tables"]).output();
    String::from_utf8(output.expect("nft runs").stdout).expect("text")
}

#[test]
fn a_trace_follows_the_packet_that_is_explained() {
    require_netns!();
    let builder = Cluster::builder().node("node-a").pod("cli", "node-a");
    let cluster = builder.pod("web-1", "node-a").client("client").build();
    let cluster = cluster.expect("a cluster");
    let web = cluster.pod("web-1");
    let _server = Server::start(web.netns(), "web-1", 8080, Protocol::Tcp).expect("a server");
    let files = Files::new();
    let endpoint = web.ipv4().to_string();
    files.write("web.yaml", &MANIFESTS.replace("10.244.0.7", &endpoint));
    let netns = cluster.node("node-a").netns();
    let _agent = Agent::run(&files, files.proxy(netns));
    let before = tables(netns);
    let explain = |args: &[&str], code| {
        let mut command = netns.command(SLUICE, &["explain"]);
        ask(&mut command, args, &files.socket(), code)
    };
    let cli = cluster.pod("cli").ipv4().to_string();
    let (text, _) = explain(&[&cli, "default/web", "--trace"], 0);
    let explained = text
        .find("balance over 1 endpoint")
        .expect("an explanation");
    let delivered = format!("delivered to {endpoint}:8080");
    let delivered = text.find(&delivered).expect("the end of the packet");
    assert!(explained < delivered, "{text}");
    assert!(text.ends_with("answer      connected\n"), "{text}");

    let (json, _) = explain(&["node", "default/web", "--trace", "-o", "json"], 0);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["verdict"], "balance");
    assert_eq!(json["trace"]["end"]["kind"], "delivered");
    assert_eq!(json["trace"]["stages"][0]["hook"], "output");

    let (_, error) = explain(&["outside", "default/web", "--trace"], 1);
    assert!(error.contains("--wait 30s"), "{error}");
    let (_, error) = explain(&["outside", "default/web", "--wait", "30s"], 2);
    assert!(error.contains("--trace"), "{error}");
    let (_, error) = explain(&["node", "default/web", "--trace", "--wait", "30"], 2);
    assert!(error.contains("30s"), "{error}");
    assert_eq!(tables(netns), before);

    // Nothing is left of a command that is killed.
    let args = [
        "explain",
        "outside",
        "default/web",
        "--trace",
        "--wait",
        "1h",
        "--socket",
    ];
    let mut command = netns.command(SLUICE, &args);
    let mut waiting = command.arg(files.socket()).spawn().expect("it was built");
    let armed = || tables(netns).contains("sluice-trace-").then_some(());
    eventually(WITHIN, armed).expect("the table of the trace");
    waiting.kill().expect("it waits");
    waiting.wait().expect("it is our child");
    assert_eq!(tables(netns), before);
}
