//! The built-in Service: three pods on two nodes. One of them dies while a client connects.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use super::rules::Dialled;
use super::screen::Screen;
use super::{CONNECTIONS, Demo, Dial, From, Options, READ, TIMEOUT, answered_by, indent};
use crate::{Cluster, Hammer, Pod, Probe, Protocol, Server, Spread, eventually};

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

/// Time of one picture of changing bars, and pictures of each state.
const STEP: Duration = Duration::from_millis(500);
const STEPS: usize = 5;

pub(super) fn build(options: &Options<'_>) -> anyhow::Result<Demo> {
    let mut builder = Cluster::builder().node("node-a").node("node-b");
    for (pod, node) in WEB {
        builder = builder.pod(pod, node);
    }
    let cluster = builder
        .pod("shell", "node-a")
        .client("client")
        .build()
        .context("build the lab")?;
    let to_balancer = IpAddr::from(LOAD_BALANCER_IP).into();
    cluster
        .client("client")
        .route_via(to_balancer, cluster.node("node-a"))?;
    let mut servers = Vec::new();
    for (pod, _) in WEB {
        let netns = cluster.pod(pod).netns();
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            let server = Server::start(netns, pod, POD_PORT, protocol)?;
            servers.push((pod.to_owned(), server));
        }
    }
    let scratch = tempfile::tempdir().context("create a folder for manifests")?;
    let manifests = scratch.path().join("manifests");
    std::fs::create_dir(&manifests).context("create the manifest folder")?;
    let demo = Demo {
        agents: Vec::new(),
        servers,
        dials: dials(&cluster),
        node_names: cluster
            .nodes()
            .iter()
            .map(|it| it.name().to_owned())
            .collect(),
        machines: cluster.drawing(),
        cluster,
        scratch,
        mode: options.mode.to_owned(),
        manifests,
        title: "A Service of type LoadBalancer with three pods".to_owned(),
        introduction: format!(
            "  ClusterIP {CLUSTER_IP}:{PORT}   NodePort {NODE_PORT}   \
             LoadBalancer {LOAD_BALANCER_IP}:{PORT}"
        ),
        started: Duration::ZERO,
    };
    write(&demo, "service.yaml", &service())?;
    write(&demo, "nodes.yaml", &nodes(&demo.cluster))?;
    write_endpoints(&demo, None)?;
    Ok(demo)
}

fn dials(cluster: &Cluster) -> Vec<Dial> {
    let node = cluster.node("node-a").ipv4();
    let everyone = WEB.map(|(pod, _)| pod).to_vec();
    let dial = |title: &str, from, ip, port, protocol| Dial {
        title: title.to_owned(),
        from,
        dialled: Dialled {
            target: SocketAddr::from((ip, port)),
            protocol,
            is_node_port: port == NODE_PORT,
        },
        expected: Some(everyone.clone()),
    };
    let (tcp, udp) = (Protocol::Tcp, Protocol::Udp);
    vec![
        dial(
            "From pod shell to the ClusterIP, TCP",
            From::Shell,
            CLUSTER_IP,
            PORT,
            tcp,
        ),
        dial(
            "From pod shell to the ClusterIP, UDP",
            From::Shell,
            CLUSTER_IP,
            PORT,
            udp,
        ),
        dial(
            "From client to the NodePort of node-a",
            From::Client,
            node,
            NODE_PORT,
            tcp,
        ),
        dial(
            "From client to the LoadBalancer address",
            From::Client,
            LOAD_BALANCER_IP,
            PORT,
            tcp,
        ),
    ]
}

/// Ends web-2 as the kubelet does: first its EndpointSlice says so, then the pod goes.
pub(super) fn kill_a_pod(demo: &mut Demo, screen: &mut Screen) -> anyhow::Result<()> {
    let cluster_ip = demo.dials[0].dialled;
    let probe = Probe::tcp(cluster_ip.target).timeout(TIMEOUT);
    screen.page("web-2 dies while pod shell opens connections without pause");
    let hammer = Hammer::start(demo.netns(From::Shell), probe)?;
    let mut bars = Bars::new(&hammer);
    bars.show(
        "three pods, all ready",
        &["web-1", "web-2", "web-3"],
        screen,
    )?;
    let changed = Instant::now();
    write_endpoints(demo, Some("web-2"))?;
    let doomed = demo.cluster.pod("web-2").ipv4().to_string();
    let moved = eventually(TIMEOUT, || {
        let rules = cluster_ip.rules(demo.first_node(), &demo.mode).ok()?;
        (!rules.contains(&doomed)).then(|| changed.elapsed().as_millis())
    });
    let moved = moved.context("web-2 is still in the rules")?;
    let text = format!("web-2 is terminating: out of the rules {moved} ms later");
    bars.show(&text, &["web-1", "web-3"], screen)?;
    demo.servers.retain(|(pod, _)| pod != "web-2");
    demo.cluster.remove_pod("web-2")?;
    bars.show("the pod is gone", &["web-1", "web-3"], screen)?;
    let report = hammer.stop();
    let count = report.attempts;
    screen.say(&format!(
        "\n  {count} connections in all, {} failed, the slowest took {:.1} ms.",
        report.failures.len(),
        report.slowest.as_secs_f64() * 1000.0
    ));
    ensure!(report.failures.is_empty(), "connections failed:\n{report}");
    demo.say_rules(&cluster_ip, screen)?;
    screen.hold(2 * READ)
}

/// The share of each pod in the connections since the last picture.
struct Bars<'a> {
    hammer: &'a Hammer,
    before: Spread,
}

impl<'a> Bars<'a> {
    fn new(hammer: &'a Hammer) -> Self {
        Self {
            hammer,
            before: Spread::default(),
        }
    }

    /// Shows the bars again and again. The last picture must have answers of `expected` only.
    fn show(&mut self, text: &str, expected: &[&str], screen: &mut Screen) -> anyhow::Result<()> {
        screen.say(&format!("  {text}"));
        for step in 1..=STEPS {
            let spread = self.next()?;
            screen.live(&indent(&spread.to_string()));
            screen.hold(STEP)?;
            if step == STEPS {
                answered_by(&spread.without_silent(), expected)?;
            }
        }
        Ok(())
    }

    fn next(&mut self) -> anyhow::Result<Spread> {
        let wanted = self.before.total() + u64::from(CONNECTIONS);
        let now = eventually(TIMEOUT, || {
            let now = self.hammer.spread();
            (now.total() >= wanted).then_some(now)
        });
        let Some(now) = now else {
            bail!("connections stopped:\n{}", self.hammer.spread());
        };
        let spread = now.since(&self.before);
        self.before = now;
        Ok(spread)
    }
}

/// Writes a new file and renames it over the old one, as editors do.
fn write(demo: &Demo, name: &str, text: &str) -> anyhow::Result<()> {
    let (draft, place) = (demo.scratch.path().join(name), demo.manifests.join(name));
    let failed = |path: &Path| format!("write {}", path.display());
    std::fs::write(&draft, text).with_context(|| failed(&draft))?;
    std::fs::rename(&draft, &place).with_context(|| failed(&place))
}

/// `terminating`: the pod that is shutting down.
fn write_endpoints(demo: &Demo, terminating: Option<&str>) -> anyhow::Result<()> {
    let pods = WEB.iter().map(|(pod, _)| demo.cluster.pod(pod));
    write(demo, "endpoints.yaml", &endpoints(pods, terminating))
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
