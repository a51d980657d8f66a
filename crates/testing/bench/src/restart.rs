//! A restart on the rules that are there, after a change that was made while no agent ran.

use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail, ensure};
use sluice_agent::status::Status;
use sluice_lab::{Agent, Netns};
use sluice_nft::{Change, ChangeKind, Monitor, Notice};
use sluice_node::client;

use super::measure::seconds;
use super::process::Process;

/// Longest wait for the change.
const WITHIN: Duration = Duration::from_secs(120);

/// What a restart costs. Displays as the cells of [`COLUMNS`].
pub(super) struct Restart {
    /// From the start of the process until the change was in the kernel; `None` when nobody watched.
    first_change: Option<Duration>,
    /// From the start of the process until there was nothing left to write.
    synced: Duration,
    /// The first sync alone; `None` when a second one followed at once.
    first_sync: Option<Duration>,
    cpu: Duration,
    peak_mib: u64,
}

/// Headings.
pub(super) const COLUMNS: &str = "restart: first sync, s | start to change in the kernel, s | start to synced, s | CPU s | peak RSS, MiB";

impl fmt::Display for Restart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_none = |it: Option<Duration>| it.map_or("-".to_owned(), seconds);
        write!(
            f,
            "{} | {} | {} | {} | {}",
            or_none(self.first_sync),
            or_none(self.first_change),
            seconds(self.synced),
            seconds(self.cpu),
            self.peak_mib
        )
    }
}

/// Starts an agent and measures it. `watched` is where the change is an element of a set of
/// nf_tables; `None` does not wait for it.
pub(super) fn measure(
    watched: Option<&Netns>,
    start: impl FnOnce() -> anyhow::Result<Agent>,
) -> anyhow::Result<Restart> {
    let monitor = watched.map(|netns| netns.run(|| Monitor::ignoring(&[])));
    let monitor = monitor.transpose().context("watch nf_tables")?;
    let started = Instant::now();
    thread::scope(|scope| {
        let change = monitor.map(|monitor| scope.spawn(|| first_element(monitor)));
        let agent = start()?;
        let synced = started.elapsed();
        let process = Process(agent.pid().as_raw());
        let (cpu, peak_mib) = (process.cpu()?, process.peak_mib()?);
        let status: Status = client::get(agent.socket(), "/status")?;
        let last = status.proxy.last_sync.context("there was no sync")?;
        let changed = change.map(|it| it.join().map_err(|_| anyhow!("the watch panicked")));
        let first_change = match changed {
            Some(changed) => Some(changed?? - started),
            None => None,
        };
        Ok(Restart {
            first_change,
            synced,
            first_sync: last
                .full
                .then(|| Duration::from_secs_f64(last.elapsed_seconds)),
            cpu,
            peak_mib,
        })
    })
}

/// When an element was added.
fn first_element(mut monitor: Monitor) -> anyhow::Result<Instant> {
    let deadline = Instant::now() + WITHIN;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        ensure!(!left.is_zero(), "no change within {WITHIN:?}");
        match monitor.wait(Some(left))? {
            Some(Notice::Change(Change {
                kind: ChangeKind::NewElement,
                ..
            })) => return Ok(Instant::now()),
            Some(Notice::Lost) => bail!("the kernel dropped notices"),
            _ => {}
        }
    }
}
