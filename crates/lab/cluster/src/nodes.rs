//! Nodes: each is a network namespace on the LAN with an agent, and a thread here.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Context;
use k8s_openapi::api::core::v1::Node;
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};
use sluice_lab::HeldNode;
use sluice_reconcile::{Waits, chain};

use crate::enter::Inside;
use crate::lab_dir::{LabDir, write};
use crate::machines::{Addresses, Machines};
use crate::names::{NAMESERVERS, netns_name};
use crate::process::Identity;

/// The annotation of a Node with the mode of its data plane.
pub const MODE: &str = "sluice.dev/proxy-mode";

/// The annotation of a Node with more flags for its agent, separated by spaces.
pub const FLAGS: &str = "sluice.dev/proxy-flags";

/// The annotation that switches a Node off: its cable is unplugged and its agent is killed.
pub const POWER: &str = "sluice.dev/power";

/// The annotation of a pod whose containers are its node's agent: its process, its log and its end are theirs.
pub(crate) const MIRROR: &str = "sluice.dev/mirrors-agent";

/// Address of an agent's web page, on the loopback of its node.
pub const WEB: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 10261);

/// Interval at which the Lease of a node is renewed: a quarter of its duration (`nodeLeaseDurationSeconds`).
const RENEWAL: Duration = Duration::from_secs(10);

/// Interval at which an agent is checked.
const LOOK: Duration = Duration::from_millis(50);

/// First back-off before a dead agent is started again; it doubles each time.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// A node that does not report for this long is NotReady. kube-controller-manager's default is 40 s.
const GRACE: Duration = Duration::from_secs(3);

/// The health of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    /// Its agent has written all rules at least once, or it needs none.
    Ready,
    /// Its agent has not written all rules yet.
    Starting,
    /// Neither a kubelet nor an agent reports.
    Silent,
}

/// The receiver of the reports of nodes.
pub(crate) trait Report: Send + Sync {
    /// Reports the health and the addresses of a node. Returns whether they are written.
    fn health(&self, node: &str, addresses: Addresses, cidrs: [String; 2], health: Health) -> bool;

    /// Says that the node is alive, by its Lease.
    fn renew(&self, node: &str);
    /// Writes an Event about a node.
    fn event(&self, node: &str, reason: &str, message: &str, warning: bool);
}

/// How agents are started.
#[derive(Clone, Debug)]
pub(crate) struct AgentSettings {
    /// The mode of nodes without the annotation.
    pub(crate) mode: String,
    /// Whether nodes have agents: with `lab up --agent none` pods are the agents.
    pub(crate) has_agents: bool,
    /// The kubeconfig for clients on the LAN.
    pub(crate) kubeconfig: PathBuf,
    /// The Corefile of the agents.
    pub(crate) corefile: PathBuf,
    /// Whether the agent behind this socket has written all rules.
    pub(crate) is_synced: fn(&Path) -> bool,
}

/// One thread for each Node object.
pub(crate) struct Nodes {
    machines: Arc<Machines>,
    report: Arc<dyn Report>,
    settings: AgentSettings,
    workers: BTreeMap<String, Known>,
    /// Threads of deleted nodes: a new node of the same name waits until they end.
    ending: BTreeMap<String, JoinHandle<()>>,
}

struct Known {
    /// The number that its addresses are made from.
    position: u8,
    news: Sender<Option<Arc<Node>>>,
    thread: JoinHandle<()>,
}

impl Nodes {
    pub(crate) fn new(
        machines: Arc<Machines>,
        report: Arc<dyn Report>,
        settings: AgentSettings,
    ) -> Self {
        Self {
            machines,
            report,
            settings,
            workers: BTreeMap::new(),
            ending: BTreeMap::new(),
        }
    }

