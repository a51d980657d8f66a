//! What a Service costs a connection.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use sluice_ebpf::Facts;
use sluice_lab::{Cluster, Netns, Protocol, SERVICE_CIDR_V4, Server};
use sluice_nftables::Nftables;
use sluice_plan::Event;
use sluice_plane::ServiceBackend;

use super::Plane;
use super::changes::Node;
use super::measure::{Samples, count, micros};
use super::pins::Pins;
use super::sync::nft_load;
use super::synthetic::{self, ENDPOINT_PORT};

/// Connections of each kind.
const CONNECTIONS: usize = 4000;

/// Prints the table.
pub(super) fn run(sizes: &[u32], plane: Plane) -> anyhow::Result<()> {
    println!(
        "connect() from a pod, in us, p50 of {CONNECTIONS}, the kinds in turn; direct goes to the \
         pod itself. Difference: p50 of each connection less the direct one before it. The peer is \
         one `dnat` rule and nothing else:\n"
    );
    println!("| services | direct | first Service | difference | last Service | difference |");
    println!("| --- | --- | --- | --- | --- | --- |");
    let peer = measure(Rules::OneDnat)?;
    let [direct, dnat, _] = peer.medians;
    let difference = signed(peer.differences[0]);
    println!(
        "| one rule | {} | {} | {difference} | | |",
        micros(direct),
        micros(dnat)
    );
    for &services in sizes {
        let seen = measure(Rules::Services(services, plane))?;
        let [direct, first, last] = seen.medians;
        println!(
            "| {} | {} | {} | {} | {} | {} |",
            count(services),
            micros(direct),
            micros(first),
            signed(seen.differences[0]),
            micros(last),
            signed(seen.differences[1]),
        );
    }
    Ok(())
}

/// The rules of the node.
#[derive(Clone, Copy)]
enum Rules {
    OneDnat,
    Services(u32, Plane),
}

struct Seen {
    /// Direct, first, last.
    medians: [Duration; 3],
    /// First and last less direct, in nanoseconds.
    differences: [i128; 2],
}

fn signed(nanos: i128) -> String {
    format!("{:+.1}", nanos as f64 / 1e3)
}

fn measure(rules: Rules) -> anyhow::Result<Seen> {
    let builder = Cluster::builder().node("node-a");
    let cluster = builder
        .pod("server", "node-a")
        .pod("client", "node-a")
        .build()?;
    let pod = cluster.pod("server");
    let pins = Pins::new();
    let _server = Server::start(pod.netns(), "server", ENDPOINT_PORT, Protocol::Tcp)?;
    let node = cluster.node("node-a").netns();
    let first = synthetic::cluster_ip(0);
    let last = match rules {
        Rules::OneDnat => {
            load_one_dnat(node, pod.ipv4())?;
            first
        }
        Rules::Services(services, plane) => {
            node.run(|| program(services, plane, pod.ipv4().into(), &pins))?;
            synthetic::cluster_ip(services - 1)
        }
    };
    ensure!(
        SERVICE_CIDR_V4.contains(&ipnet::Ipv4Net::from(v4(last)?)),
        "{last} is not routed in the lab"
    );
    let targets = [
        SocketAddr::new(pod.ipv4().into(), ENDPOINT_PORT),
        SocketAddr::new(first, 80),
        SocketAddr::new(last, 80),
    ];
    cluster.pod("client").netns().run(|| connect(targets))
}

fn connect(targets: [SocketAddr; 3]) -> anyhow::Result<Seen> {
    let mut samples = [(); 3].map(|()| Samples::default());
    let mut differences = [(); 2].map(|()| Vec::with_capacity(CONNECTIONS));
    for _ in 0..CONNECTIONS {
        let mut took = [Duration::ZERO; 3];
        for (target, took) in targets.iter().zip(&mut took) {
            let started = Instant::now();
            let stream = TcpStream::connect_timeout(target, Duration::from_secs(2))
                .with_context(|| format!("connect to {target}"))?;
            *took = started.elapsed();
            drop(stream);
        }
        let nanos = took.map(|it| it.as_nanos().cast_signed());
        for (index, difference) in differences.iter_mut().enumerate() {
            difference.push(nanos[index + 1] - nanos[0]);
        }
        samples
            .iter_mut()
            .zip(took)
            .for_each(|(all, it)| all.push(it));
    }
    Ok(Seen {
        medians: samples.map(|mut it| it.percentile(50)),
        differences: differences.map(|mut it| {
            it.sort_unstable();
            it[it.len() / 2]
        }),
    })
}

/// The peer: the smallest ruleset that translates a virtual IP.
fn load_one_dnat(node: &Netns, pod: Ipv4Addr) -> anyhow::Result<()> {
    let first = synthetic::cluster_ip(0);
    let rules = format!(
        "table ip peer {{
            chain c {{
                type nat hook prerouting priority -100;
                ip daddr {first} tcp dport 80 dnat to {pod}:{ENDPOINT_PORT}
            }}
        }}"
    );
    nft_load(node, &rules)
}

fn v4(addr: IpAddr) -> anyhow::Result<Ipv4Addr> {
    match addr {
        IpAddr::V4(it) => Ok(it),
        IpAddr::V6(it) => anyhow::bail!("{it} is not IPv4"),
    }
}

/// The first and the last Service lead to the pod with a server; endpoints of others do not exist.
fn program(services: u32, plane: Plane, pod: IpAddr, pins: &Pins) -> anyhow::Result<()> {
    let mut events = synthetic::cluster(services);
    events.extend([0, services - 1].map(|index| synthetic::slice(index, &[pod])));
    match plane {
        Plane::Nftables(counting) => load(Nftables::connect()?.counting(counting), events),
        Plane::Ebpf => load(super::ebpf::open(pins, Facts::default())?, events),
        Plane::Iptables(variant) => {
            let scratch = tempfile::tempdir().context("create a folder")?;
            load(
                super::iptables::open(variant, &scratch.path().join("lock"))?,
                events,
            )
        }
    }
}

fn load(plane: impl ServiceBackend, events: Vec<Event>) -> anyhow::Result<()> {
    let mut node = Node::new(plane);
    node.absorb(events);
    node.sync().map(drop)
}
