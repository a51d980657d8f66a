//! `sluice lab demo`: two nodes, a Service, real connections, a pod that dies.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use crate::layout::{beside, heading};
use crate::{
    Agent, Cluster, Hammer, Netns, Node, Pod, Probe, Protocol, Server, Spread, eventually,
};

const CLUSTER_IP: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 10);
const LOAD_BALANCER_IP: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 10);
const NODE_PORT: u16 = 30080;
const PORT: u16 = 80;
const POD_PORT: u16 = 8080;

/// Pods that serve, each with its node.
const WEB: [(&str, &str); 3] = [
    ("web-1", "node-a"),
    ("web-2", "node-a"),
    ("web-3", "node-b"),
];

/// Connections per picture.
const CONNECTIONS: u32 = 300;

/// Width of the bars beside the rules.
const LEFT: usize = 46;

/// Timeout of a change; on an idle machine a change takes milliseconds.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Runs the demonstration with `program` as the agent of each node; `is_ready` says whether the
/// agent with this socket has written its rules.
///
/// # Errors
///
/// The lab could not be built, or traffic does not go where it should.
pub fn demo(program: &Path, is_ready: fn(&Path) -> bool) -> anyhow::Result<()> {
    if !crate::netns_available() {
        bail!("the lab makes network namespaces: run it as root");
    }
    let started = Instant::now();
    let mut demo = Demo::build()?;
    println!(
        "{}",
        heading("A cluster of network namespaces on this machine")
    );
    println!("{}", demo.cluster.drawing());
    println!(
        "{}",
        heading("A Service, as in any cluster (type LoadBalancer, three pods)")
    );
    println!(
        "  ClusterIP {CLUSTER_IP}:{PORT}   NodePort {NODE_PORT}   LoadBalancer {LOAD_BALANCER_IP}:{PORT}"
    );
    demo.start_agents(program, is_ready)?;
    demo.show_frontends()?;
    demo.kill_a_pod()?;
    drop(demo);
    println!(
        "{}",
        heading(&format!(
            "Done in {:.1} s. Nothing is left behind: namespaces, rules and processes are gone.",
            started.elapsed().as_secs_f64()
        ))
    );
    Ok(())
}

/// What the demonstration owns. Agents are dropped before their namespaces.
struct Demo {
    agents: Vec<Agent>,
    servers: BTreeMap<&'static str, Vec<Server>>,
    cluster: Cluster,
    scratch: tempfile::TempDir,
}

impl Demo {
    fn build() -> anyhow::Result<Self> {
        let mut builder = Cluster::builder().node("node-a").node("node-b");
        for (pod, node) in WEB {
            builder = builder.pod(pod, node);
        }
        let cluster = builder
            .pod("shell", "node-a")
            .client("client")
            .build()
            .context("build the lab")?;
        let client = cluster.client("client");
        let to_balancer = IpAddr::from(LOAD_BALANCER_IP).into();
        client.route_via(to_balancer, cluster.node("node-a"))?;
        let mut servers = BTreeMap::new();
        for (pod, _) in WEB {
            let netns = cluster.pod(pod).netns();
            let tcp = Server::start(netns, pod, POD_PORT, Protocol::Tcp)?;
            let udp = Server::start(netns, pod, POD_PORT, Protocol::Udp)?;
            servers.insert(pod, vec![tcp, udp]);
        }
        let scratch = tempfile::tempdir().context("create a folder for manifests")?;
        let demo = Self {
            agents: Vec::new(),
            servers,
            cluster,
            scratch,
        };
        std::fs::create_dir(demo.manifests()).context("create the manifest folder")?;
        demo.write("service.yaml", &service())?;
        demo.write("nodes.yaml", &nodes(&demo.cluster))?;
        demo.write_endpoints(None)?;
        Ok(demo)
    }

    fn manifests(&self) -> PathBuf {
        self.scratch.path().join("manifests")
    }

