//! `sluice lab`.

mod experiment;
mod pcap;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand, ValueEnum};
use serde::de::DeserializeOwned;
use sluice_cluster::enter::Inside;
use sluice_cluster::identity::Port;
use sluice_cluster::names::CLIENT;
use sluice_cluster::probe::Request;
use sluice_config::{Mode, interval, time};

pub(crate) use experiment::{AloneArgs, ExperimentArgs, LapArgs, RaceArgs};
pub(crate) use pcap::{CaptureArgs, PcapArgs, PcapFormat, Task, WantedArgs};

/// A lab on this machine.
#[derive(Debug, Args)]
pub struct LabArgs {
    #[command(subcommand)]
    pub(crate) command: LabCommand,
}

/// Commands of the lab.
#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// Start a cluster of network namespaces: nodes with their agents, pods, the Kubernetes API
    #[command(after_help = "Examples:
  sluice lab up
  sluice lab up docs/lab
  sluice lab up --nodes 5 --proxy-mode iptables --network vxlan
  sluice lab up --image agnhost=./agnhost
  sluice lab up --name second

Nodes and pods are network namespaces, and an agent runs on each node. No image is run: a server that says its name and the
client's address plays each container on its ports (80 and 8080 when it declares none), or the command of the Pod's
annotation sluice.dev/command. A Node's annotation sluice.dev/proxy-mode chooses its data plane,
sluice.dev/proxy-flags more flags of its agent.

--image lets a program of this machine stand in for an image. NAME matches the end of the image's repository, whatever its tag
unless NAME has one. Rows of a file of --images are NAME: {program, path, command, args, files}; all but the program may
be left out, and paths of this machine begin in the folder of the file.

As root everything works. Other users get a lab in a user namespace, where the kernel allows it; the modes
ipvs and ebpf need root.")]
    Up(UpArgs),
    /// End a lab and remove all of it
    #[command(after_help = "Examples:
  sluice lab down
  sluice lab down --name second
  sluice lab down --all")]
    Down(DownArgs),
    /// List the labs of this user
    #[command(after_help = "Example:
  sluice lab list")]
    List,
    /// Print the path of the kubeconfig, for kubectl
    #[command(after_help = "Examples:
  export KUBECONFIG=$(sluice lab kubeconfig)
  kubectl get pods -o wide")]
    Kubeconfig(Named),
    /// Create or change objects from manifests
    #[command(after_help = "Examples:
  sluice lab apply -f web.yaml
  sluice lab apply -f docs/lab")]
    Apply(ApplyArgs),
    /// Delete objects by name, or those of manifests
    #[command(after_help = "Examples:
  sluice lab delete pod web-1
  sluice lab delete pod web-1 --grace-period 0
  sluice lab delete -f web.yaml")]
    Delete(DeleteArgs),
    /// Show objects
    #[command(after_help = "Examples:
  sluice lab get pods
  sluice lab get svc -o wide
  sluice lab get endpointslices --watch
  sluice lab get deployment web -o yaml")]
    Get(GetArgs),
    /// Show one object with its events
    #[command(after_help = "Example:
  sluice lab describe pod web-1")]
    Describe(ObjectArgs),
    /// Print what a pod's container wrote
    #[command(after_help = "Examples:
  sluice lab logs web-1
  sluice lab logs web-1 --previous
  sluice lab logs web-1 --follow")]
    Logs(LogsArgs),
    /// Set the number of pods of a Deployment, ReplicaSet or StatefulSet
    #[command(after_help = "Example:
  sluice lab scale deployment/web --replicas 5")]
    Scale(ScaleArgs),
    /// Replace the pods of a workload, or wait for it
    #[command(after_help = "Examples:
  sluice lab rollout restart deployment/web
  sluice lab rollout status deployment/web")]
    Rollout(RolloutArgs),
    /// Take all pods from a node, which gets no new ones
    #[command(after_help = "Examples:
  sluice lab drain node-a
  sluice lab uncordon node-a")]
    Drain(MachineArgs),
    /// Let a node have new pods again
    #[command(after_help = "Example:
  sluice lab uncordon node-a")]
    Uncordon(MachineArgs),
    /// Kill a pod's processes, or cut a node from the network and kill its agent
    #[command(after_help = "Examples:
  sluice lab kill web-1
  sluice lab kill node-b
  sluice lab start node-b")]
    Kill(MachineArgs),
    /// Bring back a node that was killed
    #[command(after_help = "Example:
  sluice lab start node-b")]
    Start(MachineArgs),
    /// Run a command in a node, a pod or the machine `client` outside the cluster
    #[command(after_help = "Examples:
  sluice lab exec node-a -- nft list ruleset
  sluice lab exec node-a -- sluice top
  sluice lab exec web-1 -- ip route
  sluice lab exec client -- curl -s http://192.168.100.10:30080")]
    Exec(ExecArgs),
    /// Send requests from one machine to a Service, pod or address: who answers, how fast, what fails
    #[command(after_help = "Examples:
  sluice lab probe client svc/web -n 1000
  sluice lab probe web-1 svc/web:http
  sluice lab probe node-a pod/web-2
  sluice lab probe client node-a:30080
  sluice lab probe client 10.96.0.10:53/udp

