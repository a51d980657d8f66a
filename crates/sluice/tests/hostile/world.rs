//! A node with the agent, three pods, and two machines outside.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sluice_agent::status::Status;
use sluice_lab::{
    Agent, Cluster, Netns, Outcome, Probe, Protocol, Server, eventually, write_program,
};
use sluice_node::client::{self, is_synced};
use tempfile::TempDir;

use crate::common::get;

/// Longest wait for anything; machines of others are slow.
pub(crate) const WITHIN: Duration = Duration::from_secs(180);
/// Port of the agent's metrics.
const METRICS: u16 = 10249;
const SLUICE: &str = env!("CARGO_BIN_EXE_sluice");
/// ClusterIP of the victim.
pub(crate) const VICTIM: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 10);
/// ClusterIP of the bystander.
pub(crate) const BYSTANDER: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 11);
/// NodePort of the victim.
pub(crate) const NODE_PORT: u16 = 30080;
/// Health check node port of the bystander.
pub(crate) const HEALTH_CHECK: u16 = 32500;
/// What pods listen on.
const POD_PORT: u16 = 8080;

/// The data plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Nftables,
    Iptables,
    Ebpf,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::Nftables => "nftables",
            Self::Iptables => "iptables",
            Self::Ebpf => "ebpf",
        }
    }

    /// What is written together at most, in objects, if the largest port has this many. In the nftables mode a port is written
    /// in parts.
    pub(crate) fn part(self, largest: usize) -> usize {
        match self {
            Self::Nftables => 40_960,
            Self::Ebpf => 32_768 + largest.max(32_768),
            Self::Iptables => 4096 + largest.max(4096),
        }
    }

    /// A number for this mode: that of the attack's name in nftables, often less in iptables, where
    /// `iptables-restore` takes minutes for as many rules.
    pub(crate) fn pick(self, nftables: usize, iptables: usize) -> usize {
        match self {
            Self::Nftables | Self::Ebpf => nftables,
            Self::Iptables => iptables,
        }
    }
}

pub(crate) struct World {
    pub(crate) mode: Mode,
    pub(crate) cluster: Cluster,
    scratch: TempDir,
    agent: Option<Agent>,
    _servers: Vec<Server>,
}

impl World {
    pub(crate) fn new(mode: Mode) -> Self {
        let mut builder = Cluster::builder().node("node-a");
        for client in ["client", "prober", "attacker"] {
            builder = builder.client(client);
        }
        let pods = ["one", "two", "bystander", "thief"];
        for pod in pods {
            builder = builder.pod(pod, "node-a");
        }
        let cluster = builder.build().expect("root");
        let server = |pod| Server::start(cluster.pod(pod).netns(), pod, POD_PORT, Protocol::Tcp);
        let servers = pods.map(|it| server(it).expect("a free port"));
        let mut world = Self {
            mode,
            cluster,
            scratch: tempfile::tempdir().expect("a temporary directory"),
            agent: None,
            _servers: servers.into(),
        };
        fs::create_dir(world.manifests()).expect("an empty directory");
        fs::create_dir(world.drafts()).expect("an empty directory");
        world.write("node.yaml", world.node_object());
        world.write("victim.yaml", VICTIM_SERVICE);
        world.write("bystander.yaml", world.bystander());
        world.point("one");
        world.start();
        crate::hostile::robbery::assert_addresses(&world);
        world
    }

    fn start(&mut self) {
        let program = self.scratch.path().join("agent");
        let lock = self.scratch.path().join("xtables.lock");
        let lines = format!(
            "export XTABLES_LOCKFILE={}\nexec {SLUICE} \"$@\"",
            lock.display()
        );
        write_program(&program, &lines).expect("writable");
        let node = self.cluster.node("node-a");
        if self.mode == Mode::Iptables {
            run(
                node.netns(),
                &["iptables-nft", "-t", "mangle", "-N", "KUBE-IPTABLES-HINT"],
            );
        }
        let manifests = self.manifests().display().to_string();
        let mut flags = vec![
            "--manifests",
            &manifests,
            "--proxy-mode",
            self.mode.name(),
            "-v",
            "6",
        ];
        if self.mode == Mode::Ebpf {
            // Packets are what is attacked, and sockets that are led to endpoints send none to Services.
            flags.extend(["--ebpf-sockets", "off", "--cluster-cidr", "10.244.0.0/16"]);
        }
        let agent = Agent::start(&program, node, self.scratch.path(), &flags, is_synced);
        self.agent = Some(agent.expect("the agent starts"));
    }

