//! The IPVS data plane, on machines whose kernel has it.

use std::time::Duration;

use sluice_ipvs::{Ipvs, Options};
use sluice_lab::Netns;

use super::changes::{Change, Limit, Node};
use super::measure::{count, seconds};
use super::synthetic;

/// For each kind of change.
const LIMIT: Limit = Limit {
    rounds: 200,
    time: Duration::from_secs(8),
};

/// Prints the tables, or why there are none.
pub(super) fn run(sizes: &[u32]) -> anyhow::Result<()> {
    if let Err(error) = Netns::new("bench")?.run(open) {
        println!("ipvs is not measured: {error:#}\n");
        return Ok(());
    }
    println!("| services | full sync, wall s | CPU s | resync, CPU s |\n| --- | --- | --- | --- |");
    let mut changes = String::new();
    for &services in sizes {
        changes += &Netns::new("bench")?.run(|| one_size(services))?;
    }
    println!(
        "\nEvent to kernel acknowledged, p50 / p99:\n\n\
         | services | change | rounds | ms | CPU ms |\n| --- | --- | --- | --- | --- |\n{changes}"
    );
    Ok(())
}

fn open() -> anyhow::Result<Ipvs> {
    Ok(Ipvs::open(Options::default())?)
}

fn one_size(services: u32) -> anyhow::Result<String> {
    let mut node = Node::new(open()?);
    let first = node.first_sync(synthetic::cluster(services))?;
    let resync = node.resync()?;
    let services_text = count(services);
    println!(
        "| {services_text} | {} | {} | {} |",
        seconds(first.wall),
        seconds(first.cpu),
        seconds(resync.cpu)
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
