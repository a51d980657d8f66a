//! The IPVS data plane, on kernels with IPVS.

use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use sluice_ipvs::{Ipvs, IpvsOptions, render_plan, text};
use sluice_lab::Cluster;
use sluice_plane::kube_proxy::MARKS;
use sluice_reconcile::chain;
use sluice_xtables::programs::Programs;

use super::changes::{Change, Limit, Node};
use super::measure::{Cost, count, measure_children, seconds};
use super::sync::feed;
use super::synthetic;

/// For each kind of change.
const LIMIT: Limit = Limit {
    rounds: 200,
    time: Duration::from_secs(8),
};

/// Prints the tables, or the reason why the kernel cannot run them.
pub(super) fn run(sizes: &[u32]) -> anyhow::Result<()> {
    if let Err(error) = on_a_node(open)? {
        println!("ipvs is not measured: {}\n", chain(error.as_ref()));
        return Ok(());
    }
    println!(
        "IPVS. Full sync of both families; the peer is the programs of a runbook (ip, ipset, \
         ipvsadm, iptables-restore), each with its whole input:\n"
    );
    println!(
        "| services | full sync, wall s | CPU s | resync, CPU s | programs, wall s | CPU s |\n\
         | --- | --- | --- | --- | --- | --- |"
    );
    let mut changes = String::new();
    for &services in sizes {
        changes += &on_a_node(|| one_size(services))??;
    }
    println!(
        "\nEvent to kernel acknowledged, p50 / p99:\n\n\
         | services | change | rounds | ms | CPU ms |\n| --- | --- | --- | --- | --- |\n{changes}"
    );
    Ok(())
}

/// Runs `work` on a node of a new cluster: without a route the kernel refuses the addresses of real
/// servers.
fn on_a_node<T: Send>(work: impl FnOnce() -> T + Send) -> anyhow::Result<T> {
    let cluster = Cluster::builder().node("node-a").build()?;
    Ok(cluster.node("node-a").netns().run(work))
}

fn open() -> anyhow::Result<Ipvs> {
    Ok(Ipvs::with(
        Programs::detect(MARKS)?,
        IpvsOptions::default(),
    )?)
}

fn one_size(services: u32) -> anyhow::Result<String> {
    let mut node = Node::new(open()?);
    let first = node.first_sync(synthetic::cluster(services))?;
    let resync = node.resync()?;
    let data_plane = text::data_plane(&render_plan(node.0.plan(), "rr"));
    let programs = on_a_node(|| by_programs(&data_plane))??;
    let services_text = count(services);
    println!(
        "| {services_text} | {} | {} | {} | {} | {} |",
        seconds(first.wall),
        seconds(first.cpu),
        seconds(resync.cpu),
        seconds(programs.wall),
        seconds(programs.cpu),
    );
    let mut lines = String::new();
    for change in Change::ALL {
        let mut series = node.repeat(change, services, LIMIT)?;
        let (name, rounds) = (change.name(), series.rounds());
        let (wall, cpu) = (series.wall(), series.cpu());
        lines += &format!("| {services_text} | {name} | {rounds} | {wall} | {cpu} |\n");
    }
    Ok(lines)
}

/// Writes each section to the program that its heading names.
fn by_programs(data_plane: &str) -> anyhow::Result<Cost> {
    let sections = data_plane.split("# ").filter(|it| !it.is_empty());
    let (fed, cost) = measure_children(|| {
        for section in sections {
            let (heading, input) = section.split_once('\n').context("a section has lines")?;
            let mut words = heading.split(' ');
            let program = words.next().context("a heading names a program")?;
            feed(Command::new(program).args(words), input)?;
        }
        Ok(())
    });
    fed.map(|()| cost)
}