    /// Writes a new file and renames it over the old one, as editors do.
    fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let draft = self.scratch.path().join(name);
        let place = self.manifests().join(name);
        std::fs::write(&draft, text).with_context(|| format!("write {}", draft.display()))?;
        std::fs::rename(&draft, &place).with_context(|| format!("write {}", place.display()))
    }

    /// `terminating`: the pod that is shutting down.
    fn write_endpoints(&self, terminating: Option<&str>) -> anyhow::Result<()> {
        let pods = WEB.iter().map(|(pod, _)| self.cluster.pod(pod));
        self.write("endpoints.yaml", &endpoints(pods, terminating))
    }

    fn start_agents(&mut self, program: &Path, is_ready: fn(&Path) -> bool) -> anyhow::Result<()> {
        let started = Instant::now();
        let manifests = self.manifests();
        let flags = [
            "--manifests",
            manifests.to_str().context("the path is not UTF-8")?,
            "--cluster-cidr",
            "10.244.0.0/16,fd00:10:244::/56",
            "--healthz-bind-address",
            "",
        ];
        for node in self.cluster.nodes() {
            let scratch = self.scratch.path();
            let agent = Agent::start(program, node, scratch, &flags, is_ready)?;
            self.agents.push(agent);
        }
        println!(
            "  sluice proxy runs on both nodes, rules in place after {} ms",
            started.elapsed().as_millis()
        );
        Ok(())
    }

    fn show_frontends(&self) -> anyhow::Result<()> {
        let node = self.cluster.node("node-a");
        let shell = self.cluster.pod("shell").netns();
        let client = self.cluster.client("client").netns();
        let everyone = WEB.map(|(pod, _)| pod);
        let tour: [(&str, &Netns, Ipv4Addr, u16, Protocol); 4] = [
            (
                "pod shell → ClusterIP, TCP",
                shell,
                CLUSTER_IP,
                PORT,
                Protocol::Tcp,
            ),
            (
                "pod shell → ClusterIP, UDP",
                shell,
                CLUSTER_IP,
                PORT,
                Protocol::Udp,
            ),
            (
                "client → NodePort of node-a",
                client,
                node.ipv4(),
                NODE_PORT,
                Protocol::Tcp,
            ),
            (
                "client → LoadBalancer",
                client,
                LOAD_BALANCER_IP,
                PORT,
                Protocol::Tcp,
            ),
        ];
        for (title, from, ip, port, protocol) in tour {
            let target = SocketAddr::from((ip, port));
            println!(
                "{}",
                heading(&format!("{title}: {CONNECTIONS} connections to {target}"))
            );
            let probe = Probe::new(target, protocol);
            let spread = crate::probe_many(from, probe, CONNECTIONS);
            let source = probe.from(from).source();
            let seen = source.map_or_else(String::new, |it| format!("\nendpoints see {it}"));
            let bars = format!("{spread}{seen}");
            println!(
                "{}",
                indent(&beside(&bars, &rules(node, target, protocol)?, LEFT))
            );
            answered_by(&spread, &everyone)?;
        }
        Ok(())
    }

    fn kill_a_pod(&mut self) -> anyhow::Result<()> {
        let target = SocketAddr::from((CLUSTER_IP, PORT));
        let probe = Probe::tcp(target);
        println!(
            "{}",
            heading("web-2 dies while pod shell connects without pause")
        );
        let hammer = Hammer::start(self.cluster.pod("shell").netns(), probe)?;
        let warm = hammer.attempts() + u64::from(CONNECTIONS);
        eventually(TIMEOUT, || (hammer.attempts() >= warm).then_some(()))
            .context("no connection gets through")?;
        let changed = Instant::now();
        self.write_endpoints(Some("web-2"))?;
        let node = self.cluster.node("node-a");
        let doomed = self.cluster.pod("web-2").ipv4().to_string();
        let moved = eventually(TIMEOUT, || {
            let rules = rules(node, target, Protocol::Tcp).ok()?;
            (!rules.contains(&doomed)).then(|| changed.elapsed())
        });
        let moved = moved.context("web-2 is still in the rules")?;
        println!(
            "  its EndpointSlice says terminating: out of the rules {} ms later",
            moved.as_millis()
        );
        self.servers.remove("web-2");
        self.cluster.remove_pod("web-2")?;
        println!("  the pod is gone");
        let rest = hammer.attempts() + u64::from(CONNECTIONS);
        eventually(TIMEOUT, || (hammer.attempts() >= rest).then_some(()))
            .context("connections stopped when web-2 died")?;
        let report = hammer.stop();
        println!(
            "  {} connections all the while, {} failed, the slowest took {:.1} ms",
            report.attempts,
            report.failures.len(),
            report.slowest.as_secs_f64() * 1000.0
        );
        let shell = self.cluster.pod("shell").netns();
        let spread = crate::probe_many(shell, probe, CONNECTIONS);
        let rules = rules(self.cluster.node("node-a"), target, Protocol::Tcp)?;
        println!(
            "{}",
            heading(&format!("And now: {CONNECTIONS} connections to {target}"))
        );
        println!("{}", indent(&beside(&spread.to_string(), &rules, LEFT)));
        answered_by(&spread, &["web-1", "web-3"])?;
        ensure!(report.failures.is_empty(), "connections failed:\n{report}");
        Ok(())
    }
}

