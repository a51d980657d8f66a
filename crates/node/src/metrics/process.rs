//! The metrics that client_golang's process collector shows and that of the crate `prometheus` does not.

use std::fs;

use nix::sys::resource::{Resource, getrlimit};
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Gauge, IntCounter};

use super::help::{HELP, help};

const RECEIVED: &str = "process_network_receive_bytes_total";
const SENT: &str = "process_network_transmit_bytes_total";
const LARGEST: &str = "process_virtual_memory_max_bytes";

/// Reads `/proc` at each scrape.
pub(super) struct Process {
    descriptions: Vec<Desc>,
}

impl Process {
    pub(super) fn new() -> Self {
        let metrics = [counter(RECEIVED, 0), counter(SENT, 0), largest()];
        let descriptions = metrics.iter().flat_map(|it| it.desc().into_iter().cloned());
        Self {
            descriptions: descriptions.collect(),
        }
    }
}

impl Collector for Process {
    fn desc(&self) -> Vec<&Desc> {
        self.descriptions.iter().collect()
    }

    /// Without `/proc`, shows only the values that the process knows itself.
    fn collect(&self) -> Vec<MetricFamily> {
        let netstat = fs::read_to_string("/proc/self/net/netstat").unwrap_or_default();
        let count = |name, field| octets(&netstat, field).map(|it| counter(name, it));
        let counts = [count(RECEIVED, "InOctets"), count(SENT, "OutOctets")];
        let metrics = counts.into_iter().flatten().chain([largest()]);
        metrics.flat_map(|it| it.collect()).collect()
    }
}

/// A field of `IpExt`: the bytes of IPv4 packets in the process's network namespace. The file has two
/// lines for each protocol: the names of its fields, and their values.
fn octets(netstat: &str, field: &str) -> Option<u64> {
    let mut lines = netstat.lines().filter(|it| it.starts_with("IpExt:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let mut fields = names.split(' ').zip(values.split(' '));
    let (_, value) = fields.find(|(name, _)| *name == field)?;
    value.parse().ok()
}

fn counter(name: &str, value: u64) -> Box<dyn Collector> {
    let counter = IntCounter::new(name, help(HELP, name)).expect("a constant, well formed");
    counter.inc_by(value);
    Box::new(counter)
}

/// The limit of the address space; 2^64 - 1 without one, as in client_golang.
fn largest() -> Box<dyn Collector> {
    let gauge = Gauge::new(LARGEST, help(HELP, LARGEST)).expect("a constant, well formed");
    let limit = getrlimit(Resource::RLIMIT_AS);
    gauge.set(limit.map_or(0.0, |(soft, _)| soft as f64));
    Box::new(gauge)
}
