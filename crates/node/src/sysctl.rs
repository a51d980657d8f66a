//! Writes sysctls, and chooses those of connection tracking as kube-proxy does at start
//! (`KubeProxyConfiguration.conntrack`, `pkg/proxy/conntrack/sysctls.go`).
//!
//! A value that is there already is not written, so read-only `/proc/sys` and `/sys` are good
//! enough for a machine that is set up. The old value of each is kept in a file first ([`Memory`]).

mod memory;
#[cfg(test)]
mod tests;

use std::fmt;
use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::num::NonZeroUsize;
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use sluice_config::ConntrackLimits;
use sluice_netlink::Family;
use sluice_netlink::conntrack::{Conntrack, FlowFilter};
use tracing::{info, warn};

pub use memory::{Changed, Memory, MemoryError, State};

const MAX: &str = "/proc/sys/net/netfilter/nf_conntrack_max";
const HASHSIZE: &str = "/sys/module/nf_conntrack/parameters/hashsize";
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

/// A value to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// The sysctl's file.
    pub path: &'static str,
    /// The option that needs it.
    pub wanted_by: WantedBy,
    /// Decimal, in the unit of the file: entries, buckets, seconds.
    pub value: u64,
}

/// The option that needs a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WantedBy {
    /// A field of `conntrack` in the configuration; 0 leaves the machine's value.
    Conntrack(&'static str),
    /// A proxy mode, which does not work without the value.
    Mode(&'static str),
}

impl fmt::Display for WantedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conntrack(field) => write!(f, "conntrack.{field}"),
            Self::Mode(mode) => write!(f, "mode {mode}"),
        }
    }
}

/// The values to write, in order, on a machine with so many CPU cores. `current` returns the value
/// of a file; a file that cannot be read (`None`) is written.
///
/// The table is only ever enlarged. Timeouts are exact, in whole seconds.
pub fn plan(
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

/// A value that could not be written.
#[derive(Debug)]
pub struct Refused {
    /// The sysctl and the value that it should have.
    pub write: Write,
    /// The kernel's reason.
    pub reason: io::Error,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (write, reason) = (self.write, &self.reason);
        let (path, value, wanted_by) = (write.path, write.value, write.wanted_by);
        write!(f, "set {path} to {value} ({wanted_by}): {reason}")
    }
}

impl Refused {
    /// What the operator can do instead of letting us write the value.
    fn remedy(&self) -> Option<String> {
        let (wanted_by, reason) = (self.write.wanted_by, &self.reason);
        let (namespace, missing, remedy) = match wanted_by {
            WantedBy::Conntrack(_) => (
                ", and for the size of the conntrack table the host's network namespace",
                "is the kernel module nf_conntrack loaded?",
                ", set it on the machine, or set the field to 0",
            ),
            WantedBy::Mode(_) => (
                "",
                "this kernel was built without it",
                ", or set it on the machine",
            ),
        };
        let remedy = format!("run with --init-only in a privileged init container{remedy}");
        match reason.raw_os_error().map(Errno::from_raw) {
            Some(Errno::EROFS) => Some(format!("mounted read-only: {remedy}")),
            Some(Errno::EACCES | Errno::EPERM | Errno::EOPNOTSUPP) => {
                Some(format!("it takes root{namespace}: {remedy}"))
            }
            Some(Errno::ENOENT) => Some(missing.to_owned()),
            _ => None,
        }
    }
}

/// Every value that could not be written.
#[derive(Debug)]
pub struct SysctlError(pub Vec<Refused>);

impl fmt::Display for SysctlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        // The same advice once, after everything that it is about.
        for remedy in self.0.iter().filter_map(Refused::remedy) {
            if !all.contains(&remedy) {
                all.push(remedy);
            }
        }
        f.write_str(&all.join("; "))
    }
}

impl std::error::Error for SysctlError {}

/// Sets the limits of connection tracking in the network namespace of the calling thread.
///
/// # Errors
/// [`SysctlError`]. The process should not start then, as kube-proxy does not: a table that is too
/// small drops connections.
pub fn apply(settings: &ConntrackLimits, memory: &Memory) -> Result<(), SysctlError> {
    if read(MAX).is_none() {
        load_conntrack();
    }
    write(plan(settings, cores(), read), memory)
}

/// Writes the values that differ, in the network namespace of the calling thread, and keeps the old
/// ones. Goes on after an error.
///
/// # Errors
/// [`SysctlError`] with every refused value.
pub fn write(wanted: impl IntoIterator<Item = Write>, memory: &Memory) -> Result<(), SysctlError> {
    let mut refused = Vec::new();
    for write in wanted {
        let was = read(write.path);
        if was == Some(write.value) {
            continue;
        }
        if let Some(old) = was {
            memory.keep(write.path, old, write.value);
        }
        match fs::write(write.path, write.value.to_string()) {
            Ok(()) => {
                info!(path = write.path, value = write.value, was, "sysctl set");
                // The kernel rounds the size of the hash table.
                if let (Some(old), Some(now)) = (was, read(write.path))
                    && now != write.value
                {
                    memory.keep(write.path, old, now);
                }
            }
            // The size of the hash table only makes lookups faster.
            Err(reason)
                if write.path == HASHSIZE && reason.kind() == io::ErrorKind::ReadOnlyFilesystem =>
            {
                warn!(
                    path = write.path,
                    value = write.value,
                    "cannot be set here: connection tracking works, with longer chains"
                );
            }
            Err(reason) => refused.push(Refused { write, reason }),
        }
    }
    if refused.is_empty() {
        Ok(())
    } else {
        Err(SysctlError(refused))
    }
}

fn read(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
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
