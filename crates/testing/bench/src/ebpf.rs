//! The eBPF data plane: what its maps cost.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use anyhow::Context;
use sluice_ebpf::{Ebpf, Facts, Patterns, Setup, Sizes};
use sluice_lab::Cluster;

use super::changes::{Change, Limit, Node};
use super::measure::{count, measure_all, seconds};
use super::pins::Pins;
use super::synthetic;

/// For each kind of change.
const LIMIT: Limit = Limit {
    rounds: 200,
    time: Duration::from_secs(8),
};

/// Prints the tables.
pub(super) fn run(sizes: &[u32]) -> anyhow::Result<()> {
    println!(
        "ebpf. Full sync of both families into new maps, and a restart, which takes the pinned maps and writes \
         nothing; the load of the programs before each:\n"
    );
    println!(
        "| services | load, CPU s | full sync, wall s | CPU s | resync, CPU s | maps, MiB | restart: load, wall s \
         | CPU s | sync, wall s | CPU s |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    );
    let mut changes = String::new();
    for &services in sizes {
        let cluster = Cluster::builder().node("node-a").build()?;
        changes += &cluster.node("node-a").netns().run(|| one_size(services))?;
    }
    println!(
        "\nEvent to kernel acknowledged, p50 / p99:\n\n\
         | services | change | rounds | ms | CPU ms |\n| --- | --- | --- | --- | --- |\n{changes}"
    );
    Ok(())
}

/// The data plane of the calling thread's network namespace.
pub(super) fn open(pins: &Pins, facts: Facts) -> anyhow::Result<Ebpf> {
    for (name, value) in [("accept_local", "1"), ("rp_filter", "2")] {
        let path = format!("/proc/sys/net/ipv4/conf/lo/{name}");
        fs::write(&path, value).with_context(|| format!("write {path}"))?;
    }
    let setup = Setup {
        pins: pins.path(),
        interfaces: Patterns::all(),
        pods: Patterns::none(),
        sizes: Sizes::default(),
    };
    Ok(Ebpf::connect(setup, facts)?)
}

fn one_size(services: u32) -> anyhow::Result<String> {
    let pins = Pins::new();
    let (plane, load) = measure_all(|| open(&pins, Facts::default()));
    let mut node = Node::new(plane?);
    let first = node.first_sync(synthetic::cluster(services))?;
    let resync = node.resync()?;
    let bytes = memory()?;
    drop(node);
    let (mut node, restart) = restart(&pins, services)?;
    let services_text = count(services);
    println!(
        "| {services_text} | {} | {} | {} | {} | {} | {restart} |",
        seconds(load.cpu),
        seconds(first.wall),
        seconds(first.cpu),
        seconds(resync.cpu),
        bytes >> 20,
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

/// What a new process does with the maps that an earlier one pinned, and the table's cells about it.
fn restart(pins: &Pins, services: u32) -> anyhow::Result<(Node<Ebpf>, String)> {
    let (plane, load) = measure_all(|| open(pins, Facts::default()));
    let mut node = Node::new(plane?);
    node.absorb(synthetic::cluster(services));
    let sync = node.resync()?;
    let cells = [load.wall, load.cpu, sync.wall, sync.cpu].map(seconds);
    Ok((node, cells.join(" | ")))
}

/// Bytes of all maps that this process has open, as the kernel counts them.
fn memory() -> anyhow::Result<u64> {
    let mut maps = BTreeMap::new();
    for entry in fs::read_dir("/proc/self/fdinfo").context("list descriptors")? {
        let text = fs::read_to_string(entry?.path()).unwrap_or_default();
        let number = |name: &str| -> Option<u64> {
            let line = text.lines().find_map(|it| it.strip_prefix(name))?;
            line.trim().parse().ok()
        };
        if let (Some(id), Some(bytes)) = (number("map_id:"), number("memlock:")) {
            maps.insert(id, bytes);
        }
    }
    Ok(maps.values().sum())
}
