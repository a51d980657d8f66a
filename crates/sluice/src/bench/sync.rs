//! From events in memory to rules that the kernel acknowledged.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context, ensure};
use sluice_core::backend::Backend as _;
use sluice_core::model::Event;
use sluice_core::plan::{Planner, PortKey};
use sluice_core::reconcile::Reconciler;
use sluice_core::settings::Settings;
use sluice_lab::Netns;
use sluice_nftables::{Counting, Nftables, render_plan, text};

use super::measure::{Cost, Samples, count, measure, measure_children, millis, seconds};
use super::synthetic::{self, ENDPOINTS};

/// Changes of each kind per size.
const CHANGES: u32 = 200;

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
    /// Of every counter; `None` when there are none.
    reading: Option<Cost>,
}

struct Bench {
    planner: Planner,
    reconciler: Reconciler<Nftables>,
}

impl Bench {
    fn absorb(&mut self, events: Vec<Event>) -> BTreeSet<PortKey> {
        events.into_iter().for_each(|it| self.planner.absorb(it));
        self.planner.replan().ports.into_keys().collect()
    }

    fn sync(&mut self, changed: &BTreeSet<PortKey>) -> anyhow::Result<bool> {
        let report = self.reconciler.sync(self.planner.plan(), changed)?;
        ensure!(report.refused.is_empty(), "refused: {:?}", report.refused);
        Ok(!report.is_empty())
    }

    /// Repeats a change and measures it from the event on.
    fn repeat(&mut self, change: impl Fn(u32) -> Vec<Event>) -> anyhow::Result<String> {
        let mut samples = Samples::default();
        for round in 0..CHANGES {
            let events = change(round);
            let started = Instant::now();
            let changed = self.absorb(events);
            let wrote = self.sync(&changed)?;
            samples.push(started.elapsed());
            ensure!(wrote, "round {round} changed nothing");
        }
        let (p50, p99) = (samples.percentile(50), samples.percentile(99));
        Ok(format!("{} / {}", millis(p50), millis(p99)))
    }
}

fn one_size(services: u32, counting: Counting) -> anyhow::Result<Measured> {
    let mut bench = Bench {
        planner: Planner::new(Settings::for_node("node-a")),
        reconciler: Reconciler::new(Nftables::open()?.counting(counting)),
    };
    let changed = bench.absorb(synthetic::cluster(services));
    let (synced, first) = measure(|| bench.sync(&changed));
    synced.context("first sync")?;
    let rules = text::ruleset(&render_plan(bench.planner.plan(), counting));
    // Strides that visit Services all over the table.
    let pick = |round: u32, stride: u32| round.wrapping_mul(stride) % services;
    // What a Service gets is never what it got at the visit before.
    let turn = |round: u32| (round / services) as usize % 2;
    let spare = |index| [1, 2].map(|it| synthetic::endpoint(index, ENDPOINTS + it));
    let replaced = bench.repeat(|round| {
        let index = pick(round, 7919);
        let mut addresses = synthetic::addresses(index, ENDPOINTS);
        addresses[3] = spare(index)[turn(round)];
        vec![synthetic::slice(index, &addresses)]
    })?;
    let resized = |round: u32, stride: u32, sizes: [u32; 2]| {
        let index = pick(round, stride);
        let size = sizes[turn(round)];
        vec![synthetic::slice(index, &synthetic::addresses(index, size))]
    };
    let added = bench.repeat(|round| resized(round, 7907, [ENDPOINTS + 1, ENDPOINTS + 2]))?;
    let removed = bench.repeat(|round| resized(round, 7901, [ENDPOINTS - 1, ENDPOINTS - 2]))?;
    let new = bench.repeat(|round| {
        let index = services + round;
        let addresses = synthetic::addresses(index, ENDPOINTS);
        vec![
            synthetic::service(index),
            synthetic::slice(index, &addresses),
        ]
    })?;
    bench.reconciler.forget();
    let (resynced, resync) = measure(|| bench.sync(&BTreeSet::new()));
    ensure!(
        !resynced.context("resync")?,
        "the kernel holds something else"
    );
    let counters = bench.reconciler.backend().counters()?;
    let reading = counters.map(|mut it| measure(|| it.read()));
    let reading = reading.map(|(read, cost)| read.map(|_| cost)).transpose()?;
    let changes = format!(
        "| {} | {replaced} | {added} | {removed} | {new} |\n",
        count(services)
    );
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
    let mut nft = netns.command("nft", &["-f", "-"]);
    let mut child = nft.stdin(Stdio::piped()).spawn().context("run nft")?;
    let mut input = child.stdin.take().context("nft has no standard input")?;
    input.write_all(rules.as_bytes()).context("write to nft")?;
    drop(input);
    ensure!(child.wait()?.success(), "nft refused the rules");
    Ok(())
}
