//! Rules of legacy iptables, which the kernel does not trace: their counters before and after.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::time::Duration;

use serde::Serialize;
use sluice_xtables::programs;

/// Timeout of one listing of all rules.
const LISTING: Duration = Duration::from_secs(5);

/// A rule of legacy iptables that counted packets during the trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LegacyRule {
    /// Name of the table.
    pub table: String,
    /// As `iptables -S` prints it.
    pub text: String,
    /// How many packets, this one and others.
    pub packets: u64,
}

impl LegacyRule {
    /// Whether it keeps packets from their way.
    pub(super) fn drops(&self) -> bool {
        ["-j DROP", "-j REJECT"]
            .iter()
            .any(|it| self.text.contains(it))
    }
}

/// Packets by table and rule. Equal rules of a table are one.
type Counters = BTreeMap<(String, String), u64>;

/// The counters of all rules of the address's family in the calling thread's network namespace; none
/// where legacy iptables has no table, or its programs are missing.
pub(super) fn counters(ip: IpAddr) -> Counters {
    let (tables, program) = match ip {
        IpAddr::V4(_) => ("ip_tables_names", "iptables-legacy-save"),
        IpAddr::V6(_) => ("ip6_tables_names", "ip6tables-legacy-save"),
    };
    // The program itself would make the tables.
    let tables = fs::read_to_string(format!("/proc/thread-self/net/{tables}"));
    match tables {
        Ok(tables) if !tables.trim().is_empty() => {}
        _ => return Counters::new(),
    }
    let printed = programs::output(program, &["-c"], LISTING);
    parse(&printed.unwrap_or_default())
}

fn parse(printed: &str) -> Counters {
    let mut counters = Counters::new();
    let mut table = "";
    for line in printed.lines() {
        if let Some(name) = line.strip_prefix('*') {
            table = name;
        } else if let Some((packets, rule)) = rule(line) {
            *counters
                .entry((table.to_owned(), rule.to_owned()))
                .or_default() += packets;
        }
    }
    counters
}

/// Reads `[packets:bytes] -A CHAIN …`.
fn rule(line: &str) -> Option<(u64, &str)> {
    let (counter, rule) = line.strip_prefix('[')?.split_once("] ")?;
    let (packets, _) = counter.split_once(':')?;
    Some((packets.parse().ok()?, rule))
}

/// The rules that counted more than before.
pub(super) fn more(before: &Counters, after: &Counters) -> Vec<LegacyRule> {
    let rule = |((table, text), packets): (&(String, String), &u64)| {
        let earlier = before.get(&(table.clone(), text.clone())).unwrap_or(&0);
        let packets = packets.checked_sub(*earlier).filter(|it| *it > 0)?;
        Some(LegacyRule {
            table: table.clone(),
            text: text.clone(),
            packets,
        })
    };
    after.iter().filter_map(rule).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_that_counted_are_found() {
        let before = "*filter\n:INPUT ACCEPT [0:0]\n[3:180] -A INPUT -j DROP\n[0:0] -A FORWARD -j ACCEPT\nCOMMIT\n";
        let after = before.replace("[3:180]", "[4:240]");
        let found = more(&parse(before), &parse(&after));
        let expected = LegacyRule {
            table: "filter".into(),
            text: "-A INPUT -j DROP".into(),
            packets: 1,
        };
        assert!(expected.drops());
        assert_eq!(found, [expected]);
    }
}
