//! The lock that programs of the legacy variant take while they write.

use std::env;
use std::fmt;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use nix::sys::stat::{major, minor};

/// Which file, and how long to wait. The nft variant takes none: its transactions are the kernel's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    /// The file.
    pub file: PathBuf,
    /// Seconds to wait until somebody else lets it go.
    pub seconds: u32,
}

impl Default for Lock {
    /// That of `XTABLES_LOCKFILE`, else what programs are built with; five seconds, as kube-proxy.
    fn default() -> Self {
        let named = env::var_os("XTABLES_LOCKFILE").filter(|it| !it.is_empty());
        Self {
            file: named.map_or_else(|| "/run/xtables.lock".into(), PathBuf::from),
            seconds: 5,
        }
    }
}

impl Lock {
    /// Who has it now, as far as can be seen from here.
    pub(super) fn holder(&self) -> Option<Holder> {
        let file = fs::metadata(&self.file).ok()?;
        let locks = fs::read_to_string("/proc/locks").ok()?;
        let pid = holder(&locks, &file)?;
        let command = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        Some(Holder {
            pid,
            command: command.trim_end().to_owned(),
        })
    }
}

/// A process that has the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its number, as we see it.
    pub pid: u32,
    /// Its name; empty when it is gone.
    pub command: String,
}

impl Holder {
    pub(super) fn describe(holder: Option<&Self>) -> String {
        match holder {
            Some(holder) => format!("{holder} holds it"),
            None => "who holds it cannot be seen".to_owned(),
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.command {
            "" => write!(f, "process {}", self.pid),
            command => write!(f, "{} (pid {})", command.escape_debug(), self.pid),
        }
    }
}

/// Reads `/proc/locks` (`fs/locks.c`), whose lines are
/// `1: FLOCK  ADVISORY  WRITE 4711 fe:00:10010746 0 EOF`, with `->` after the number for those who
/// wait.
fn holder(locks: &str, file: &Metadata) -> Option<u32> {
    let device = format!("{:02x}:{:02x}", major(file.dev()), minor(file.dev()));
    find(locks, &device, file.ino())
}

fn find(locks: &str, device: &str, inode: u64) -> Option<u32> {
    let inode = inode.to_string();
    let mut on_other_device = None;
    for line in locks.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, _, _, _, pid, place, ..] = words[..] else {
            continue;
        };
        let Some((at, number)) = place.rsplit_once(':') else {
            continue;
        };
        // A lock of another PID namespace has no process, or none above zero.
        let Some(pid) = pid.parse().ok().filter(|it| *it > 0) else {
            continue;
        };
        if words[1] == "->" || number != inode {
            continue;
        }
        if at == device {
            return Some(pid);
        }
        // Overlayfs and btrfs give files other device numbers than their locks.
        on_other_device = on_other_device.or(Some(pid));
    }
    on_other_device
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCKS: &str = "\
1: FLOCK  ADVISORY  WRITE 21084 fe:00:10010746 0 EOF
1: -> FLOCK  ADVISORY  WRITE 666 fe:00:77 0 EOF
2: POSIX  ADVISORY  READ  914 00:1b:78 128 128
3: OFDLCK ADVISORY  WRITE -1 fe:00:79 0 EOF
4: FLOCK  ADVISORY  WRITE 12 00:1b:80 0 EOF
5: FLOCK  ADVISORY  WRITE 13 fe:00:80 0 EOF
6: LEASE  ACTIVE    READ  7 fe:00:81 0 EOF
broken
";

    #[test]
    fn holders_are_found_by_file() {
        for (inode, pid) in [
            (10_010_746, Some(21_084)),
            (77, None),
            (78, Some(914)),
            (79, None),
            (80, Some(13)),
            (81, Some(7)),
            (82, None),
        ] {
            assert_eq!(find(LOCKS, "fe:00", inode), pid, "{inode}");
        }
    }

    #[test]
    fn holders_are_described() {
        let named = |command: &str| Holder {
            pid: 4,
            command: command.to_owned(),
        };
        let known = named("iptables");
        assert_eq!(Holder::describe(Some(&known)), "iptables (pid 4) holds it");
        assert_eq!(Holder::describe(Some(&named(""))), "process 4 holds it");
        assert_eq!(Holder::describe(None), "who holds it cannot be seen");
    }
}
