//! From events in memory to rules that the kernel acknowledged.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use sluice_lab::Netns;
use sluice_nftables::{Counting, Nftables, render_plan, text};
use sluice_plane::DataPlane as _;

use super::changes::{Change, Limit, Node};
use super::measure::{Cost, count, measure, measure_children, seconds};
use super::synthetic;

/// Changes of each kind per size.
const CHANGES: u32 = 200;
const LIMIT: Limit = Limit {
    rounds: CHANGES,
    time: Duration::MAX,
};

/// Prints the table of first syncs and the table of changes.
pub(super) fn run(sizes: &[u32], counting: Counting) -> anyhow::Result<()> {
    let (mut changes, mut readings) = (String::new(), String::new());
    println!(
        "| services | first sync, wall s | CPU s | resync, CPU s | `nft -f` of the same rules, wall s | CPU s |"
    );
    println!("| --- | --- | --- | --- | --- | --- |");
    for &services in sizes {
        let netns = Netns::new("bench")?;
        let measured = netns.run(|| one_size(services, counting))?;
        let nft = load_with_nft(&measured.rules)?;
        println!(
            "| {} | {} | {} | {} | {} | {} |",
            count(services),
            seconds(measured.first.wall),
            seconds(measured.first.cpu),
            seconds(measured.resync.cpu),
            seconds(nft.wall),
            seconds(nft.cpu),
        );
        changes += &measured.changes;
        if let Some(reading) = measured.reading {
            let (wall, cpu) = (seconds(reading.wall), seconds(reading.cpu));
            readings += &format!("| {} | {wall} | {cpu} |\n", count(services));
        }
    }
    println!("\nEvent to kernel acknowledged, ms (p50 / p99 of {CHANGES}):\n");
    println!(
        "| services | endpoint replaced | endpoint added | endpoint removed | service added |"
    );
    println!("| --- | --- | --- | --- | --- |");
    println!("{changes}");
    if !readings.is_empty() {
        println!("Reading every counter:\n");
        println!("| services | wall s | CPU s |\n| --- | --- | --- |\n{readings}");
    }
    Ok(())
}

struct Measured {
    first: Cost,
    resync: Cost,
    rules: String,
    changes: String,
    /// The cost of reading every counter; `None` without counters.
    reading: Option<Cost>,
}

fn one_size(services: u32, counting: Counting) -> anyhow::Result<Measured> {
    let mut bench = Node::new(Nftables::connect()?.counting(counting));
    let first = bench.first_sync(synthetic::cluster(services))?;
    let rules = text::ruleset(&render_plan(bench.0.plan(), counting));
    let mut changes = format!("| {} |", count(services));
    for change in Change::ALL {
        let mut series = bench.repeat(change, services, LIMIT)?;
        changes += &format!(" {} |", series.wall());
    }
    changes.push('\n');
    let resync = bench.resync()?;
    let counters = bench.0.reconciler().backend().counters()?;
    let reading = counters.map(|mut it| measure(|| it.read()));
    let reading = reading.map(|(read, cost)| read.map(|_| cost)).transpose()?;
    Ok(Measured {
        first,
        resync,
        rules,
        changes,
        reading,
    })
}

/// The peer: nft loads the same rules into an empty namespace.
fn load_with_nft(rules: &str) -> anyhow::Result<Cost> {
    let netns = Netns::new("bench-nft")?;
    let (loaded, cost) = measure_children(|| nft_load(&netns, rules));
    loaded?;
    Ok(cost)
}

/// `nft -f -` inside a namespace.
pub(super) fn nft_load(netns: &Netns, rules: &str) -> anyhow::Result<()> {
    feed(&mut netns.command("nft", &["-f", "-"]), rules)
}

/// Runs a program with rules on its standard input.
pub(super) fn feed(command: &mut Command, rules: &str) -> anyhow::Result<()> {
    let program = command.get_program().to_owned();
    let program = program.display();
    let child = command.stdin(Stdio::piped()).spawn();
    let mut child = child.with_context(|| format!("run {program}"))?;
    let mut input = child.stdin.take().context("no standard input")?;
    let written = input.write_all(rules.as_bytes());
    written.with_context(|| format!("write to {program}"))?;
    drop(input);
    ensure!(child.wait()?.success(), "{program} refused the rules");
    Ok(())
}