A Service is asked at its ClusterIP; from `client`, which knows no other way, through its load balancer, external IP or
NodePort when it has one.")]
    Probe(ProbeArgs),
    /// Draw the lab, or the way of a connection to one Service: who gets a share, who does not, and why
    #[command(after_help = "Examples:
  sluice lab draw
  sluice lab draw -o svg > lab.svg
  sluice lab draw svc/web
  sluice lab draw svc/web:http --from web-1
  sluice lab draw svc/web --from client --via node-b --probe 300
  sluice lab draw svc/web -o svg > web.svg

Without --probe, shares are those that the rules give: equal parts. A Service is dialled as `sluice lab probe` dials it;
--via dials its NodePort on one node. SVG files have colours for light and dark pages.")]
    Draw(DrawArgs),
    /// Serve a web page of the lab: the lab as a picture, the way to each Service, the page of each agent
    #[command(after_help = "Examples:
  sluice lab web
  sluice lab web --web-bind-address 127.0.0.1:8080
  sluice lab web --web-bind-address 192.0.2.10:8080 --web-token-file token

It serves until Ctrl-C, or until the lab ends.")]
    Web(WebArgs),
    /// Show the packets of nodes, pods or `client`, or write them to a file for tcpdump and Wireshark
    #[command(after_help = "Examples:
  sluice lab pcap node-a
  sluice lab pcap client node-a web-1 --port 30080,8080 --probe client node-a:30080
  sluice lab pcap node-a -w node-a.pcapng -c 100
  sluice lab pcap node-a | tcpdump -nr -
  sluice lab pcap node-a | wireshark -ki -

All interfaces of a machine are seen, so a packet that a node passes on is there twice: as it came, and as it left. The file
names machine and interface of each packet. It goes on until Ctrl-C, --count, or the answer to --probe.")]
    Pcap(PcapArgs),
    /// Run a guided experiment in a lab of its own; without a name, list them
    #[command(after_help = "Examples:
  sluice lab experiment
  sluice lab experiment iptables-chains
  sluice lab experiment rolling-update --keep
  sluice lab experiment race --sizes 10,1000 --svg race.svg

Each is a page of the book; its commands run in a new lab, and what they must show is checked. The race measures the data
planes of this machine, in a few minutes.")]
    Experiment(ExperimentArgs),
    /// Show a Service balancing real connections, and a pod that dies (needs root)
    #[command(after_help = "Examples:
  sluice lab demo
  sluice lab demo --keep
  sluice lab demo --manifests examples
  sluice lab demo --proxy-mode iptables --fast

Ctrl-C ends it at any time; namespaces, rules and processes are then removed.")]
    Demo(DemoArgs),
    #[command(flatten)]
    Process(LabProcess),
}

