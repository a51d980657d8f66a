//! From the API server to the kernel: first sync, changes, a storm, memory.
//!
//! The server is that of `sluice-miniapi`, which serialises every object before the measurement.
//! The agent is a process.

mod objects;
mod reader;

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::Value;
use sluice_lab::{Agent, Cluster, Node};
use sluice_miniapi::{MiniApi, Options};
use sluice_nft::{Monitor, Notice};
use sluice_node::client;
use tempfile::TempDir;

use super::measure::{Samples, count, millis, seconds};
use super::process::Process;
use super::restart;
pub(super) use objects::{Shape, service};

/// Many Services with few endpoints, as in a large cluster, and few Services with many endpoints.
const SHAPES: [Shape; 2] = [
    Shape {
        services: 10_000,
        endpoints: 10,
    },
    Shape {
        services: 1_000,
        endpoints: 250,
    },
];

/// Changes of each kind.
const CHANGES: u32 = 500;

/// Changes per second of the storm.
const STORM_RATE: u32 = 1_000;
/// Duration of the storm, in seconds.
const STORM_SECONDS: u32 = 60;
/// Interval of the measurements during the storm, in seconds.
const SAMPLE_SECONDS: u32 = 10;

/// Timeout of the kernel's acknowledgement of a change.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Prints the tables.
pub(super) fn run(program: &Path) -> anyhow::Result<()> {
    println!("From an API server (plain HTTP on loopback, streaming lists):\n");
    println!(
        "| services x endpoints | bytes, MiB | to read and discard them, s | start to first sync, s | agent's CPU, s | peak RSS, MiB | {} |",
        restart::COLUMNS
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    for shape in SHAPES {
        first_sync(program, shape)?;
    }
    let bench = Bench::start(program, SHAPES[0])?;
    changes(&bench)?;
    storm(&bench)
}

/// A node with its own API server and an agent.
struct Bench {
    shape: Shape,
    // Dropped in this order.
    agent: Agent,
    server: MiniApi,
    cluster: Cluster,
    _scratch: TempDir,
}

impl Bench {
    fn start(program: &Path, shape: Shape) -> anyhow::Result<Self> {
        let (cluster, server, scratch) = prepare(shape)?;
        let agent = start_agent(program, cluster.node("node-a"), scratch.path(), &[])?;
        Ok(Self {
            shape,
            agent,
            server,
            cluster,
            _scratch: scratch,
        })
    }

    fn process(&self) -> Process {
        Process(self.agent.pid().as_raw())
    }
}

/// A node, and the API server in it with all objects.
pub(super) fn prepare(shape: Shape) -> anyhow::Result<(Cluster, MiniApi, TempDir)> {
    let cluster = Cluster::builder().node("node-a").build()?;
    let scratch = tempfile::tempdir().context("create a folder")?;
    let options = Options {
        tls: false,
        ..Options::default()
    };
    // Its thread stays in the node's namespace.
    let server = cluster
        .node("node-a")
        .netns()
        .run(|| MiniApi::start(options))?;
    server.put_all(shape.objects())?;
    fs::write(kubeconfig(scratch.path()), server.kubeconfig()).context("write a kubeconfig")?;
    Ok((cluster, server, scratch))
}

/// The file that leads to the API server of [`prepare`].
pub(super) fn kubeconfig(scratch: &Path) -> PathBuf {
    scratch.join("kubeconfig")
}

/// Starts an agent of that API server, with more flags.
pub(super) fn start_agent(
    program: &Path,
    node: &Node,
    scratch: &Path,
    more: &[&str],
) -> anyhow::Result<Agent> {
    let kubeconfig = kubeconfig(scratch);
    let kubeconfig = kubeconfig.to_str().context("the path is not UTF-8")?;
    let mut flags = vec![
        "--kubeconfig",
        kubeconfig,
        "--min-sync-period=0s",
        // The limit belongs to the machine, not to a namespace.
        "--conntrack-max-per-core=0",
        "--healthz-bind-address=127.0.0.1:10256",
        "--metrics-bind-address=127.0.0.1:10249",
    ];
    flags.extend(more);
    Ok(Agent::start(
        program,
        node,
        scratch,
        &flags,
        client::is_synced,
    )?)
}

fn first_sync(program: &Path, shape: Shape) -> anyhow::Result<()> {
    let (cluster, server, scratch) = prepare(shape)?;
    let node = cluster.node("node-a");
    let (bytes, reading) = node.netns().run(|| reader::read_all(server.address()))?;
    let started = Instant::now();
    let agent = start_agent(program, node, scratch.path(), &[])?;
    let first = started.elapsed();
    let process = Process(agent.pid().as_raw());
    let (cpu, peak) = (process.cpu()?, process.peak_mib()?);
    drop(agent);
    server.put(shape.slice(0, 0, Some(0)))?;
    let start = || start_agent(program, node, scratch.path(), &[]);
    let again = restart::measure(Some(node.netns()), start)?;
    println!(
        "| {} x {} | {:.1} | {} | {} | {} | {peak} | {again} |",
        count(shape.services),
        count(shape.endpoints),
        bytes as f64 / f64::from(1 << 20),
        seconds(reading),
        seconds(first),
        seconds(cpu),
    );
    Ok(())
}

/// Prints the time of each kind of change from the API server to the kernel.
fn changes(bench: &Bench) -> anyhow::Result<()> {
    println!(
        "\nChange at the API server to kernel acknowledged, {} x {}, minSyncPeriod 0, ms:\n",
        count(bench.shape.services),
        count(bench.shape.endpoints)
    );
    println!("| change | p50 | p99 | max |\n| --- | --- | --- | --- |");
    let shape = bench.shape;
    let netns = bench.cluster.node("node-a").netns();
    netns.run(|| -> anyhow::Result<()> {
        let mut monitor = Monitor::ignoring(&[])?;
        let mut row = |name: &str, change: &dyn Fn(u32) -> Value| -> anyhow::Result<()> {
            let mut samples = Samples::default();
            for round in 0..CHANGES {
                let object = change(round);
                let started = Instant::now();
                bench.server.put(object)?;
                acknowledged(&mut monitor)?;
                samples.push(started.elapsed());
            }
            let [p50, p99, max] = [50, 99, 100].map(|it| millis(samples.percentile(it)));
            println!("| {name} | {p50} | {p99} | {max} |");
            Ok(())
        };
        row("endpoint replaced", &|it| shape.slice(it, 0, Some(it)))?;
        row("endpoint removed", &|it| shape.shorter(1_000 + it))?;
        row("endpoint added", &|it| shape.slice(1_000 + it, 0, None))?;
        row("Service added", &|it| service(shape.services + it))
    })
}

/// Waits until the kernel reports a new ruleset.
pub(super) fn acknowledged(monitor: &mut Monitor) -> anyhow::Result<()> {
    let deadline = Instant::now() + TIMEOUT;
    while Instant::now() < deadline {
        let left = deadline.saturating_duration_since(Instant::now());
        if let Some(Notice::Generation(_) | Notice::Lost) = monitor.wait(Some(left))? {
            return Ok(());
        }
    }
    bail!("the change did not reach the kernel within {TIMEOUT:?}")
}

/// Prints the agent's CPU and memory during many changes per second.
fn storm(bench: &Bench) -> anyhow::Result<()> {
    println!(
        "\nA storm of {STORM_RATE} changes a second (an endpoint replaced, each in another Service), {STORM_SECONDS} s:\n"
    );
    println!("| second | agent's CPU, % of one core | RSS, MiB |\n| --- | --- | --- |");
    let process = bench.process();
    let mut cpu = process.cpu()?;
    let started = Instant::now();
    for second in 0..STORM_SECONDS {
        for change in 0..STORM_RATE {
            let number = second * STORM_RATE + change;
            let index = number % bench.shape.services;
            let object = bench.shape.slice(index, 0, Some(number));
            bench.server.put(object)?;
            let due = started
                + Duration::from_secs(second.into())
                + Duration::from_secs(1) * change / STORM_RATE;
            // The wait gives the storm its rate; it is part of the load.
            #[expect(clippy::disallowed_methods, reason = "the rate of the load")]
            thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        if (second + 1) % SAMPLE_SECONDS == 0 {
            let now = process.cpu()?;
            let share = (now - cpu).as_secs_f64() / f64::from(SAMPLE_SECONDS) * 100.0;
            cpu = now;
            println!("| {} | {share:.0} | {} |", second + 1, process.rss_mib()?);
        }
    }
    let offered = started.elapsed();
    let limit = Duration::from_secs(u64::from(STORM_SECONDS) * 11 / 10);
    ensure!(
        offered < limit,
        "the storm itself was too slow: {offered:?}"
    );
    println!();
    Ok(())
}
