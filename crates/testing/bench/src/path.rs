//! What a Service costs the packets of a connection, in each mode and in one run.

use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use sluice_ebpf::{Facts, SocketSetup, create_tunnel};
use sluice_lab::{Cluster, Netns, OwnCgroup, Pod};
use sluice_model::{Change, Node};
use sluice_nftables::{Counting, Nftables};
use sluice_plan::Event;
use sluice_plan::settings::{DirectReturn, Settings};
use sluice_plane::{EbpfOptions, Proxy, ServiceBackend, Sockets};

use super::changes;
use super::ebpf;
use super::measure::count;
use super::pins::Pins;
use super::synthetic::{self, ENDPOINT_PORT, SERVICE_PORT};
use super::traffic::{self, Costs, Server};

/// Services, one of which is measured.
const SERVICES: u32 = 10_000;
/// In which the ways take turns.
const ROUNDS: u32 = 3;
const NODE_PORT: NonZeroU16 = NonZeroU16::new(30_080).expect("it is not zero");

/// Who leads the client to the pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Nobody,
    Nftables,
    Packets,
    Sockets,
    DirectReturn,
}

/// Where the client is, and where the pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    PodToPod,
    NodeToPod,
    OutsideToPod,
    /// By a node that has not the pod.
    OutsideToOtherNode,
}

impl Way {
    const ALL: [(Self, &str, &[By]); 4] = [
        (
            Self::PodToPod,
            "pod, ClusterIP",
            &[By::Nobody, By::Nftables, By::Packets, By::Sockets],
        ),
        (
            Self::NodeToPod,
            "node, ClusterIP",
            &[By::Nobody, By::Nftables, By::Packets, By::Sockets],
        ),
        (
            Self::OutsideToPod,
            "outside, NodePort",
            &[By::Nobody, By::Nftables, By::Packets],
        ),
        (
            Self::OutsideToOtherNode,
            "outside, NodePort, pod of another node",
            &[By::Nobody, By::Nftables, By::Packets, By::DirectReturn],
        ),
    ];

    fn client(self, cluster: &Cluster) -> &Netns {
        match self {
            Self::PodToPod => cluster.pod("client").netns(),
            Self::NodeToPod => cluster.node("node-a").netns(),
            Self::OutsideToPod | Self::OutsideToOtherNode => cluster.client("outside").netns(),
        }
    }

    fn server(self, cluster: &Cluster) -> &Pod {
        match self {
            Self::OutsideToOtherNode => cluster.pod("far"),
            Self::PodToPod | Self::NodeToPod | Self::OutsideToPod => cluster.pod("near"),
        }
    }

    /// The nodes that packets pass.
    fn nodes(self) -> &'static [&'static str] {
        match self {
            Self::OutsideToOtherNode => &["node-a", "node-b"],
            Self::PodToPod | Self::NodeToPod | Self::OutsideToPod => &["node-a"],
        }
    }

    fn target(self, by: By, cluster: &Cluster) -> SocketAddr {
        match self {
            _ if by == By::Nobody => (self.server(cluster).ipv4(), ENDPOINT_PORT).into(),
            Self::PodToPod | Self::NodeToPod => {
                (synthetic::cluster_ip(SERVICES - 1), SERVICE_PORT).into()
            }
            Self::OutsideToPod | Self::OutsideToOtherNode => {
                (cluster.node("node-a").ipv4(), NODE_PORT.get()).into()
            }
        }
    }
}

