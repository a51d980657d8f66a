//! The status as a table.

use std::fmt::Display;

use sluice_agent::status::{Status, SyncStatus};

use super::{Whole, columns, pair};

/// Most lines of a list; `-o json` has the rest.
const SHOWN: usize = 20;

const LOCALHOST_NODE_PORTS: &str = "yes, guarded against other hosts (CVE-2020-8558); off by \
                                    --iptables-localhost-nodeports=false";

const FORWARDING_OFF: &str = "off, only this node itself reaches endpoints elsewhere and in pods";

/// Names and values in two columns, then lists of everything that is wrong.
pub(super) fn of(whole: &Whole) -> String {
    let Whole {
        status,
        dns,
        network_policy,
    } = whole;
    let mut rows = Vec::new();
    let mut add = |name: &str, value: &dyn Display| rows.push(pair(name, value));
    if let Some(busy) = &status.agent.busy {
        add("busy", &format!("{busy}; what follows is from before"));
    }
    if let Some(since) = status.stale_since() {
        let what = format!("since {since}: the API server tells nothing new, rules may be old");
        add("stale", &what);
    }
    add("node", &status.agent.node);
    add("mode", &status.agent.mode);
    let up = uptime(status.agent.uptime_seconds);
    add(
        "agent",
        &format!(
            "sluice {}, pid {}, up {up}",
            status.agent.version, status.agent.pid
        ),
    );
    add("rules", &state(status));
    add("services", &status.services);
    add("service ports", &service_ports(status));
    add("frontends", &status.frontends);
    add("endpoints", &status.endpoints);
    if !status.rules.is_empty() {
        let rules: Vec<String> = status.rules.iter().map(ToString::to_string).collect();
        add("rule counts", &rules.join(", "));
    }
    if !status.tables.is_empty() {
        let tables: Vec<String> = status.tables.iter().map(ToString::to_string).collect();
        add("maps", &tables.join(", "));
    }
    if status.localhost_node_ports {
        add("NodePorts on 127.0.0.1", &LOCALHOST_NODE_PORTS);
    }
    if let Some(dns) = dns {
        let addresses: Vec<String> = dns.addresses.iter().map(ToString::to_string).collect();
        let addresses = addresses.join(", ");
        let value = format!("answers on {addresses}, else Service {}", dns.service);
        add("DNS of this node", &value);
    }
    if let Some(policy) = network_policy {
        add("network policy", &policy);
    }
    if !status.forwarding_off.is_empty() {
        let sysctls = status.forwarding_off.join(", ");
        add("forwarding", &format!("{FORWARDING_OFF}: {sysctls}"));
    }
    let last = status.last_sync.as_ref().map(last_sync);
    add("last sync", &last.unwrap_or_else(|| "none yet".to_owned()));
    let (syncs, failures) = (status.syncs, status.failures);
    add("syncs", &format!("{syncs}, {failures} failed"));
    add("repairs", &status.repairs);
    add("conntrack deleted", &status.conntrack_deleted);
    let mut text = columns(&rows, 0);
    list(&mut text, "issues", &status.issues);
    list(&mut text, "problems of the source", &status.problems);
    list(&mut text, "not served", status.unserved.as_slice());
    list(
        &mut text,
        "refused: the machine lacks something",
        &status.refused,
    );
    text
}

fn service_ports(status: &Status) -> String {
    match (status.service_ports, status.without_endpoints) {
        (all, 0) => all.to_string(),
        (all, without) => format!("{all}, {without} without endpoints: see --services"),
    }
}

/// Whether the rules match the source. A source with problems may lack objects.
pub(crate) fn state(status: &Status) -> &'static str {
    let is_refused = !status.refused.is_empty() || status.unserved.is_some();
    let is_stale = !status.problems.is_empty();
    match (status.source_synced, status.synced) {
        (false, _) => "not written: waiting for the first complete list",
        (true, false) => "behind: a sync is pending",
        (true, true) => match (is_refused, is_stale) {
            (false, false) => "up to date",
            (true, false) => "up to date, except for what is refused",
            (false, true) => "up to date with what could be read: see problems of the source",
            (true, true) => {
                "up to date with what could be read, except for what is refused: see problems of the source"
            }
        },
    }
}