    /// A Node was added or changed.
    pub(crate) fn set(&mut self, node: &Arc<Node>) {
        let name = node.metadata.name.clone().unwrap_or_default();
        if let Some(worker) = self.workers.get(&name) {
            // The worker may have ended.
            let _ = worker.news.send(Some(node.clone()));
            return;
        }
        let position = self.position(&name);
        let (sender, news) = channel();
        let worker = Worker {
            name: name.clone(),
            position,
            node: node.clone(),
            machines: self.machines.clone(),
            report: self.report.clone(),
            settings: self.settings.clone(),
            agent: None,
            starts_at: Instant::now(),
            pauses: Waits::new(FIRST_PAUSE, LONGEST_PAUSE),
            reported: None,
            off_since: None,
            is_plugged: None,
            renewed: None,
        };
        let before = self.ending.remove(&name);
        let thread = thread::spawn(move || {
            // A panic of the thread ends the process.
            drop(before.map(JoinHandle::join));
            worker.run(&news);
        });
        let known = Known {
            position,
            news: sender,
            thread,
        };
        self.workers.insert(name, known);
    }

    /// Removes the nodes that do not exist; called once all Nodes are known.
    pub(crate) fn keep(&mut self, exists: impl Fn(&str) -> bool) {
        let gone = self.workers.keys().filter(|it| !exists(it));
        for name in gone.cloned().collect::<Vec<_>>() {
            self.delete(&name);
        }
    }

    /// The number that the node had under an earlier server, or the lowest free one.
    fn position(&self, name: &str) -> u8 {
        let held = held(self.machines.lab_dir());
        let taken = |it: &u8| {
            let mut known = self.workers.values().map(|it| it.position);
            known.any(|known| known == *it) || held.iter().any(|held| held.position == *it)
        };
        let own = held.iter().find(|it| it.name == name);
        own.map(|it| it.position)
            .unwrap_or_else(|| (0..u8::MAX).find(|it| !taken(it)).unwrap_or(u8::MAX))
    }

    /// Removes a node with its pods.
    pub(crate) fn delete(&mut self, name: &str) {
        if let Some(worker) = self.workers.remove(name) {
            let _ = worker.news.send(None);
            self.ending.insert(name.to_owned(), worker.thread);
        }
    }
}

/// The nodes that an earlier server made.
pub(crate) fn held(lab_dir: &LabDir) -> Vec<HeldNode> {
    let nodes = lab_dir.node("");
    let entries = fs::read_dir(nodes).into_iter().flatten().flatten();
    entries
        .filter_map(|it| {
            let name = it.file_name().into_string().ok()?;
            let position = Record::read(&it.path())?.position;
            Some(HeldNode { name, position })
        })
        .collect()
}

/// The agent of a node, if the lab started one.
pub(crate) fn agent(lab_dir: &LabDir, name: &str) -> Option<Identity> {
    Record::read(&lab_dir.node(name))?.agent
}

/// The log of a node's agent.
pub(crate) fn log(lab_dir: &LabDir, name: &str) -> PathBuf {
    lab_dir.node(name).join("agent.log")
}

/// Whether a node is switched off.
pub(crate) fn is_off(node: &Node) -> bool {
    annotation(node, POWER) == Some("off")
}

/// The mode of a node; `default` without the annotation.
#[must_use]
pub fn mode<'a>(node: &'a Node, default: &'a str) -> &'a str {
    annotation(node, MODE).unwrap_or(default)
}

/// The flags of a node's agent, as `sluice proxy` takes them.
#[must_use]
pub fn agent_flags(node: &Node, default_mode: &str, kubeconfig: &Path) -> Vec<String> {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let cidrs = format!(
        "{},{}",
        sluice_lab::CLUSTER_CIDR_V4,
        sluice_lab::CLUSTER_CIDR_V6
    );
    let own = [
        "--kubeconfig",
        &kubeconfig.to_string_lossy(),
        "--hostname-override",
        name,
        "--proxy-mode",
        mode(node, default_mode),
        "--cluster-cidr",
        &cidrs,
        "--dns",
        "--dns-address",
        &NAMESERVERS.join(","),
        "--network-policy",
        "--web-bind-address",
        &WEB.to_string(),
        // Sysctls of the whole machine are left alone.
        "--conntrack-max-per-core",
        "0",
        "--oom-score-adj",
        "0",
    ];
    let more = annotation(node, FLAGS).unwrap_or_default();
    let all = own.iter().copied().chain(more.split_whitespace());
    let mut all: Vec<String> = all.map(str::to_owned).collect();
    // For `sluice top` and the shares of the pages. No other mode has the choice, and a flag may be given once.
    let counts = "--count-connections";
    if mode(node, default_mode) == "nftables" && all.iter().all(|it| it != counts) {
        all.push(counts.to_owned());
    }
    all
}

