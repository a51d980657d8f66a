//! A node with Services, an agent that serves the page, and connections.

use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sluice_lab::{Cluster, Netns, Probe, Protocol, Server, probe_many};

use crate::common::{Agent, Files};

pub(crate) const URL: &str = "http://127.0.0.1:10261/";
pub(crate) const TOKEN: &str = "correct-horse-battery";
/// The ClusterIP of default/web.
const WEB: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 10);
/// The port of its pods.
const PORT: u16 = 8080;
/// Its pods, and their nodes.
const PODS: [(&str, &str); 4] = [
    ("web-5d9c7-k2x8", "node-a"),
    ("web-5d9c7-m4qz", "node-b"),
    ("web-5d9c7-t7wv", "node-b"),
    ("web-5d9c7-zz9p", "node-c"),
];

pub(crate) struct World {
    cluster: Cluster,
    pub(crate) files: Files,
    _servers: Vec<Server>,
    agent: RefCell<Option<Agent>>,
}

impl World {
    /// `flags` are further ones of the agent.
    pub(crate) fn start(flags: &[&str]) -> Self {
        let names = ["node-a", "node-b", "node-c"];
        let builder = names
            .into_iter()
            .fold(Cluster::builder(), |it, name| it.node(name));
        let builder = PODS
            .into_iter()
            .enumerate()
            .fold(builder, |it, (at, (_, node))| {
                it.pod(&format!("web-{at}"), node)
            });
        let cluster = builder.build().unwrap();
        let pods = cluster.pods().iter();
        let servers =
            pods.map(|it| Server::start(it.netns(), it.name(), PORT, Protocol::Tcp).unwrap());
        let servers = servers.collect();
        let files = Files::new();
        for (name, zone) in names.into_iter().zip(["east", "east", "west"]) {
            let ip = cluster.node(name).ipv4();
            let text = format!(
                "kind: Node\napiVersion: v1\nmetadata: {{name: {name}, labels: {{topology.kubernetes.io/zone: {zone}}}}}\n\
                 status: {{addresses: [{{type: InternalIP, address: {ip}}}]}}\n"
            );
            files.write(&format!("{name}.yaml"), &text);
        }
        let world_text = |ready| web(&cluster, ready);
        files.write("web.yaml", &world_text(true));
        files.write("others.yaml", include_str!("others.yaml"));
        let token = files.0.path().join("token");
        std::fs::write(&token, TOKEN).unwrap();
        let mut proxy = files.proxy(cluster.node("node-a").netns());
        proxy
            .args(["--count-connections", "--web-bind-address=127.0.0.1:10261"])
            .args(flags);
        if flags.contains(&"--web-token-file") {
            proxy.arg(token);
        }
        let agent = Agent::run(&files, proxy);
        Self {
            cluster,
            files,
            _servers: servers,
            agent: RefCell::new(Some(agent)),
        }
    }

    pub(crate) fn netns(&self) -> &Netns {
        self.cluster.node("node-a").netns()
    }

    /// Kills the agent.
    pub(crate) fn stop(&self) {
        self.agent.replace(None);
    }

    /// Sends a signal to the agent.
    pub(crate) fn signal(&self, signal: Signal) {
        let agent = self.agent.borrow();
        let pid = agent.as_ref().expect("it runs").0.id();
        kill(Pid::from_raw(pid.try_into().unwrap()), signal).unwrap();
    }

    /// Writes default/web with its second pod ready or not.
    pub(crate) fn set_ready(&self, ready: bool) {
        self.files.write("web.yaml", &web(&self.cluster, ready));
    }

    /// Asks for a connection where nobody answers.
    pub(crate) fn dial(&self, to: &str) {
        let to = to.parse().unwrap();
        let tries = || TcpStream::connect_timeout(&to, Duration::from_millis(100));
        assert!(self.netns().run(tries).is_err());
    }

    /// Connects to default/web some times.
    pub(crate) fn connect(&self, times: u32) {
        let to = SocketAddr::from((WEB, 80));
        probe_many(self.netns(), Probe::tcp(to), times);
    }
}

/// default/web with its EndpointSlice.
fn web(cluster: &Cluster, second_is_ready: bool) -> String {
    let endpoints = PODS.into_iter().zip(cluster.pods()).enumerate().map(|(at, ((name, node), pod))| {
        let zone = if node == "node-c" { "west" } else { "east" };
        let ready = at != 1 || second_is_ready;
        format!(
            "- {{addresses: [{}], nodeName: {node}, zone: {zone}, conditions: {{ready: {ready}}}, targetRef: {{kind: Pod, name: {name}}}}}\n",
            pod.ipv4()
        )
    });
    let endpoints: String = endpoints.collect();
    format!(
        "kind: Service\napiVersion: v1\nmetadata: {{name: web, namespace: default}}\n\
         spec: {{type: LoadBalancer, clusterIP: {WEB}, ports: [{{name: http, port: 80, nodePort: 30080}}]}}\n\
         status: {{loadBalancer: {{ingress: [{{ip: 203.0.113.10}}]}}}}\n---\n\
         kind: EndpointSlice\napiVersion: discovery.k8s.io/v1\n\
         metadata: {{name: web-x7k2p, namespace: default, labels: {{kubernetes.io/service-name: web}}}}\n\
         addressType: IPv4\nports: [{{name: http, port: {PORT}}}]\nendpoints:\n{endpoints}"
    )
}