/// The lab's own processes, which other commands start.
#[derive(Debug, Subcommand)]
pub(crate) enum LabProcess {
    /// Make the namespaces, and start process 1 in them
    #[command(hide = true)]
    Supervise(Named),
    /// Be process 1
    #[command(hide = true)]
    Init(Named),
    /// Serve the API, run controllers, nodes and pods
    #[command(hide = true)]
    Serve(Named),
    /// Become a program in a machine
    #[command(hide = true)]
    Inside(InsideArgs),
    /// Play a container
    #[command(hide = true)]
    Identity(IdentityArgs),
    /// Send requests from here
    #[command(hide = true)]
    Ask(AskArgs),
    /// Serve the web page from inside the lab
    #[command(hide = true)]
    Pages(Named),
    /// Run a command of the lab in namespaces that end with it
    #[command(hide = true)]
    Alone(AloneArgs),
    /// Capture packets from inside the lab
    #[command(hide = true)]
    Capture(CaptureArgs),
    /// Measure one data plane here
    #[command(hide = true)]
    Lap(LapArgs),
}

/// Which lab.
#[derive(Clone, Debug, Args)]
pub(crate) struct Named {
    /// The lab's name
    #[arg(long, value_name = "LAB", default_value = "lab", env = "SLUICE_LAB")]
    pub(crate) name: String,
}

/// Which namespace of the API.
#[derive(Clone, Debug, Args)]
pub(crate) struct Namespaced {
    #[command(flatten)]
    pub(crate) lab: Named,
    /// The namespace of the objects
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    pub(crate) namespace: String,
}

/// `sluice lab up`.
#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    /// Manifests for the start: files or folders
    #[arg(value_name = "PATH")]
    pub(crate) manifests: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) lab: Named,
    /// Data plane of the nodes [default: nftables]
    #[arg(long, value_name = "MODE")]
    #[arg(value_parser = PossibleValuesParser::new(Mode::ALL.map(Mode::name)))]
    pub(crate) proxy_mode: Option<String>,
    /// How packets between pods of different nodes travel [default: host-gw]
    #[arg(long, value_name = "NETWORK", value_parser = ["host-gw", "vxlan"])]
    pub(crate) network: Option<String>,
    /// Who runs the agents of the nodes: the lab, or nobody, so that pods can be the agents (deploy/helm/sluice) [default:
    /// lab]
    #[arg(long, value_name = "AGENT", value_parser = ["lab", "none"])]
    pub(crate) agent: Option<String>,
    /// Families of Services and pods, the primary one first [default: IPv4,IPv6]
    #[arg(long, value_name = "FAMILIES", value_parser = ["IPv4", "IPv6", "IPv4,IPv6", "IPv6,IPv4"])]
    pub(crate) ip_families: Option<String>,
    /// Nodes, when the manifests have none: node-a, node-b, ..
    #[arg(long, value_name = "COUNT", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=90))]
    pub(crate) nodes: u8,
    /// Who answers names outside the cluster: nobody, so that they are refused at once, or the resolver of this machine's
    /// /etc/resolv.conf [default: none]
    #[arg(long, value_name = "RESOLVER", value_parser = ["none", "host"])]
    pub(crate) dns_upstream: Option<String>,
    /// A program of this machine in the place of an image: pods have it as /NAME, and run it when they name no command
    #[arg(long = "image", value_name = "NAME=PROGRAM")]
    pub(crate) images: Vec<String>,
    /// Files with a table of such programs
    #[arg(long = "images", value_name = "FILE")]
    pub(crate) tables: Vec<PathBuf>,
    /// Do not wait until every pod is ready
    #[arg(long)]
    pub(crate) no_wait: bool,
}

/// `sluice lab down`.
#[derive(Debug, Args)]
pub(crate) struct DownArgs {
    #[command(flatten)]
    pub(crate) lab: Named,
    /// Every lab of this user
    #[arg(long)]
    pub(crate) all: bool,
}

/// `sluice lab apply`.
#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    #[command(flatten)]
    pub(crate) at: Namespaced,
    /// Manifests: files or folders
    #[arg(short, long = "filename", value_name = "PATH", required = true)]
    pub(crate) files: Vec<PathBuf>,
}