fn annotation<'a>(node: &'a Node, name: &str) -> Option<&'a str> {
    let annotations = node.metadata.annotations.as_ref()?;
    annotations.get(name).map(String::as_str)
}

#[derive(Serialize, Deserialize)]
struct Record {
    position: u8,
    agent: Option<Identity>,
    /// The flags for the agent.
    #[serde(default)]
    flags: Vec<String>,
}

impl Record {
    fn read(folder: &Path) -> Option<Self> {
        let text = fs::read(folder.join("record.json")).ok()?;
        serde_json::from_slice(&text).ok()
    }
}

struct Worker {
    name: String,
    position: u8,
    node: Arc<Node>,
    machines: Arc<Machines>,
    report: Arc<dyn Report>,
    settings: AgentSettings,
    agent: Option<Agent>,
    /// When the next agent starts.
    starts_at: Instant,
    pauses: Waits,
    reported: Option<Health>,
    off_since: Option<Instant>,
    /// Whether the cable is plugged in; `None` when unknown.
    is_plugged: Option<bool>,
    /// When the Lease was renewed last.
    renewed: Option<Instant>,
}

struct Agent {
    process: Identity,
    /// `None` for an agent that an earlier server started.
    child: Option<Child>,
    /// The flags that the agent was started with.
    flags: Vec<String>,
    is_synced: bool,
}