impl By {
    fn name(self) -> &'static str {
        match self {
            Self::Nobody => "direct",
            Self::Nftables => "nftables",
            Self::Packets => "ebpf, packets",
            Self::Sockets => "ebpf, sockets",
            Self::DirectReturn => "ebpf, direct server return",
        }
    }

    /// Starts this data plane in the calling thread's network namespace, where anybody has to.
    fn start(
        self,
        node: &str,
        events: Vec<Event>,
        pins: &Pins,
        cgroup: Option<PathBuf>,
    ) -> anyhow::Result<Box<dyn Send>> {
        let settings = Settings::for_node(node);
        match self {
            Self::Nobody => Ok(Box::new(())),
            Self::Nftables => {
                let plane = Nftables::connect()?.counting(Counting::Nothing);
                load(plane, settings, events)
            }
            Self::Packets => load(ebpf::open(pins, Facts::default())?, settings, events),
            Self::Sockets => {
                let sockets = SocketSetup {
                    led: Sockets::All,
                    ended: Sockets::Off,
                    cgroup,
                };
                let plane = ebpf::open(pins, Facts::default())?.with_sockets(sockets);
                load(plane, settings, events)
            }
            Self::DirectReturn => {
                let facts = Facts {
                    tunnel_ifindex: create_tunnel(EbpfOptions::default().tunnel_port)?,
                    tunnel_port: EbpfOptions::default().tunnel_port,
                    ..Facts::default()
                };
                let settings = Settings {
                    direct_return: DirectReturn::All,
                    ..settings
                };
                load(ebpf::open(pins, facts)?, settings, events)
            }
        }
    }
}

/// Prints the table.
pub(super) fn run() -> anyhow::Result<()> {
    println!(
        "A client and a pod, among {} Services, the best of {ROUNDS} rounds: {}.\n",
        count(SERVICES),
        traffic::WHAT
    );
    println!("| client | by | {} |", traffic::COLUMNS);
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    for (way, client, all) in Way::ALL {
        let mut best = vec![None; all.len()];
        for _ in 0..ROUNDS {
            for (best, &by) in best.iter_mut().zip(all) {
                let costs = measure(way, by).with_context(|| format!("{client}, {by:?}"))?;
                *best = Some(best.map_or(costs, |it: Costs| it.best(costs)));
            }
        }
        for (by, best) in all.iter().zip(best.into_iter().flatten()) {
            println!("| {client} | {} | {best} |", by.name());
        }
    }
    println!();
    Ok(())
}

fn measure(way: Way, by: By) -> anyhow::Result<Costs> {
    let builder = Cluster::builder().node("node-a").node("node-b");
    let builder = builder.pod("near", "node-a").pod("client", "node-a");
    let cluster = builder.pod("far", "node-b").client("outside").build()?;
    let pins = Pins::new();
    let cgroup = match by {
        By::Sockets => {
            let root = sluice_ebpf::cgroup_root();
            let root = root.context("cgroups of version 2 are not mounted")?;
            Some(OwnCgroup::enter(&root)?)
        }
        By::Nobody | By::Nftables | By::Packets | By::DirectReturn => None,
    };
    let folder = cgroup.as_ref().map(|it| it.path().to_owned());
    let mut planes = Vec::new();
    for name in way.nodes() {
        let events = objects(&cluster, way.server(&cluster));
        let start = || by.start(name, events, &pins, folder.clone());
        planes.push(cluster.node(name).netns().run(start)?);
    }
    let server = Server::start(way.server(&cluster).netns())?;
    let target = way.target(by, &cluster);
    let costs = way
        .client(&cluster)
        .run(|| traffic::measure(target, &server))?;
    drop(planes);
    Ok(costs)
}

/// The nodes, and Services of which the last leads to the pod.
fn objects(cluster: &Cluster, pod: &Pod) -> Vec<Event> {
    let mut events = synthetic::cluster(SERVICES);
    events.extend(cluster.nodes().iter().map(|it| {
        Event::Node(Change::Set(Arc::new(Node {
            name: it.name().into(),
            addresses: vec![it.ipv4().into()],
            zone: None,
            pod_cidrs: Vec::new(),
            leaving: false,
        })))
    }));
    events.extend(synthetic::exposed(
        SERVICES - 1,
        NODE_PORT,
        pod.ipv4().into(),
        pod.node(),
    ));
    events
}

fn load<P: ServiceBackend + Send + 'static>(
    plane: P,
    settings: Settings,
    events: Vec<Event>,
) -> anyhow::Result<Box<dyn Send>>
where
    changes::Node<P>: Send,
{
    let mut node = changes::Node(Proxy::new(settings, plane));
    node.absorb(events);
    node.sync()?;
    Ok(Box::new(node))
}
