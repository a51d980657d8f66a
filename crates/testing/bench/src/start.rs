//! From manifests on disk to a healthy agent: time, memory, and the CPU of an idle agent.

use std::fs;
use std::ops::Range;
use std::path::Path;
use std::time::Instant;

use anyhow::Context;
use sluice_lab::{Agent, Cluster};
use sluice_node::client;

use super::Plane;
use super::measure::{count, seconds};
use super::process::{IDLE, Process, largest_iptables};
use super::restart;
use super::synthetic::{self, ENDPOINTS};

/// Services per file.
const PER_FILE: u32 = 100;

/// Prints the table.
pub(super) fn run(program: &Path, sizes: &[u32], plane: Plane) -> anyhow::Result<()> {
    println!(
        "Manifests on disk to first sync done, and a restart on existing rules after an endpoint was replaced (`sluice proxy`, {PER_FILE} Services a file):\n"
    );
    println!(
        "| services | start, wall s | CPU s | peak RSS (and of iptables), MiB | idle CPU, ms in {} s | {} |",
        IDLE.as_secs(),
        restart::COLUMNS
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    for &services in sizes {
        let scratch = tempfile::tempdir().context("create a folder")?;
        let manifests = scratch.path().join("manifests");
        write_files(&manifests, services, PER_FILE)?;
        let cluster = Cluster::builder().node("node-a").build()?;
        plane.prepare(cluster.node("node-a").netns())?;
        let node = cluster.node("node-a");
        let start = || -> anyhow::Result<Agent> {
            let manifests = manifests.to_str().context("the path is not UTF-8")?;
            let mut flags = vec!["--manifests", manifests, "--healthz-bind-address", ""];
            flags.extend(plane.flags());
            let agent = Agent::start(program, node, scratch.path(), &flags, client::is_synced)?;
            Ok(agent)
        };
        let started = Instant::now();
        let (agent, child) = largest_iptables(start);
        let (agent, first) = (agent?, started.elapsed());
        let process = Process(agent.pid().as_raw());
        let first_cpu = process.cpu()?;
        let peak = process.peak_mib()?;
        let idle = process.idle()?;
        drop(agent);
        write_file(&manifests, 0..services.min(PER_FILE), ENDPOINTS + 1)?;
        let watched = matches!(plane, Plane::Nftables(_)).then_some(node.netns());
        let again = restart::measure(watched, start)?;
        // Programs outlive their namespace where they are pinned.
        let program = program.to_str().context("the path is not UTF-8")?;
        let cleanup = node.netns().command(program, &["cleanup"]).output();
        cleanup.context("run sluice cleanup")?;
        println!(
            "| {} | {} | {} | {peak} ({child}) | {} | {again} |",
            count(services),
            seconds(first),
            seconds(first_cpu),
            idle.as_millis(),
        );
    }
    println!();
    Ok(())
}

/// Makes a folder with Services, so many in each file.
pub(super) fn write_files(folder: &Path, services: u32, per_file: u32) -> anyhow::Result<()> {
    fs::create_dir(folder).context("create the manifest folder")?;
    for first in (0..services).step_by(per_file as usize) {
        write_file(folder, first..services.min(first + per_file), 0)?;
    }
    Ok(())
}

/// Writes a file of these Services; the first endpoint of the first one is that of this number.
fn write_file(folder: &Path, services: Range<u32>, endpoint: u32) -> anyhow::Result<()> {
    let first = services.start;
    let rest = (first + 1..services.end).map(|it| synthetic::manifest(it, 0));
    let text: String = [synthetic::manifest(first, endpoint)]
        .into_iter()
        .chain(rest)
        .collect();
    let file = folder.join(format!("services-{first:06}.yaml"));
    fs::write(&file, text).with_context(|| format!("write {}", file.display()))
}
