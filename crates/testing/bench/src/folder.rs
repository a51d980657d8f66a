//! From a renamed file to the kernel, in a quiet folder of manifests and in one where others change
//! files all the time; and a start in both.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use sluice_lab::{Agent, Cluster};
use sluice_nft::Monitor;
use sluice_node::client;

use super::api::acknowledged;
use super::measure::{Samples, count, millis};
use super::start::write_files;
use super::synthetic;

/// Services, each in a file of its own.
const SERVICES: u32 = 1_000;

/// Measured changes.
const CHANGES: u32 = 100;

/// Measured starts.
const STARTS: u32 = 5;

/// Changes of others in a second.
const RATES: [u32; 3] = [0, 100, 400];

/// Prints the table.
pub(super) fn run(program: &Path) -> anyhow::Result<()> {
    println!(
        "A folder of {} files. Rename of one file to kernel acknowledged, and process start to first \
         sync, ms. Others write a file that no proxy reads, in place:\n",
        count(SERVICES)
    );
    println!("| others' changes a second | change p50 | p99 | max | start p50 | max |");
    println!("| --- | --- | --- | --- | --- | --- |");
    let cluster = Cluster::builder().node("node-a").build()?;
    let scratch = tempfile::tempdir().context("create a folder")?;
    let manifests = scratch.path().join("manifests");
    write_files(&manifests, SERVICES, 1)?;
    let folder = manifests.to_str().context("the path is not UTF-8")?;
    let flags = ["--manifests", folder, "--healthz-bind-address", ""];
    let node = cluster.node("node-a");
    for (run, rate) in (0..).zip(RATES) {
        let (mut starts, mut changes) = (Samples::default(), Samples::default());
        while_others_write(&manifests, rate, || {
            for start in 1..=STARTS {
                let started = Instant::now();
                let agent = Agent::start(program, node, scratch.path(), &flags, client::is_synced)?;
                starts.push(started.elapsed());
                if start == STARTS {
                    node.netns().run(|| rename(&manifests, run, &mut changes))?;
                }
                drop(agent);
            }
            Ok(())
        })?;
        let [p50, p99, max] = [50, 99, 100].map(|it| millis(changes.percentile(it)));
        let [start, longest] = [50, 100].map(|it| millis(starts.percentile(it)));
        println!("| {rate} | {p50} | {p99} | {max} | {start} | {longest} |");
    }
    println!();
    Ok(())
}

/// Replaces an endpoint of one Service after the other.
fn rename(manifests: &Path, run: u32, samples: &mut Samples) -> anyhow::Result<()> {
    let mut monitor = Monitor::ignoring(&[])?;
    for index in 0..CHANGES {
        let (new, file) = (
            manifests.join("new"),
            manifests.join(format!("services-{index:06}.yaml")),
        );
        fs::write(&new, synthetic::manifest(index, synthetic::ENDPOINTS + run))
            .context("write a file")?;
        let started = Instant::now();
        fs::rename(&new, &file).context("rename a file")?;
        acknowledged(&mut monitor)?;
        samples.push(started.elapsed());
    }
    Ok(())
}

/// Calls `work` while a thread writes a file `rate` times a second.
fn while_others_write<T>(
    manifests: &Path,
    rate: u32,
    work: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let is_over = AtomicBool::new(rate == 0);
    let file = manifests.join("others.yaml");
    thread::scope(|scope| {
        let writer = scope.spawn(|| -> anyhow::Result<()> {
            let started = Instant::now();
            for number in 1_u32.. {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                let text =
                    format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: s-{number}}}\n");
                fs::write(&file, text).context("write a file")?;
                // The wait gives the changes their rate.
                let due = started + Duration::from_secs(1) * number / rate;
                #[expect(clippy::disallowed_methods, reason = "the rate of the load")]
                thread::sleep(due.saturating_duration_since(Instant::now()));
            }
            Ok(())
        });
        let result = work();
        is_over.store(true, Ordering::Relaxed);
        writer.join().expect("the writer does not panic")?;
        result
    })
}
