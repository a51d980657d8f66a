//! Writes sysctls. Those of connection tracking are decided here, as kube-proxy sets them at start
//! (`KubeProxyConfiguration.conntrack`, `pkg/proxy/conntrack/sysctls.go`).
//!
//! A value that is there already is not written, so read-only `/proc/sys` and `/sys` are good
//! enough for a machine that is set up. `net.ipv4.conf.all.route_localnet` is not among them: the
//! iptables mode sets it once its rules guard loopback.

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
use sluice_netlink::conntrack::{Conntrack, FlowFilter};
use sluice_netlink::nftables::Family;
use tracing::{info, warn};

const MAX: &str = "/proc/sys/net/netfilter/nf_conntrack_max";
const HASHSIZE: &str = "/sys/module/nf_conntrack/parameters/hashsize";
const ESTABLISHED: &str = "/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_established";
const CLOSE_WAIT: &str = "/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_close_wait";
const BE_LIBERAL: &str = "/proc/sys/net/netfilter/nf_conntrack_tcp_be_liberal";
const UDP: &str = "/proc/sys/net/netfilter/nf_conntrack_udp_timeout";
const UDP_STREAM: &str = "/proc/sys/net/netfilter/nf_conntrack_udp_timeout_stream";

const ONLINE: &str = "/sys/devices/system/cpu/online";

/// More entries than this cost too much memory on machines with many cores.
const MOST_SCALED: u64 = 1 << 20;

/// Entries in a chain of the hash table, on average and when it is full.
const ENTRIES_PER_BUCKET: u64 = 4;

/// One value to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// The file that holds it.
    pub path: &'static str,
    /// What asks for it.
    pub wanted_by: WantedBy,
    /// Decimal, in the unit of the file: entries, buckets, seconds.
    pub value: u64,
}

/// What asks for a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WantedBy {
    /// A field of `conntrack` in the configuration: 0 leaves what the machine has.
    Conntrack(&'static str),
    /// A proxy mode, which does not work without it.
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

/// What has to be written, in this order, for a machine with so many cores. `current` is what a
/// file holds; `None` when it cannot be read, and then it is written.
///
/// The table is only ever enlarged. Timeouts are set to what is asked for, in whole seconds.
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

/// `None` leaves the table as large as it is.
fn wanted_max(settings: &ConntrackLimits, cores: usize) -> Option<u64> {
    if settings.max_per_core == 0 {
        return None;
    }
    let cores = u64::try_from(cores).unwrap_or(u64::MAX);
    let scaled = u64::from(settings.max_per_core).saturating_mul(cores);
    if scaled > MOST_SCALED {
        return Some(MOST_SCALED);
    }
    Some(scaled.max(settings.min.into()))
}

/// Whole seconds; less than one is one, for zero would forget at once.
fn seconds(duration: Duration) -> Option<u64> {
    (!duration.is_zero()).then(|| duration.as_secs().max(1))
}

/// A value that could not be written, and what to do about it.
#[derive(Debug)]
pub struct Refused {
    /// What was to be written.
    pub write: Write,
    /// The kernel's reason.
    pub reason: io::Error,
}

impl Refused {
    /// What the operator can do instead of letting us write it.
    fn way_out(&self) -> &'static str {
        match self.write.wanted_by {
            WantedBy::Conntrack(_) => {
                "run with --init-only in a privileged init container, set it on the machine, or \
                 set the field to 0"
            }
            WantedBy::Mode(_) => {
                "run with --init-only in a privileged init container, or set it on the machine"
            }
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Write {
            path,
            wanted_by,
            value,
        } = self.write;
        write!(f, "set {path} to {value} ({wanted_by}): {}", self.reason)?;
        let errno = self.reason.raw_os_error().map(Errno::from_raw);
        match (errno, wanted_by) {
            (Some(Errno::EROFS), _) => write!(f, "; mounted read-only: {}", self.way_out()),
            (Some(Errno::EACCES | Errno::EPERM | Errno::EOPNOTSUPP), _) => {
                let namespace = match wanted_by {
                    WantedBy::Conntrack(_) => {
                        ", and the size of the table of connections also the machine's own network \
                         namespace"
                    }
                    WantedBy::Mode(_) => "",
                };
                write!(f, "; it takes root{namespace}: {}", self.way_out())
            }
            (Some(Errno::ENOENT), WantedBy::Conntrack(_)) => {
                f.write_str("; is the kernel module nf_conntrack loaded?")
            }
            (Some(Errno::ENOENT), WantedBy::Mode(_)) => {
                f.write_str("; this kernel was built without it")
            }
            _ => Ok(()),
        }
    }
}

/// Every value that could not be written.
#[derive(Debug)]
pub struct SysctlError(pub Vec<Refused>);

impl fmt::Display for SysctlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, refused) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{refused}")?;
        }
        Ok(())
    }
}

impl std::error::Error for SysctlError {}

/// Writes what the settings ask for and the machine does not have. In the network namespace of the
/// calling thread.
///
/// # Errors
/// [`SysctlError`]; kube-proxy does not start then, and neither should we: a table that is too
/// small drops connections.
pub fn apply(settings: &ConntrackLimits) -> Result<(), SysctlError> {
    if read(MAX).is_none() {
        load_conntrack();
    }
    write(plan(settings, cores(), read))
}

/// Writes what is not so already. Tries everything before it fails. In the network namespace of the
/// calling thread.
///
/// # Errors
/// [`SysctlError`], with everything that was refused.
pub fn write(wanted: impl IntoIterator<Item = Write>) -> Result<(), SysctlError> {
    let mut refused = Vec::new();
    for write in wanted {
        let was = read(write.path);
        if was == Some(write.value) {
            continue;
        }
        match fs::write(write.path, write.value.to_string()) {
            Ok(()) => info!(path = write.path, value = write.value, was, "sysctl set"),
            // Only how fast the table is depends on it.
            Err(reason) if write.path == HASHSIZE && is_read_only(&reason) => {
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

fn is_read_only(error: &io::Error) -> bool {
    error.raw_os_error().map(Errno::from_raw) == Some(Errno::EROFS)
}

fn read(path: &'static str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Any question makes the kernel load the module (`nfnetlink_rcv_msg`). That it fails shows in the
/// write that follows.
fn load_conntrack() {
    let nobody = FlowFilter {
        family: Family::Ipv4,
        destination: Some(Ipv4Addr::UNSPECIFIED.into()),
        protocol: None,
        destination_port: None,
    };
    let _ = Conntrack::open().map(|mut it| it.flows(&nobody));
}

/// Cores of the machine, whichever of them this process may run on: the table is everybody's.
fn cores() -> usize {
    let online = fs::read_to_string(ONLINE).ok();
    let online = online.and_then(|it| count(it.trim()));
    online.unwrap_or_else(|| thread::available_parallelism().map_or(1, NonZeroUsize::get))
}

/// How many a list like `0-3,8` names; `None` when it is none.
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