/// When the last sync was, and what it did.
pub(crate) fn last_sync(sync: &SyncStatus) -> String {
    let when = sync.when.split_once('.').map_or(&*sync.when, |(it, _)| it);
    let when = when.replace('T', " ").replace('Z', "");
    let millis = sync.elapsed_seconds * 1000.0;
    if let Some(error) = &sync.error {
        return format!("{when} UTC, failed after {millis:.1} ms: {error}");
    }
    let kind = if sync.full { "full" } else { "difference" };
    let (added, replaced, deleted) = (sync.added, sync.replaced, sync.deleted);
    format!(
        "{when} UTC, {kind}: {added} added, {replaced} replaced, {deleted} deleted in {millis:.1} ms"
    )
}

/// Two units: `1h2m`.
pub(crate) fn uptime(seconds: f64) -> String {
    let seconds = seconds as u64;
    let (days, hours) = (seconds / 86_400, seconds / 3600 % 24);
    let (minutes, rest) = (seconds / 60 % 60, seconds % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{rest}s"),
        (0, 0, _) => format!("{minutes}m{rest}s"),
        (0, ..) => format!("{hours}h{minutes}m"),
        _ => format!("{days}d{hours}h"),
    }
}

fn list(text: &mut String, title: &str, all: &[impl Display]) {
    if all.is_empty() {
        return;
    }
    text.push_str(&format!("\n{title} ({})\n", all.len()));
    for line in all.iter().take(SHOWN) {
        text.push_str(&format!("  {line}\n"));
    }
    if all.len() > SHOWN {
        text.push_str(&format!("  and {} more: see -o json\n", all.len() - SHOWN));
    }
}

#[cfg(test)]
mod tests {
    use sluice_agent::status::{
        IssueStatus, ProblemStatus, ProtectionStatus, RefusedStatus, RulesStatus, ServiceStatus,
        TableStatus,
    };
    use sluice_dns_agent::DnsStatus;
    use sluice_node::AgentStatus;
    use sluice_policy_agent::PolicyStatus;

    use super::*;

