//! Forwarding and connection tracking of the machine.

use sluice_model::IpFamily;
use sluice_netlink::conntrack::{Failures, Table};

use super::report::{Finding, State};
use crate::sysctl;

/// Percent of the connection tracking table from which on it is nearly full, and full.
const NEARLY: u64 = 80;
const FULL: u64 = 95;

/// Whether the kernel forwards packets of other hosts and pods.
pub(super) fn forwarding(family: IpFamily) -> Finding {
    let name = match family {
        IpFamily::V4 => "net.ipv4.ip_forward",
        IpFamily::V6 => "net.ipv6.conf.all.forwarding",
    };
    let key = name.replace('.', "/");
    match sysctl(&key) {
        Some(0) => Finding::fail(
            "forwarding",
            format!("{name} is 0: the kernel drops packets of pods and other hosts"),
        )
        .mend(format!(
            "sysctl -w {name}=1, and in /etc/sysctl.d what set it to 0"
        )),
        Some(value) => Finding::ok("forwarding", format!("{name} is {value}")),
        None => Finding::skip("forwarding", format!("/proc/sys/{key} cannot be read")),
    }
}

/// How full the table of connections is, and what could not be entered.
pub(super) fn conntrack() -> Vec<Finding> {
    let unknown = "no connection is tracked here (nf_conntrack is not loaded, or not readable)";
    Table::now().map_or_else(|| vec![Finding::skip("conntrack", unknown)], fullness)
}

fn fullness(table: Table) -> Vec<Finding> {
    let (count, max) = (table.entries, table.limit);
    // 0 stands for no limit (nf_conntrack_core.c).
    let percent = (count * 100).checked_div(max).unwrap_or_default();
    let evidence = format!("{count} of {max} entries ({percent} %)");
    let state = match percent {
        FULL.. => State::Fail,
        NEARLY.. => State::Warn,
        _ => State::Ok,
    };
    let mut first = Finding::new("conntrack", state, evidence);
    if state != State::Ok {
        first = first.mend(format!(
            "sysctl -w net.netfilter.nf_conntrack_max={}; conntrack -L | awk '{{print $1, $4}}' | sort | \
             uniq -c: who opens so many?",
            max * 2
        ));
    }
    let mut findings = vec![first];
    findings.extend(drops(table.failures));
    findings
}

/// New connections that were dropped because the table was full.
fn drops(failures: Failures) -> Option<Finding> {
    let (dropped, early) = (failures.drop, failures.early_drop);
    (dropped + early > 0).then(|| {
        Finding::warn(
            "conntrack",
            format!(
                "since boot {dropped} new connections were dropped, and {early} others pushed out, \
                 because the table was full"
            ),
        )
        .mend("raise net.netfilter.nf_conntrack_max, or conntrack.maxPerCore in the configuration")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(entries: u64, limit: u64, expected: State) {
        let failures = Failures::default();
        let table = Table {
            entries,
            limit,
            failures,
        };
        let [found] = &fullness(table)[..] else {
            panic!("one finding");
        };
        assert_eq!(found.state, expected, "{found:?}");
        assert!(
            found
                .evidence
                .starts_with(&format!("{entries} of {limit} entries")),
            "{found:?}"
        );
        assert_eq!(found.mend.is_some(), expected != State::Ok, "{found:?}");
    }

    #[test]
    fn a_table_is_nearly_full_from_80_percent_and_full_from_95() {
        check(79_999, 100_000, State::Ok);
        check(80_000, 100_000, State::Warn);
        check(94_999, 100_000, State::Warn);
        check(95_000, 100_000, State::Fail);
        check(262_144, 262_144, State::Fail);
        check(7, 0, State::Ok);
    }

    #[test]
    fn lost_connections_are_told_when_the_table_has_room_again() {
        let failures = Failures {
            drop: 3,
            early_drop: 2,
            insert_failed: 9,
        };
        let found = fullness(Table {
            entries: 0,
            limit: 8,
            failures,
        });
        assert_eq!(found[1].state, State::Warn);
        assert!(
            found[1]
                .evidence
                .contains("3 new connections were dropped, and 2 others")
        );
    }
}