/// The elements of one frontend in the kernel, one `map: element` per line.
fn rules(node: &Node, target: SocketAddr, protocol: Protocol) -> anyhow::Result<String> {
    let output = node
        .netns()
        .command("nft", &["list", "table", "ip", "sluice"])
        .output()
        .context("run nft (Debian package nftables)")?;
    ensure!(
        output.status.success(),
        "nft: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let listing = String::from_utf8_lossy(&output.stdout);
    let protocol = match protocol {
        Protocol::Tcp => "tcp",
        Protocol::Udp => "udp",
        Protocol::Sctp => "sctp",
    };
    let frontend = match target.port() {
        NODE_PORT => format!("{protocol} . {NODE_PORT} "),
        port => format!("{} . {protocol} . {port} ", target.ip()),
    };
    let mut shown = Vec::new();
    let mut map = "";
    for line in listing.lines() {
        if let Some(name) = line.trim().strip_prefix("map ") {
            map = name.trim_end_matches(" {");
        }
        let element = line.trim().trim_start_matches("elements = {").trim();
        if element.starts_with(&frontend) {
            let element = element.trim_end_matches([',', '}', ' ']);
            shown.push(format!("{map}: {element}"));
        }
    }
    Ok(shown.join("\n"))
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
    let lines = text.lines().map(|line| format!("  {line}"));
    lines.collect::<Vec<_>>().join("\n")
}

fn service() -> String {
    format!(
        "apiVersion: v1
kind: Service
metadata:
  name: web
  namespace: default
spec:
  type: LoadBalancer
  clusterIP: {CLUSTER_IP}
  clusterIPs: [{CLUSTER_IP}]
  ports:
  - {{name: http, protocol: TCP, port: {PORT}, nodePort: {NODE_PORT}}}
  - {{name: echo, protocol: UDP, port: {PORT}, nodePort: {NODE_PORT}}}
status:
  loadBalancer:
    ingress:
    - ip: {LOAD_BALANCER_IP}
"
    )
}

fn nodes(cluster: &Cluster) -> String {
    let nodes = cluster.nodes().iter().map(|node| {
        format!(
            "apiVersion: v1
kind: Node
metadata: {{name: {}}}
status:
  addresses:
  - {{type: InternalIP, address: \"{}\"}}
  - {{type: InternalIP, address: \"{}\"}}
",
            node.name(),
            node.ipv4(),
            node.ipv6()
        )
    });
    nodes.collect::<Vec<_>>().join("---\n")
}

fn endpoints<'a>(pods: impl Iterator<Item = &'a Pod>, terminating: Option<&str>) -> String {
    let mut text = format!(
        "apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: web-1
  namespace: default
  labels:
    kubernetes.io/service-name: web
addressType: IPv4
ports:
- {{name: http, protocol: TCP, port: {POD_PORT}}}
- {{name: echo, protocol: UDP, port: {POD_PORT}}}
endpoints:
"
    );
    for pod in pods {
        let gone = terminating == Some(pod.name());
        text += &format!(
            "- addresses: [\"{}\"]
  nodeName: {}
  conditions: {{ready: {}, serving: true, terminating: {gone}}}
  targetRef: {{kind: Pod, name: {}, namespace: default}}
",
            pod.ipv4(),
            pod.node(),
            !gone,
            pod.name()
        );
    }
    text
}