    fn agent(&self) -> &Agent {
        self.agent.as_ref().expect("started by new")
    }

    fn node_object(&self) -> String {
        let address = self.cluster.node("node-a").ipv4();
        format!(
            "
apiVersion: v1
kind: Node
metadata: {{name: node-a, labels: {{topology.kubernetes.io/zone: zone-a}}}}
status: {{addresses: [{{type: InternalIP, address: {address}}}]}}
"
        )
    }

    fn bystander(&self) -> String {
        let pod = self.cluster.pod("bystander").ipv4();
        format!(
            "
apiVersion: v1
kind: Service
metadata: {{name: web, namespace: bystander, creationTimestamp: 2024-01-01T00:00:00Z}}
spec:
  type: LoadBalancer
  clusterIP: {BYSTANDER}
  externalTrafficPolicy: Local
  healthCheckNodePort: {HEALTH_CHECK}
  ports: [{{port: 80, targetPort: {POD_PORT}, nodePort: 30081}}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: web-1, namespace: bystander, labels: {{kubernetes.io/service-name: web}}}}
addressType: IPv4
ports: [{{name: '', port: {POD_PORT}}}]
endpoints: [{{addresses: [{pod}], nodeName: node-a}}]
"
        )
    }

    pub(crate) fn manifests(&self) -> PathBuf {
        self.scratch.path().join("manifests")
    }

    fn drafts(&self) -> PathBuf {
        self.scratch.path().join("drafts")
    }

    /// Replaces a manifest in one step.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let draft = self.drafts().join(name);
        fs::write(&draft, content).expect("writable");
        fs::rename(draft, self.manifests().join(name)).expect("the same file system");
    }

    /// Removes a manifest, if it is there.
    pub(crate) fn remove(&self, name: &str) {
        // It may be gone.
        let _ = fs::remove_file(self.manifests().join(name));
    }

    /// Makes a pod the victim's only endpoint.
    pub(crate) fn point(&self, pod: &str) {
        self.serve(&[pod]);
    }

    /// Makes pods the victim's endpoints.
    pub(crate) fn serve(&self, pods: &[&str]) {
        let addresses: Vec<_> = pods
            .iter()
            .map(|it| {
                format!(
                    "{{addresses: [{}], nodeName: node-a}}",
                    self.cluster.pod(it).ipv4()
                )
            })
            .collect();
        let endpoints = addresses.join(", ");
        let slice = format!(
            "
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: web-1, namespace: victim, labels: {{kubernetes.io/service-name: web}}}}
addressType: IPv4
ports: [{{name: '', port: {POD_PORT}}}]
endpoints: [{endpoints}]
"
        );
        self.write("victim-slice.yaml", slice);
    }

    /// What answers the client on this address.
    pub(crate) fn ask(&self, ip: Ipv4Addr, port: u16) -> Outcome {
        let probe = Probe::tcp(SocketAddr::from((ip, port)));
        let client = self.cluster.client("client").netns();
        probe.timeout(Duration::from_secs(5)).from(client)
    }

    pub(crate) fn node(&self) -> Ipv4Addr {
        self.cluster.node("node-a").ipv4()
    }

    /// The answer to a request to a server of the agent.
    #[track_caller]
    pub(crate) fn get(&self, from: &Netns, port: u16, path: &str) -> String {
        Self::get_of(from, (self.node(), port).into(), path)
    }

    /// The agent's metrics.
    #[track_caller]
    pub(crate) fn metrics(&self) -> String {
        let node = self.cluster.node("node-a").netns();
        Self::get_of(node, (Ipv4Addr::LOCALHOST, METRICS).into(), "/metrics")
    }

    #[track_caller]
    fn get_of(from: &Netns, to: SocketAddr, path: &str) -> String {
        let asked = eventually(WITHIN, || {
            get(from, to, path, WITHIN).filter(|it| !it.is_empty())
        });
        asked.unwrap_or_else(|| panic!("no answer to {path} at {to}"))
    }

    pub(crate) fn status(&self) -> Option<Status> {
        client::get(self.agent().socket(), "/status").ok()
    }

    /// Waits until the status is as wanted.
    #[track_caller]
    pub(crate) fn await_status(&self, what: &str, wanted: impl Fn(&Status) -> bool) -> Status {
        let mut last = None;
        let found = eventually(WITHIN, || {
            last = self.status();
            last.clone().filter(|it| wanted(it))
        });
        found.unwrap_or_else(|| panic!("{what}: {last:#?}\n{}", self.tail()))
    }

    fn log_path(&self) -> PathBuf {
        self.scratch.path().join("node-a.log")
    }

    /// Everything that the agent has logged, from a byte on.
    pub(crate) fn log(&self, from: usize) -> String {
        let log = fs::read(self.log_path()).expect("the agent writes it");
        String::from_utf8_lossy(&log[from.min(log.len())..]).into_owned()
    }

    pub(crate) fn log_length(&self) -> usize {
        let metadata = fs::metadata(self.log_path()).expect("the agent writes it");
        usize::try_from(metadata.len()).expect("it fits into memory")
    }

    /// The end of the log.
    pub(crate) fn tail(&self) -> String {
        let log = self.log(0);
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }

    /// The most memory that the agent had, in KiB.
    pub(crate) fn memory(&self) -> usize {
        let path = format!("/proc/{}/status", self.agent().pid());
        let status = fs::read_to_string(Path::new(&path)).expect("it runs");
        let peak = status.lines().find_map(|it| it.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|it| it.split_whitespace().next());
        peak.expect("listed").parse().expect("a number")
    }

    /// All rules in the kernel, in an order that does not depend on that of their writing. Comments
    /// are left out: large clusters have none.
    pub(crate) fn rules(&self) -> Vec<String> {
        let node = self.cluster.node("node-a").netns();
        let text = match self.mode {
            Mode::Nftables | Mode::Ebpf => run(node, &["nft", "--stateless", "list", "ruleset"]),
            Mode::Iptables => {
                run(node, &["iptables-nft-save"]) + &run(node, &["ip6tables-nft-save"])
            }
        };
        let lines = text.split(['\n', ',', '{', '}']).map(without_comment);
        let mut lines: Vec<String> = lines.filter(|it| !it.is_empty()).collect();
        lines.sort_unstable();
        lines
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if self.mode == Mode::Ebpf {
            // Pinned programs and maps would outlive the namespace.
            self.agent = None;
            let node = self.cluster.node("node-a").netns();
            let _ = node.command(SLUICE, &["cleanup"]).output();
        }
    }
}

fn without_comment(line: &str) -> String {
    let line = line.trim();
    if line.starts_with('#') {
        return String::new();
    }
    let mut words = Vec::new();
    let mut rest = line.split(' ');
    while let Some(word) = rest.next() {
        if word == "--comment" || word == "comment" {
            if let Some(text) = rest.next()
                && !(text.starts_with('"') && text.len() > 1 && text.ends_with('"'))
                && text.starts_with('"')
            {
                let _ = rest.by_ref().find(|it| it.ends_with('"'));
            }
        } else if word != "-m" {
            words.push(word);
        }
    }
    words.join(" ")
}

/// Runs a program in a machine; its output.
pub(crate) fn run(netns: &Netns, words: &[&str]) -> String {
    let output = netns.command(words[0], &words[1..]).output();
    let output = output.expect("installed");
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

const VICTIM_SERVICE: &str = "
apiVersion: v1
kind: Service
metadata: {name: web, namespace: victim, creationTimestamp: 2025-01-01T00:00:00Z}
spec:
  type: NodePort
  clusterIP: 10.96.0.10
  ports: [{port: 80, targetPort: 8080, nodePort: 30080}]
";
