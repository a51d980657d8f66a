//! What a Service costs a connection.

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use sluice_core::plan::Planner;
use sluice_core::reconcile::Reconciler;
use sluice_core::settings::Settings;
use sluice_lab::{Cluster, Protocol, SERVICE_CIDR_V4, Server};
use sluice_nftables::Nftables;

use super::measure::{Samples, count, micros};
use super::synthetic::{self, ENDPOINT_PORT};

/// Connections of each kind.
const CONNECTIONS: usize = 4000;

/// Prints the table.
pub(super) fn run(sizes: &[u32]) -> anyhow::Result<()> {
    println!(
        "connect() from a pod, p50 in us of {CONNECTIONS}, the three kinds in turn; direct goes to the pod itself:\n"
    );
    println!("| services | direct | first Service | last Service | difference |");
    println!("| --- | --- | --- | --- | --- |");
    for &services in sizes {
        let [direct, first, last] = one_size(services)?;
        let worst = first.max(last);
        let difference = match worst.checked_sub(direct) {
            Some(more) => format!("+{}", micros(more)),
            None => format!("-{}", micros(direct - worst)),
        };
        println!(
            "| {} | {} | {} | {} | {difference} |",
            count(services),
            micros(direct),
            micros(first),
            micros(last),
        );
    }
    Ok(())
}

/// Medians of direct, first and last.
fn one_size(services: u32) -> anyhow::Result<[Duration; 3]> {
    let builder = Cluster::builder().node("node-a");
    let cluster = builder
        .pod("server", "node-a")
        .pod("client", "node-a")
        .build()?;
    let pod = cluster.pod("server");
    let _server = Server::start(pod.netns(), "server", ENDPOINT_PORT, Protocol::Tcp)?;
    let node = cluster.node("node-a").netns();
    node.run(|| program(services, pod.ipv4().into()))?;
    let last = synthetic::cluster_ip(services - 1);
    ensure!(
        SERVICE_CIDR_V4.contains(&ipnet::Ipv4Net::from(v4(last)?)),
        "{last} is not routed in the lab"
    );
    let targets = [
        SocketAddr::new(pod.ipv4().into(), ENDPOINT_PORT),
        SocketAddr::new(synthetic::cluster_ip(0), 80),
        SocketAddr::new(last, 80),
    ];
    let client = cluster.pod("client").netns();
    client.run(|| {
        let mut samples = [(); 3].map(|()| Samples::default());
        for _ in 0..CONNECTIONS {
            for (target, samples) in targets.iter().zip(&mut samples) {
                let started = Instant::now();
                let stream = TcpStream::connect_timeout(target, Duration::from_secs(2))
                    .with_context(|| format!("connect to {target}"))?;
                samples.push(started.elapsed());
                drop(stream);
            }
        }
        Ok(samples.map(|mut it| it.percentile(50)))
    })
}

fn v4(addr: IpAddr) -> anyhow::Result<std::net::Ipv4Addr> {
    match addr {
        IpAddr::V4(it) => Ok(it),
        IpAddr::V6(it) => anyhow::bail!("{it} is not IPv4"),
    }
}

/// The first and the last Service lead to the pod that answers, the others to nowhere.
fn program(services: u32, pod: IpAddr) -> anyhow::Result<()> {
    let mut planner = Planner::new(Settings::for_node("node-a"));
    let mut events = synthetic::cluster(services);
    events.extend([0, services - 1].map(|index| synthetic::slice(index, &[pod])));
    events.into_iter().for_each(|it| planner.absorb(it));
    let changed = planner.replan().ports.into_keys().collect();
    let mut reconciler = Reconciler::new(Nftables::open()?);
    reconciler.sync(planner.plan(), &changed)?;
    Ok(())
}
