//! Forwarding and connection tracking of the machine.

use sluice_model::IpFamily;
use sluice_netlink::conntrack::{Failures, Table};

use super::read;
use super::report::{Finding, State};

/// Percent of the connection tracking table from which on it is nearly full, and full.
const NEARLY: u64 = 80;
const FULL: u64 = 95;

/// Whether the kernel forwards packets of other hosts and pods.
pub(super) fn forwarding(family: IpFamily) -> Finding {
    let name = match family {
        IpFamily::V4 => "net.ipv4.ip_forward",
        IpFamily::V6 => "net.ipv6.conf.all.forwarding",
    };
    let path = format!("/proc/sys/{}", name.replace('.', "/"));
    match read(&path).as_deref() {
        Some("0") => Finding::fail(
            "forwarding",
            format!("{name} is 0: the kernel drops packets of pods and other hosts"),
        )
        .mend(format!(
            "sysctl -w {name}=1, and in /etc/sysctl.d what set it to 0"
        )),
        Some(value) => Finding::ok("forwarding", format!("{name} is {value}")),
        None => Finding::skip("forwarding", format!("{path} cannot be read")),
    }
}

/// How full the table of connections is, and what could not be entered.
pub(super) fn conntrack() -> Vec<Finding> {
    let Some(table) = Table::now() else {
        let evidence =
            "no connection is tracked here (nf_conntrack is not loaded, or not readable)";
        return vec![Finding::skip("conntrack", evidence)];
    };
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
