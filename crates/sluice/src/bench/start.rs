//! From manifests on disk to a healthy agent: time, memory, and what it costs to do nothing.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use nix::unistd::{SysconfVar, sysconf};
use sluice_lab::{Cluster, eventually};

use super::measure::{count, seconds};
use super::synthetic;
use crate::lab::Agent;

/// How long an agent is watched doing nothing.
const IDLE: Duration = Duration::from_secs(3);

/// After the first sync there is a second look at conntrack.
const SETTLES_WITHIN: Duration = Duration::from_secs(2);

/// Services per file.
const PER_FILE: u32 = 100;

/// Prints the table.
pub(super) fn run(sizes: &[u32]) -> anyhow::Result<()> {
    println!(
        "Manifests on disk to first sync done, and a restart on existing rules (`sluice proxy`, {PER_FILE} Services a file):\n"
    );
    println!(
        "| services | start, wall s | CPU s | peak RSS, MiB | restart, wall s | CPU s | idle CPU, ms in {} s |",
        IDLE.as_secs()
    );
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for &services in sizes {
        let scratch = tempfile::tempdir().context("create a folder")?;
        let manifests = scratch.path().join("manifests");
        write(&manifests, services)?;
        let cluster = Cluster::builder().node("node-a").build()?;
        let start = || -> anyhow::Result<(Agent, Duration)> {
            let flags = ["--healthz-bind-address", ""];
            let started = Instant::now();
            let node = cluster.node("node-a");
            let agent = Agent::start(node, &manifests, scratch.path(), &flags)?;
            Ok((agent, started.elapsed()))
        };
        let (agent, first) = start()?;
        let process = Process(agent.pid().as_raw());
        let first_cpu = process.cpu()?;
        let peak = process.peak_mib()?;
        let idle = process.idle()?;
        drop(agent);
        let (agent, again) = start()?;
        let again_cpu = Process(agent.pid().as_raw()).cpu()?;
        println!(
            "| {} | {} | {} | {peak} | {} | {} | {} |",
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

/// A process as /proc shows it.
struct Process(i32);

impl Process {
    /// User and kernel time so far (proc(5), fields 14 and 15 of stat).
    fn cpu(&self) -> anyhow::Result<Duration> {
        let path = format!("/proc/{}/stat", self.0);
        let stat = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
        let (_, fields) = stat.rsplit_once(')').context("stat has no name")?;
        let mut fields = fields.split_whitespace().skip(11);
        let mut ticks =
            || -> anyhow::Result<u64> { Ok(fields.next().context("stat is short")?.parse()?) };
        let ticks = ticks()? + ticks()?;
        let per_second = sysconf(SysconfVar::CLK_TCK)?.context("no clock tick")?;
        Ok(Duration::from_millis(
            ticks * 1000 / u64::try_from(per_second)?,
        ))
    }

    fn peak_mib(&self) -> anyhow::Result<u64> {
        let path = format!("/proc/{}/status", self.0);
        let status = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
        let line = status.lines().find_map(|it| it.strip_prefix("VmHWM:"));
        let kib = line.and_then(|it| it.split_whitespace().next());
        Ok(kib.context("no VmHWM")?.parse::<u64>()? / 1024)
    }

    /// CPU time of a while in which nothing happens.
    fn idle(&self) -> anyhow::Result<Duration> {
        // Nothing to wait for: this waits for nothing to happen.
        eventually(SETTLES_WITHIN, || None::<()>);
        let before = self.cpu()?;
        let started = Instant::now();
        eventually(IDLE, || None::<()>);
        ensure!(started.elapsed() >= IDLE, "the clock is off");
        Ok(self.cpu()?.saturating_sub(before))
    }
}
