//! Clocks and percentiles.

use std::fs;
use std::time::{Duration, Instant};

use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeVal;

/// Wall and CPU time (user and kernel) of a piece of work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    pub(super) wall: Duration,
    pub(super) cpu: Duration,
}

/// Runs work in this thread and measures it.
pub(super) fn measure<T>(work: impl FnOnce() -> T) -> (T, Cost) {
    measure_of(UsageWho::RUSAGE_THREAD, work)
}

/// Runs work that waits for child processes and measures them.
pub(super) fn measure_children<T>(work: impl FnOnce() -> T) -> (T, Cost) {
    measure_of(UsageWho::RUSAGE_CHILDREN, work)
}

/// Runs work of this process and its children and measures both.
pub(super) fn measure_all<T>(work: impl FnOnce() -> T) -> (T, Cost) {
    let ((result, own), children) = measure_children(|| measure_of(UsageWho::RUSAGE_SELF, work));
    let cpu = own.cpu + children.cpu;
    (
        result,
        Cost {
            wall: own.wall,
            cpu,
        },
    )
}

/// As [`measure_all`], for work that sends packets: with what the kernel's own threads did for packets meanwhile,
/// whoever sent them.
pub(super) fn measure_packets<T>(work: impl FnOnce() -> T) -> (T, Cost) {
    let before = kernel_threads();
    let (result, own) = measure_all(work);
    let cpu = own.cpu + kernel_threads().saturating_sub(before);
    (result, Cost { cpu, ..own })
}

/// CPU time of the kernel's threads that take over where packets keep a processor busy.
fn kernel_threads() -> Duration {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let threads = processes.map(|it| it.path()).filter(|it| {
        fs::read_to_string(it.join("comm")).is_ok_and(|it| it.starts_with("ksoftirqd/"))
    });
    let nanoseconds = threads.filter_map(|it| {
        let text = fs::read_to_string(it.join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanoseconds.sum())
}

fn measure_of<T>(who: UsageWho, work: impl FnOnce() -> T) -> (T, Cost) {
    let before = cpu(who);
    let started = Instant::now();
    let result = work();
    let wall = started.elapsed();
    let cpu = cpu(who).saturating_sub(before);
    (result, Cost { wall, cpu })
}

fn cpu(who: UsageWho) -> Duration {
    let time = |it: TimeVal| {
        let micros = u64::try_from(it.tv_usec()).unwrap_or_default();
        Duration::from_secs(u64::try_from(it.tv_sec()).unwrap_or_default())
            + Duration::from_micros(micros)
    };
    let total = |usage: Usage| time(usage.user_time()) + time(usage.system_time());
    getrusage(who).map(total).unwrap_or_default()
}

/// Durations of the same work, repeated.
#[derive(Debug, Default)]
pub(super) struct Samples(Vec<Duration>);

impl Samples {
    pub(super) fn push(&mut self, sample: Duration) {
        self.0.push(sample);
    }

    /// The sample that `percent` of all do not exceed.
    pub(super) fn percentile(&mut self, percent: usize) -> Duration {
        self.0.sort_unstable();
        let last = self.0.len().saturating_sub(1);
        let index = (self.0.len() * percent / 100).min(last);
        self.0.get(index).copied().unwrap_or_default()
    }
}

/// Seconds with two decimals.
pub(super) fn seconds(it: Duration) -> String {
    format!("{:.2}", it.as_secs_f64())
}

/// Milliseconds with three decimals.
pub(super) fn millis(it: Duration) -> String {
    format!("{:.3}", it.as_secs_f64() * 1e3)
}

/// Microseconds with one decimal.
pub(super) fn micros(it: Duration) -> String {
    format!("{:.1}", it.as_secs_f64() * 1e6)
}

/// A number with commas.
pub(super) fn count(it: u32) -> String {
    let digits = it.to_string();
    let mut out = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_and_counts() {
        let mut samples = Samples::default();
        (1..=100).for_each(|it| samples.push(Duration::from_millis(it)));
        assert_eq!(samples.percentile(50), Duration::from_millis(51));
        assert_eq!(samples.percentile(99), Duration::from_millis(100));
        assert_eq!(Samples::default().percentile(50), Duration::ZERO);
        assert_eq!(
            ["1", "1,000", "50,000"],
            [1, 1000, 50_000].map(count).each_ref().map(String::as_str)
        );
    }
}
