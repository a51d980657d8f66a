//! The metrics of client_golang's process collector.

use std::fs;

use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::{SysconfVar, sysconf};
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Counter, Gauge};

use super::help::{HELP, help};

pub(super) const START_TIME: &str = "process_start_time_seconds";

const NAMES: [&str; 10] = [
    "process_cpu_seconds_total",
    "process_max_fds",
    "process_network_receive_bytes_total",
    "process_network_transmit_bytes_total",
    "process_open_fds",
    "process_resident_memory_bytes",
    START_TIME,
    "process_threads",
    "process_virtual_memory_bytes",
    "process_virtual_memory_max_bytes",
];

/// Collects the metrics of this process: reads `/proc` at each scrape.
pub struct Process {
    descriptions: Vec<Desc>,
    /// `None` without `/proc`.
    start_time: Option<f64>,
}

impl Process {
    /// The collector, for a registry.
    #[must_use]
    pub fn of_self() -> Self {
        let metrics = NAMES.map(|it| metric(it, 0.0));
        let descriptions = metrics.iter().flat_map(|it| it.desc().into_iter().cloned());
        Self {
            descriptions: descriptions.collect(),
            start_time: start_time(),
        }
    }

    /// The value of each of [`NAMES`]. Without `/proc` there are only those that the process knows itself.
    fn values(&self) -> [Option<f64>; 10] {
        let netstat = fs::read_to_string("/proc/self/net/netstat").unwrap_or_default();
        let stat = Stat::read();
        let of_stat = |of: fn(&Stat) -> f64| stat.as_ref().map(of);
        [
            of_stat(|it| (it.field(14) + it.field(15)) / system(SysconfVar::CLK_TCK)),
            limit(Resource::RLIMIT_NOFILE),
            octets(&netstat, "InOctets"),
            octets(&netstat, "OutOctets"),
            fs::read_dir("/proc/self/fd")
                .ok()
                .map(|it| it.count() as f64),
            of_stat(|it| it.field(24) * system(SysconfVar::PAGE_SIZE)),
            self.start_time,
            of_stat(|it| it.field(20)),
            of_stat(|it| it.field(23)),
            limit(Resource::RLIMIT_AS),
        ]
    }
}

impl Collector for Process {
    fn desc(&self) -> Vec<&Desc> {
        self.descriptions.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let named = NAMES.into_iter().zip(self.values());
        let shown = named.filter_map(|(name, value)| Some(metric(name, value?)));
        shown.flat_map(|it| it.collect()).collect()
    }
}

/// When this process started, in seconds since the epoch.
pub(super) fn start_time() -> Option<f64> {
    let machine = fs::read_to_string("/proc/stat").ok()?;
    let booted = machine.lines().find_map(|it| it.strip_prefix("btime "))?;
    let ticks = Stat::read()?.field(22);
    Some(booted.parse::<f64>().ok()? + (ticks / system(SysconfVar::CLK_TCK)).floor())
}

/// `/proc/self/stat`: the fields from the fourth on. The second one, a name in parentheses, may have spaces.
struct Stat(Vec<f64>);

impl Stat {
    fn read() -> Option<Self> {
        let text = fs::read_to_string("/proc/self/stat").ok()?;
        let (_, rest) = text.rsplit_once(')')?;
        let fields = rest.split_whitespace().skip(1);
        Some(Self(fields.filter_map(|it| it.parse().ok()).collect()))
    }

    /// A field by its number in proc_pid_stat(5).
    fn field(&self, number: usize) -> f64 {
        self.0.get(number - 4).copied().unwrap_or_default()
    }
}

fn system(variable: SysconfVar) -> f64 {
    // Linux has them both.
    sysconf(variable).ok().flatten().map_or(1.0, |it| it as f64)
}

/// The soft limit; 2^64 - 1 without one, as in client_golang.
fn limit(resource: Resource) -> Option<f64> {
    getrlimit(resource).ok().map(|(soft, _)| soft as f64)
}

/// A field of `IpExt`: the bytes of IPv4 packets in the process's network namespace. The file has two
/// lines for each protocol: the names of its fields, and their values.
fn octets(netstat: &str, field: &str) -> Option<f64> {
    let mut lines = netstat.lines().filter(|it| it.starts_with("IpExt:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let mut fields = names.split(' ').zip(values.split(' '));
    let (_, value) = fields.find(|(name, _)| *name == field)?;
    value.parse().ok()
}

fn metric(name: &str, value: f64) -> Box<dyn Collector> {
    let text = help(HELP, name);
    if name.ends_with("_total") {
        let counter = Counter::new(name, text).expect("a constant, well formed");
        counter.inc_by(value);
        return Box::new(counter);
    }
    let gauge = Gauge::new(name, text).expect("a constant, well formed");
    gauge.set(value);
    Box::new(gauge)
}