/// `sluice lab delete`.
#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    pub(crate) at: Namespaced,
    /// Manifests: files or folders
    #[arg(
        short,
        long = "filename",
        value_name = "PATH",
        conflicts_with = "object"
    )]
    pub(crate) files: Vec<PathBuf>,
    /// KIND NAME .. or KIND/NAME ..
    #[arg(value_name = "OBJECT", required_unless_present = "files")]
    pub(crate) object: Vec<String>,
    /// Seconds between SIGTERM and SIGKILL; 0 ends pods at once [default: the pod's]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) grace_period: Option<u32>,
}

/// How objects are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum View {
    /// A table with more columns
    Wide,
    /// The whole objects
    Yaml,
    /// The whole objects
    Json,
    /// KIND/NAME
    Name,
}

/// `sluice lab get`.
#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    #[command(flatten)]
    pub(crate) at: Namespaced,
    /// A kind, and names: `pods`, `pod web-1`, `svc,endpointslices`
    #[arg(value_name = "KIND [NAME]", required = true)]
    pub(crate) object: Vec<String>,
    /// How to show them [default: a table]
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<View>,
    /// All namespaces
    #[arg(short = 'A', long)]
    pub(crate) all_namespaces: bool,
    /// Only objects with these labels: app=web,tier!=test
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub(crate) selector: Option<String>,
    /// Go on with every change
    #[arg(short, long)]
    pub(crate) watch: bool,
}

/// One object.
#[derive(Debug, Args)]
pub(crate) struct ObjectArgs {
    #[command(flatten)]
    pub(crate) at: Namespaced,
    /// KIND NAME or KIND/NAME
    #[arg(value_name = "OBJECT", required = true, num_args = 1..=2)]
    pub(crate) object: Vec<String>,
}

/// `sluice lab logs`.
#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    #[command(flatten)]
    pub(crate) at: Namespaced,
    /// The pod
    #[arg(value_name = "POD")]
    pub(crate) pod: String,
    /// The container [default: the first]
    #[arg(short, long, value_name = "CONTAINER")]
    pub(crate) container: Option<String>,
    /// Of the run before the last restart
    #[arg(short, long)]
    pub(crate) previous: bool,
    /// Go on with what is written
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Only so many lines of the end
    #[arg(long, value_name = "LINES")]
    pub(crate) tail: Option<u32>,
}

/// `sluice lab scale`.
#[derive(Debug, Args)]
pub(crate) struct ScaleArgs {
    #[command(flatten)]
    pub(crate) object: ObjectArgs,
    /// How many pods
    #[arg(long, value_name = "COUNT")]
    pub(crate) replicas: u32,
}

/// `sluice lab rollout`.
#[derive(Debug, Args)]
pub(crate) struct RolloutArgs {
    /// What to do
    #[arg(value_name = "ACTION")]
    pub(crate) action: RolloutAction,
    #[command(flatten)]
    pub(crate) object: ObjectArgs,
    /// How long `status` waits
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = interval)]
    pub(crate) timeout: std::time::Duration,
}

/// What `rollout` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RolloutAction {
    /// Replace every pod
    Restart,
    /// Wait until every pod is the newest and available
    Status,
}

/// A node, pod or client.
#[derive(Debug, Args)]
pub(crate) struct MachineArgs {
    #[command(flatten)]
    pub(crate) at: Namespaced,
    /// A node, a pod, or `client`
    #[arg(value_name = "MACHINE")]
    pub(crate) machine: String,
}

/// `sluice lab exec`.
#[derive(Debug, Args)]
pub(crate) struct ExecArgs {
    #[command(flatten)]
    pub(crate) machine: MachineArgs,
    /// The command
    #[arg(value_name = "COMMAND", last = true, required = true)]
    pub(crate) command: Vec<String>,
}

/// `sluice lab probe`.
#[derive(Debug, Args)]
pub(crate) struct ProbeArgs {
    #[command(flatten)]
    pub(crate) lab: Named,
    /// The namespace of the objects
    #[arg(long, value_name = "NAMESPACE", default_value = "default")]
    pub(crate) namespace: String,
    /// A node, a pod, or `client`
    #[arg(value_name = "FROM")]
    pub(crate) from: String,
    /// svc/NAME or svc/NAME:PORT, pod/NAME or pod/NAME:PORT, NODE:PORT or IP:PORT; with /udp at the end for
    /// datagrams
    #[arg(value_name = "TO")]
    pub(crate) to: String,
    /// How many requests
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 100)]
    pub(crate) count: u32,
    /// How long one request may take
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = interval)]
    pub(crate) timeout: std::time::Duration,
    /// Pause between requests
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = time)]
    pub(crate) pause: std::time::Duration,
    /// Send every datagram from this port
    #[arg(long, value_name = "PORT")]
    pub(crate) source_port: Option<u16>,
    /// For machines: everything that was measured
    #[arg(short, long, value_name = "FORMAT", value_parser = ["json"])]
    pub(crate) output: Option<String>,
}

