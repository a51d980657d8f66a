//! From manifests on disk to a healthy agent: time, memory, and what it costs to do nothing.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use sluice_lab::{Agent, Cluster};
use sluice_node::client;

use super::Plane;
use super::measure::{count, seconds};
use super::process::{IDLE, Process, largest_iptables};
use super::synthetic;

/// Services per file.
const PER_FILE: u32 = 100;

/// Prints the table.
pub(super) fn run(program: &Path, sizes: &[u32], plane: Plane) -> anyhow::Result<()> {
    println!(
        "Manifests on disk to first sync done, and a restart on existing rules (`sluice proxy`, {PER_FILE} Services a file):\n"
    );
    println!(
        "| services | start, wall s | CPU s | peak RSS (and of iptables), MiB | restart, wall s | CPU s | idle CPU, ms in {} s |",
        IDLE.as_secs()
    );
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for &services in sizes {
        let scratch = tempfile::tempdir().context("create a folder")?;
        let manifests = scratch.path().join("manifests");
        write(&manifests, services)?;
        let cluster = Cluster::builder().node("node-a").build()?;
        plane.prepare(cluster.node("node-a").netns())?;
        let start = || -> anyhow::Result<(Agent, Duration)> {
            let manifests = manifests.to_str().context("the path is not UTF-8")?;
            let mut flags = vec!["--manifests", manifests, "--healthz-bind-address", ""];
            flags.extend(plane.flags());
            let started = Instant::now();
            let node = cluster.node("node-a");
            let agent = Agent::start(program, node, scratch.path(), &flags, client::is_synced)?;
            Ok((agent, started.elapsed()))
        };
        let (started, child) = largest_iptables(start);
        let (agent, first) = started?;
        let process = Process(agent.pid().as_raw());
        let first_cpu = process.cpu()?;
        let peak = process.peak_mib()?;
        let idle = process.idle()?;
        drop(agent);
        let (agent, again) = start()?;
        let again_cpu = Process(agent.pid().as_raw()).cpu()?;
        println!(
            "| {} | {} | {} | {peak} ({child}) | {} | {} | {} |",
            count(services),
            seconds(first),
            seconds(first_cpu),
            seconds(again),
            seconds(again_cpu),
            idle.as_millis(),
        );
    }
    println!();
    Ok(())
}

fn write(folder: &Path, services: u32) -> anyhow::Result<()> {
    fs::create_dir(folder).context("create the manifest folder")?;
    for first in (0..services).step_by(PER_FILE as usize) {
        let last = services.min(first + PER_FILE);
        let text: String = (first..last).map(synthetic::manifest).collect();
        let file = folder.join(format!("services-{first:06}.yaml"));
        fs::write(&file, text).with_context(|| format!("write {}", file.display()))?;
    }
    Ok(())
}
