//! What the kernel's network says while the agent runs: forwarding, connection tracking. All of it is
//! of the calling thread's network namespace and can be read in the [sandbox](crate::sandbox).

use std::fs;

use sluice_model::IpFamily;

/// One row for each CPU, in hexadecimal (`nf_conntrack_standalone.c`, `ct_cpu_seq_show`).
const STATISTICS: &str = "/proc/thread-self/net/stat/nf_conntrack";

/// The setting without which only this node itself reaches endpoints elsewhere.
#[must_use]
pub fn forwarding_sysctl(family: IpFamily) -> &'static str {
    match family {
        IpFamily::V4 => "net.ipv4.ip_forward",
        IpFamily::V6 => "net.ipv6.conf.all.forwarding",
    }
}

/// Whether the node forwards packets; `None` where the kernel lacks the family.
#[must_use]
pub fn forwards(family: IpFamily) -> Option<bool> {
    let path = forwarding_sysctl(family).replace('.', "/");
    Some(number(&format!("/proc/sys/{path}"))? != 0)
}

/// The table of connection tracking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conntrack {
    /// Entries in use.
    pub entries: u64,
    /// Most entries. A connection that finds the table full is dropped.
    pub limit: u64,
    /// Zero where the kernel was built without `CONFIG_NF_CONNTRACK_PROCFS`.
    pub statistics: Statistics,
}

/// What became of entries, since the namespace was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Packets dropped for want of an entry: the table was full.
    pub drop: u64,
    /// Entries removed before their time, because the table was full.
    pub early_drop: u64,
    /// New entries, with their packets, that lost against one with the same addresses and ports.
    pub insert_failed: u64,
}

/// The present state; `None` before the kernel module is loaded.
#[must_use]
pub fn conntrack() -> Option<Conntrack> {
    let statistics = fs::read_to_string(STATISTICS).unwrap_or_default();
    Some(Conntrack {
        entries: number("/proc/sys/net/netfilter/nf_conntrack_count")?,
        limit: number("/proc/sys/net/netfilter/nf_conntrack_max")?,
        statistics: Statistics::parse(&statistics),
    })
}

impl Statistics {
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

fn number(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_sums_over_cpus() {
        let text = "\
entries  clashres found new invalid ignore delete chainlength insert insert_failed drop early_drop icmp_error
00000012  00000000 00000000 00000000 00000003 00000000 00000000 00000000 00000000 00000001 0000000a 00000002 00000000
00000012  00000000 00000000 00000000 00000003 00000000 00000000 00000000 00000000 00000001 00000010 00000000 00000000
";
        let expected = Statistics {
            drop: 26,
            early_drop: 2,
            insert_failed: 2,
        };
        assert_eq!(Statistics::parse(text), expected);
        assert_eq!(Statistics::parse(""), Statistics::default());
    }
}