    #[test]
    fn values_stand_in_one_column_and_wrongs_in_words() {
        let agent = AgentStatus {
            version: "0.1.0".to_owned(),
            pid: 7,
            node: "node-a".to_owned(),
            mode: "nftables".to_owned(),
            uptime_seconds: 3725.5,
            kubeconfig: None,
            busy: None,
        };
        let proxy = ServiceStatus {
            source_synced: true,
            synced: true,
            services: 3,
            service_ports: 4,
            without_endpoints: 1,
            frontends: 9,
            endpoints: 12,
            rules: vec![RulesStatus {
                family: "IPv4".to_owned(),
                table: "nat".to_owned(),
                total: 34,
                last: 2,
            }],
            tables: vec![TableStatus {
                table: "FLOWS".to_owned(),
                entries: 12,
                capacity: 4096,
            }],
            localhost_node_ports: true,
            last_sync: Some(SyncStatus {
                when: "2026-11-21T12:00:00.123Z".to_owned(),
                added: 2,
                elapsed_seconds: 0.0021,
                ..SyncStatus::default()
            }),
            syncs: 5,
            failures: 1,
            repairs: 2,
            conntrack_deleted: 6,
            forwarding_off: vec!["net.ipv4.ip_forward".to_owned()],
            unprotected: vec![ProtectionStatus {
                option: "--refuse".to_owned(),
                risk: "anybody may".to_owned(),
            }],
            issues: vec![IssueStatus {
                reason: "NoNode".to_owned(),
                message: "Node node-a: no such object".to_owned(),
            }],
            problems: vec![ProblemStatus {
                origin: "web.yaml".to_owned(),
                message: "line 3: no".to_owned(),
            }],
            unserved: Some("IPv6: no room".to_owned()),
            refused: vec![RefusedStatus {
                service_port: "default/web".to_owned(),
                family: "IPv4".to_owned(),
                protocol: "tcp".to_owned(),
                reason: "no memory".to_owned(),
            }],
        };
        let whole = Whole {
            status: Status { agent, proxy },
            dns: Some(DnsStatus {
                service: "kube-system/kube-dns".to_owned(),
                addresses: vec!["10.96.0.10".parse().expect("an address")],
            }),
            network_policy: Some(PolicyStatus {
                addresses: 5,
                isolated: 2,
                policies: 3,
                members: 8,
                is_in_force: false,
                closed: Vec::new(),
                issues: vec!["one is too large".to_owned()],
                repairs: 2,
                last_change: Some("nft (pid 7): table deleted".to_owned()),
                error: "no room".to_owned(),
            }),
        };
        let expected = "\
node                    node-a
mode                    nftables
agent                   sluice 0.1.0, pid 7, up 1h2m
rules                   up to date with what could be read, except for what is refused: see problems of the source
services                3
service ports           4, 1 without endpoints: see --services
frontends               9
endpoints               12
rule counts             IPv4 nat 34
maps                    FLOWS 12 of 4096
NodePorts on 127.0.0.1  yes, guarded against other hosts (CVE-2020-8558); off by --iptables-localhost-nodeports=false
DNS of this node        answers on 10.96.0.10, else Service kube-system/kube-dns
network policy          2 of 5 pod addresses isolated by 3 policies with 8 peers; pods are open until they are known; one is too large; repaired 2 times, the last time after nft (pid 7): table deleted; NOT IN FORCE: no room
forwarding              off, only this node itself reaches endpoints elsewhere and in pods: net.ipv4.ip_forward
last sync               2026-11-21 12:00:00 UTC, difference: 2 added, 0 replaced, 0 deleted in 2.1 ms
syncs                   5, 1 failed
repairs                 2
conntrack deleted       6

issues (1)
  Node node-a: no such object

problems of the source (1)
  web.yaml: line 3: no

not served (1)
  IPv6: no room

refused: the machine lacks something (1)
  Service default/web (IPv4, tcp): no memory
";
        assert_eq!(of(&whole), expected);
    }

    #[test]
    fn rules_are_up_to_date_only_where_nothing_is_stale_or_refused() {
        let synced = ServiceStatus {
            source_synced: true,
            synced: true,
            ..ServiceStatus::default()
        };
        let stale = ServiceStatus {
            problems: vec![ProblemStatus::default()],
            ..synced.clone()
        };
        let unserved = ServiceStatus {
            unserved: Some("IPv6".to_owned()),
            ..synced.clone()
        };
        let state = |proxy| {
            state(&Status {
                proxy,
                ..Status::default()
            })
        };
        assert_eq!(state(synced), "up to date");
        assert_eq!(
            state(stale),
            "up to date with what could be read: see problems of the source"
        );
        assert_eq!(state(unserved), "up to date, except for what is refused");
    }

    #[test]
    fn rules_that_may_be_old_are_told_first() {
        let old = ProblemStatus {
            origin: "API server".to_owned(),
            message: "API server: Services: stale since 2026-01-01T00:00:00Z: refused".to_owned(),
        };
        let mut whole = Whole {
            status: Status::default(),
            dns: None,
            network_policy: None,
        };
        whole.status.proxy.problems.push(old);
        let text = of(&whole);
        let first =
            "stale              since 2026-01-01T00:00:00Z: the API server tells nothing new";
        assert!(text.starts_with(first), "{text}");
    }

    #[test]
    fn long_lists_are_cut() {
        let mut text = String::new();
        list(&mut text, "issues", &["x"; 25]);
        assert_eq!(text.lines().count(), 23);
        assert!(text.ends_with("  and 5 more: see -o json\n"));
    }
}