impl Worker {
    fn run(mut self, news: &Receiver<Option<Arc<Node>>>) {
        loop {
            if let Err(error) = self.act() {
                let why = chain(error.as_ref());
                self.report.event(&self.name, "NodeFailed", &why, true);
                self.starts_at = Instant::now() + self.pauses.take();
            }
            match news.recv_timeout(LOOK) {
                Ok(Some(node)) => self.node = node,
                Ok(None) => return self.remove(),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn act(&mut self) -> anyhow::Result<()> {
        let exists = |it: &sluice_lab::Node| it.name() == self.name;
        if !self.machines.lock().nodes().iter().any(exists) {
            if self.starts_at > Instant::now() {
                return Ok(());
            }
            self.machines.lock().add_node(&self.name, self.position)?;
            self.write_record()?;
            self.tell(Health::Starting);
        }
        let power = !is_off(&self.node);
        if self.is_plugged != Some(power) {
            self.machines.lock().set_cable(&self.name, power)?;
            self.is_plugged = Some(power);
        }
        if !power {
            self.without_power();
            return Ok(());
        }
        if self.off_since.take().is_some() {
            self.starts_at = Instant::now();
        }
        if self.renewed.is_none_or(|it| it.elapsed() >= RENEWAL) {
            self.report.renew(&self.name);
            self.renewed = Some(Instant::now());
        }
        if !self.settings.has_agents {
            self.tell(Health::Ready);
            return Ok(());
        }
        self.keep_agent()
    }

    fn without_power(&mut self) {
        let since = match self.off_since {
            Some(since) => since,
            None => {
                self.agent = self.agent.take().or_else(|| self.adopt());
                self.end_agent(Signal::SIGKILL);
                *self.off_since.insert(Instant::now())
            }
        };
        if since.elapsed() >= GRACE {
            self.tell(Health::Silent);
        }
    }

    fn keep_agent(&mut self) -> anyhow::Result<()> {
        if self.agent.is_none() {
            self.agent = self.adopt();
        }
        let (wanted, socket) = (self.flags(), self.socket());
        if let Some(agent) = &mut self.agent {
            let ended = match &mut agent.child {
                Some(child) => child.try_wait().context("wait for the agent")?,
                None => None,
            };
            if ended.is_some() || !agent.process.is_running() {
                let how = ended.map_or_else(|| "killed".to_owned(), |it| it.to_string());
                let why = format!("the agent ended ({how}), starting it again");
                self.report.event(&self.name, "AgentEnded", &why, true);
                self.agent = None;
                self.starts_at = Instant::now() + self.pauses.take();
            } else if agent.flags != wanted {
                let why = "its flags changed, starting the agent again";
                self.report.event(&self.name, "AgentChanged", why, false);
                self.end_agent(Signal::SIGTERM);
            } else if agent.is_synced || (self.settings.is_synced)(&socket) {
                agent.is_synced = true;
                self.pauses.reset();
                self.tell(Health::Ready);
            }
        }
        if self.agent.is_none() && self.starts_at <= Instant::now() {
            self.agent = Some(self.start(wanted)?);
            self.write_record()?;
        }
        Ok(())
    }

    fn adopt(&self) -> Option<Agent> {
        let record = Record::read(&self.folder())?;
        let process = record.agent.filter(Identity::is_running)?;
        Some(Agent {
            process,
            child: None,
            flags: record.flags,
            is_synced: false,
        })
    }

    fn start(&self, flags: Vec<String>) -> anyhow::Result<Agent> {
        let run = self.folder().join("run");
        let path = log(self.machines.lab_dir(), &self.name);
        let log = File::options().create(true).append(true).open(&path);
        let log = log.with_context(|| path.display().to_string())?;
        let (name, sluice) = (&self.name, self.machines.program());
        let inside = Inside {
            netns: netns_name(name),
            hostname: name.clone(),
            run: Some(run),
            resolv_conf: Some(self.machines.lab_dir().resolv_conf_of_nodes()),
            ..Inside::default()
        };
        let mut command = self.machines.command(&inside, sluice);
        command.arg("proxy").args(&flags);
        let child = command
            .process_group(0)
            .stdin(std::process::Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("start the agent")?;
        let process = Identity::of(child.id()).context("the agent ended at once")?;
        Ok(Agent {
            process,
            child: Some(child),
            flags,
            is_synced: false,
        })
    }

    fn flags(&self) -> Vec<String> {
        let settings = &self.settings;
        let mut flags = agent_flags(&self.node, &settings.mode, &settings.kubeconfig);
        let corefile = settings.corefile.to_string_lossy().into_owned();
        // Flags of the annotation come later, and win.
        flags.splice(0..0, ["--dns-corefile".to_owned(), corefile]);
        flags
    }

    fn end_agent(&mut self, signal: Signal) {
        let Some(mut agent) = self.agent.take() else {
            return;
        };
        agent.process.signal(signal);
        let ended = sluice_lab::eventually(Duration::from_secs(10), || {
            (!agent.process.is_running()).then_some(())
        });
        if ended.is_none() {
            agent.process.signal(Signal::SIGKILL);
        }
        // Reap the child.
        drop(agent.child.as_mut().map(Child::wait));
        self.reported = None;
    }

    fn remove(mut self) {
        self.end_agent(Signal::SIGTERM);
        let removed = self.machines.lock().remove_node(&self.name);
        if let Err(error) = removed {
            tracing::warn!(%error, node = %self.name, "cannot be removed");
        }
        // The folder has the log and the socket.
        let _ = fs::remove_dir_all(self.folder());
    }

    fn tell(&mut self, health: Health) {
        if self.reported == Some(health) {
            return;
        }
        let found = {
            let cluster = self.machines.lock();
            let node = cluster.nodes().iter().find(|it| it.name() == self.name);
            node.map(|it| {
                let cidrs = [it.pod_cidr_v4().to_string(), it.pod_cidr_v6().to_string()];
                let addresses = [it.ipv4().into(), it.ipv6().into()];
                (self.machines.in_order(addresses), cidrs)
            })
        };
        if let Some((addresses, cidrs)) = found {
            let written = self.report.health(&self.name, addresses, cidrs, health);
            self.reported = written.then_some(health);
        }
    }

    fn write_record(&self) -> anyhow::Result<()> {
        let record = Record {
            position: self.position,
            agent: self.agent.as_ref().map(|it| it.process.clone()),
            flags: self
                .agent
                .as_ref()
                .map_or_else(Vec::new, |it| it.flags.clone()),
        };
        let folder = self.folder();
        // `/run/sluice` of the node, for its agent and for commands in the node.
        let run = folder.join("run");
        fs::create_dir_all(&run).with_context(|| run.display().to_string())?;
        write(&folder.join("record.json"), &serde_json::to_vec(&record)?)
    }

    fn folder(&self) -> PathBuf {
        self.machines.lab_dir().node(&self.name)
    }

    fn socket(&self) -> PathBuf {
        self.machines.lab_dir().agent_socket(&self.name)
    }
}
