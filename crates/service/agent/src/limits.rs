//! Chooses the limits of connection tracking as kube-proxy does at start
//! (`KubeProxyConfiguration.conntrack`, `pkg/proxy/conntrack/sysctls.go`).

#[cfg(test)]
mod tests;

use std::fs;
use std::net::Ipv4Addr;
use std::num::NonZeroUsize;
use std::thread;
use std::time::Duration;

use sluice_config::ConntrackLimits;
use sluice_netlink::Family;
use sluice_netlink::conntrack::{Conntrack, FlowFilter};
use sluice_node::sysctl::{HASHSIZE, Memory, SysctlError, WantedBy, Write, read, write};

const MAX: &str = "/proc/sys/net/netfilter/nf_conntrack_max";
const ESTABLISHED: &str = "/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_established";
const CLOSE_WAIT: &str = "/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_close_wait";
const BE_LIBERAL: &str = "/proc/sys/net/netfilter/nf_conntrack_tcp_be_liberal";
const UDP: &str = "/proc/sys/net/netfilter/nf_conntrack_udp_timeout";
const UDP_STREAM: &str = "/proc/sys/net/netfilter/nf_conntrack_udp_timeout_stream";

const ONLINE: &str = "/sys/devices/system/cpu/online";

/// Cap of the entries that follow from the number of cores: more would take too much memory.
const MOST_SCALED: u64 = 1 << 20;

/// Average length of a chain in a full hash table.
const ENTRIES_PER_BUCKET: u64 = 4;

/// Sets the limits of connection tracking in the network namespace of the calling thread.
///
/// # Errors
/// Any [`SysctlError`]. The process should not start then, as kube-proxy does not: a table that is too small drops
/// connections.
pub fn apply(settings: &ConntrackLimits, memory: &Memory) -> Result<(), SysctlError> {
    if read(MAX).is_none() {
        load_conntrack();
    }
    write(plan(settings, cores(), read), memory)
}

/// The values to write, in order, on a machine with so many CPU cores. `current` returns the value
/// of a file; a file that cannot be read (`None`) is written.
///
/// The table is only ever enlarged. Timeouts are exact, in whole seconds.
fn plan(
    settings: &ConntrackLimits,
    cores: usize,
    current: impl Fn(&'static str) -> Option<u64>,
) -> Vec<Write> {
    let mut writes = Vec::new();
    let mut want = |path, field, value, is_enough: &dyn Fn(u64) -> bool| {
        if !current(path).is_some_and(is_enough) {
            writes.push(Write {
                path,
                wanted_by: WantedBy::Conntrack(field),
                value,
            });
        }
    };
    if let Some(max) = wanted_max(settings, cores) {
        let field = "maxPerCore";
        want(MAX, field, max, &|it| it >= max);
        let buckets = max / ENTRIES_PER_BUCKET;
        want(HASHSIZE, field, buckets, &|it| it >= buckets);
    }
    let liberal = settings.tcp_be_liberal.then_some(1);
    let exact = [
        (
            ESTABLISHED,
            "tcpEstablishedTimeout",
            seconds(settings.tcp_established),
        ),
        (
            CLOSE_WAIT,
            "tcpCloseWaitTimeout",
            seconds(settings.tcp_close_wait),
        ),
        (BE_LIBERAL, "tcpBeLiberal", liberal),
        (UDP, "udpTimeout", seconds(settings.udp)),
        (UDP_STREAM, "udpStreamTimeout", seconds(settings.udp_stream)),
    ];
    for (path, field, value) in exact {
        if let Some(value) = value {
            want(path, field, value, &|it| it == value);
        }
    }
    writes
}

/// The largest number of entries; `None` leaves the machine's.
fn wanted_max(settings: &ConntrackLimits, cores: usize) -> Option<u64> {
    let cores = u64::try_from(cores).unwrap_or(u64::MAX);
    match u64::from(settings.max_per_core).saturating_mul(cores) {
        0 => None,
        scaled if scaled > MOST_SCALED => Some(MOST_SCALED),
        scaled => Some(scaled.max(settings.min.into())),
    }
}

/// Whole seconds, at least one: the kernel would drop entries with a timeout of zero at once.
fn seconds(duration: Duration) -> Option<u64> {
    (!duration.is_zero()).then(|| duration.as_secs().max(1))
}

/// Any request makes the kernel load the module (`nfnetlink_rcv_msg`). The write that follows fails
/// if the module is missing.
fn load_conntrack() {
    let nobody = FlowFilter {
        family: Family::Ipv4,
        destination: Some(Ipv4Addr::UNSPECIFIED.into()),
        protocol: None,
        destination_port: None,
    };
    let _ = Conntrack::open().map(|mut it| it.flows(&nobody));
}

/// Cores of the machine, including those that this process may not run on: all share the table.
fn cores() -> usize {
    let online = fs::read_to_string(ONLINE).ok();
    let online = online.and_then(|it| count(it.trim()));
    online.unwrap_or_else(|| thread::available_parallelism().map_or(1, NonZeroUsize::get))
}

/// The number of cores in a list like `0-3,8`; `None` for another text.
fn count(list: &str) -> Option<usize> {
    let size = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        last.checked_sub(first)?.checked_add(1)
    };
    let sizes = list.split(',').map(size);
    sizes
        .into_iter()
        .try_fold(0_usize, |sum, it| sum.checked_add(it?))
}
