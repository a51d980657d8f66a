//! Writes sysctls.
//!
//! A value that is there already is not written, so read-only `/proc/sys` and `/sys` are good
//! enough for a machine that is set up. The old value of each is kept in a file first ([`Memory`]).

mod memory;
#[cfg(test)]
mod tests;

use std::fmt;
use std::fs;
use std::io;

use nix::errno::Errno;
use tracing::{info, warn};

pub use memory::{Changed, Memory, MemoryError, State};

/// The file with the number of buckets of the conntrack table.
pub const HASHSIZE: &str = "/sys/module/nf_conntrack/parameters/hashsize";

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
    /// The operator's alternatives to letting us write the value.
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
        // The same advice once, after all values that it concerns.
        for remedy in self.0.iter().filter_map(Refused::remedy) {
            if !all.contains(&remedy) {
                all.push(remedy);
            }
        }
        f.write_str(&all.join("; "))
    }
}

impl std::error::Error for SysctlError {}

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

/// The value of a sysctl; `None` when it is no number or cannot be read.
#[must_use]
pub fn read(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}
