//! CPU time and memory of processes.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use nix::unistd::{SysconfVar, sysconf};
use sluice_lab::eventually;

/// Duration of the measurement of an idle agent.
pub(super) const IDLE: Duration = Duration::from_secs(3);

/// Time after the first sync until the agent is idle: it reads conntrack a second time.
const SETTLES_WITHIN: Duration = Duration::from_secs(2);

/// Interval of the search for children.
const POLL: Duration = Duration::from_millis(2);

/// The largest resident memory, in MiB, of any iptables program that a child of this process ran
/// during `work`.
pub(super) fn largest_iptables<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut largest = 0;
            while !is_done.load(Ordering::Relaxed) {
                let own = Process(nix::unistd::getpid().as_raw());
                let programs = own.children().into_iter().flat_map(|it| it.children());
                let sizes = programs
                    .filter(Process::is_iptables)
                    .filter_map(|it| it.peak_mib().ok());
                largest = sizes.fold(largest, u64::max);
                #[expect(clippy::disallowed_methods, reason = "a period")]
                thread::sleep(POLL);
            }
            largest
        });
        let result = work();
        is_done.store(true, Ordering::Relaxed);
        (result, watch.join().unwrap_or_default())
    })
}

/// A process as /proc shows it.
pub(super) struct Process(pub(super) i32);

impl Process {
    /// User and kernel time so far (proc(5), fields 14 and 15 of stat).
    pub(super) fn cpu(&self) -> anyhow::Result<Duration> {
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

    /// The largest resident memory so far, in MiB.
    pub(super) fn peak_mib(&self) -> anyhow::Result<u64> {
        self.memory_mib("VmHWM:")
    }

    /// The child processes; a process that has ended has none.
    fn children(&self) -> Vec<Self> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.0));
        let tasks = tasks.into_iter().flatten().flatten();
        let lists = tasks.filter_map(|it| fs::read_to_string(it.path().join("children")).ok());
        let of = |list: String| -> Vec<Self> {
            let numbers = list.split_whitespace().filter_map(|it| it.parse().ok());
            numbers.map(Self).collect()
        };
        lists.flat_map(of).collect()
    }

    /// Whether the process runs iptables; between fork and exec a child shows its parent's memory.
    fn is_iptables(&self) -> bool {
        let name = fs::read_to_string(format!("/proc/{}/comm", self.0));
        name.is_ok_and(|it| it.contains("tables"))
    }

    /// The resident memory, in MiB.
    pub(super) fn rss_mib(&self) -> anyhow::Result<u64> {
        self.memory_mib("VmRSS:")
    }

    fn memory_mib(&self, field: &str) -> anyhow::Result<u64> {
        let path = format!("/proc/{}/status", self.0);
        let status = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
        let line = status.lines().find_map(|it| it.strip_prefix(field));
        let kib = line.and_then(|it| it.split_whitespace().next());
        let kib = kib.with_context(|| format!("no {field} in {path}"))?;
        Ok(kib.parse::<u64>()? / 1024)
    }

    /// CPU time during 3 seconds without any event.
    pub(super) fn idle(&self) -> anyhow::Result<Duration> {
        // The time itself is measured: there is nothing to poll.
        eventually(SETTLES_WITHIN, || None::<()>);
        let before = self.cpu()?;
        let started = Instant::now();
        eventually(IDLE, || None::<()>);
        ensure!(started.elapsed() >= IDLE, "the clock is off");
        Ok(self.cpu()?.saturating_sub(before))
    }
}