/// `sluice lab draw`.
#[derive(Debug, Args)]
pub(crate) struct DrawArgs {
    #[command(flatten)]
    pub(crate) at: Namespaced,
    /// svc/NAME or svc/NAME:PORT [default: the whole lab]
    #[arg(value_name = "SERVICE")]
    pub(crate) service: Option<String>,
    /// Who connects: a node, a pod, or `client`
    #[arg(long, value_name = "FROM", default_value = CLIENT, requires = "service")]
    pub(crate) from: String,
    /// The node whose NodePort is dialled
    #[arg(long, value_name = "NODE", requires = "service")]
    pub(crate) via: Option<String>,
    /// Send so many requests: the shares are those of the answers
    #[arg(long, value_name = "COUNT", requires = "service")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) probe: Option<u32>,
    /// How to draw
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: DrawFormat,
}

/// How `draw` draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DrawFormat {
    /// For a terminal
    Text,
    /// An SVG file
    Svg,
    /// What the picture shows, for machines
    Json,
}

/// `sluice lab web`.
#[derive(Debug, Args)]
pub(crate) struct WebArgs {
    #[command(flatten)]
    pub(crate) lab: Named,
    /// Where to serve; port 0 is any free one. Any other address than a loopback one needs --web-token-file
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:0")]
    pub(crate) web_bind_address: SocketAddr,
    /// File with the secret that the page asks for, at least 16 characters
    #[arg(long, value_name = "PATH")]
    pub(crate) web_token_file: Option<PathBuf>,
}

/// `sluice lab inside`.
#[derive(Debug, Args)]
pub(crate) struct InsideArgs {
    #[command(flatten)]
    pub(crate) lab: Named,
    #[arg(value_parser = json::<Inside>)]
    pub(crate) machine: Inside,
    #[arg(last = true)]
    pub(crate) command: Vec<String>,
}

/// `sluice lab identity`.
#[derive(Debug, Args)]
pub(crate) struct IdentityArgs {
    #[arg(long)]
    pub(crate) server: String,
    #[arg(long = "port")]
    pub(crate) ports: Vec<Port>,
    #[arg(long)]
    pub(crate) pages: Option<PathBuf>,
    #[arg(long)]
    pub(crate) healthy_for: Option<u64>,
    #[arg(long)]
    pub(crate) tells_client: bool,
}

/// `sluice lab ask`.
#[derive(Debug, Args)]
pub(crate) struct AskArgs {
    #[arg(value_parser = json::<Request>)]
    pub(crate) request: Request,
}

/// An argument that another process of ours wrote.
fn json<T: DeserializeOwned>(text: &str) -> Result<T, serde_json::Error> {
    serde_json::from_str(text)
}

/// `sluice lab demo`.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// No pauses; also when stdout is no terminal
    #[arg(long)]
    pub(crate) fast: bool,
    /// Keep the cluster up until Enter or Ctrl-C, and say how to enter its namespaces
    #[arg(long)]
    pub(crate) keep: bool,
    /// Data plane of the nodes
    #[arg(long, value_name = "MODE", default_value = "nftables")]
    #[arg(value_parser = PossibleValuesParser::new(Mode::ALL.map(Mode::name)))]
    pub(crate) proxy_mode: String,
    /// Your own Services instead of the built-in one: a pod of the lab gets the address, the ports and
    /// the node's name of each endpoint, and each frontend gets 300 connections
    #[arg(long, value_name = "DIR")]
    pub(crate) manifests: Option<PathBuf>,
    /// Write an animated picture of the demonstration
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) record: Option<PathBuf>,
}
