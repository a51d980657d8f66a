//! How full the table is, as the calling thread's network namespace shows it under `/proc`: netlink
//! tells the same, and only to who has `CAP_NET_ADMIN`.

use std::fs;

const COUNT: &str = "/proc/sys/net/netfilter/nf_conntrack_count";
const MAX: &str = "/proc/sys/net/netfilter/nf_conntrack_max";
/// One row for each CPU, in hexadecimal (`ct_cpu_seq_show`, `nf_conntrack_standalone.c`).
const STATISTICS: &str = "/proc/thread-self/net/stat/nf_conntrack";

/// The connection tracking table of a network namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Entries in use.
    pub entries: u64,
    /// Most entries; 0 stands for no limit. A connection that finds the table full is dropped.
    pub limit: u64,
    /// Zero where the kernel was built without `CONFIG_NF_CONNTRACK_PROCFS`.
    pub failures: Failures,
}

/// Entries that there should have been, since the namespace was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// Packets dropped for want of an entry: the table was full.
    pub drop: u64,
    /// Entries removed before their time, because the table was full.
    pub early_drop: u64,
    /// New entries, with their packets, that lost against one with the same addresses and ports.
    pub insert_failed: u64,
}

impl Table {
    /// The present state; `None` before the kernel module is loaded.
    #[must_use]
    pub fn now() -> Option<Self> {
        let number = |path| fs::read_to_string(path).ok()?.trim().parse().ok();
        let statistics = fs::read_to_string(STATISTICS).unwrap_or_default();
        Some(Self {
            entries: number(COUNT)?,
            limit: number(MAX)?,
            failures: Failures::parse(&statistics),
        })
    }
}

impl Failures {
    /// Adds up the rows. Columns are known by the names in the first line: they depend on the version.
    fn parse(text: &str) -> Self {
        let mut rows = text.lines().map(str::split_whitespace);
        let names: Vec<&str> = rows.next().into_iter().flatten().collect();
        let mut sums = Self::default();
        for (name, value) in rows.flat_map(|row| names.iter().zip(row)) {
            let sum = match *name {
                "drop" => &mut sums.drop,
                "early_drop" => &mut sums.early_drop,
                "insert_failed" => &mut sums.insert_failed,
                _ => continue,
            };
            *sum += u64::from_str_radix(value, 16).unwrap_or_default();
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_sums_over_cpus() {
        let text = "\
entries  clashres found new invalid ignore delete chainlength insert insert_failed drop early_drop icmp_error
00000012  00000000 00000000 00000000 00000003 00000000 00000000 00000000 00000000 00000001 0000000a 00000002 00000000
00000012  00000000 00000000 00000000 00000003 00000000 00000000 00000000 00000000 00000001 00000010 00000000 00000000
";
        let expected = Failures {
            drop: 26,
            early_drop: 2,
            insert_failed: 2,
        };
        assert_eq!(Failures::parse(text), expected);
        assert_eq!(Failures::parse(""), Failures::default());
    }
}
