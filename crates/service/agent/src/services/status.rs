//! The answer to `sluice status`.

use prometheus::IntGauge;
use sluice_model::IpFamily;
use sluice_node::{PerFamily, forwarding};
use sluice_plan::PortKey;
use sluice_plan::issue::Issue;
use sluice_plane::{DataPlane, RuleCount, TableFill};
use sluice_reconcile::Refusal;

use super::Services;
use crate::status::{
    IssueStatus, ProblemStatus, ProtectionStatus, RefusedStatus, RulesStatus, ServiceStatus,
    TableStatus,
};
use crate::takeover::DRAIN_LIMIT;

impl<P: DataPlane> Services<P> {
    pub(super) fn service_status(&self) -> ServiceStatus {
        let succeeded = self.history.last().is_some_and(|it| it.error.is_none());
        let ours = &self.outputs.metrics.ours;
        let planner = self.proxy.planner();
        let backend = self.proxy.reconciler().backend();
        let families = &self.proxy.plan().node.families;
        let fills = backend.table_fills().map_or_else(Vec::new, |read| read());
        let full = fills
            .iter()
            .flat_map(|it| [full_table(it), dropping_table(it)]);
        let full = full.flatten();
        let carried = carried(self.outputs.carried.count());
        ServiceStatus {
            source_synced: planner.is_synced(),
            synced: succeeded && !self.pace.is_wanted(),
            services: count(&ours.services),
            service_ports: sum(&ours.service_ports),
            without_endpoints: sum(&ours.without_endpoints),
            frontends: sum(&ours.frontends),
            endpoints: sum(&ours.endpoints),
            rules: backend.rule_counts().iter().map(rules).collect(),
            tables: fills.iter().map(table).collect(),
            localhost_node_ports: families.iter().any(|it| it.node_ports_on_loopback),
            last_sync: self.history.last().cloned(),
            syncs: self.syncs,
            failures: self.failures,
            repairs: self.repairs,
            conntrack_deleted: self.outputs.metrics.conntrack_deletions(),
            forwarding_off: self.forwarding_off(),
            unprotected: self.unprotected(),
            issues: planner
                .issues()
                .map(|it| issue(&it))
                .chain(full)
                .chain(carried)
                .collect(),
            problems: self.problems().collect(),
            unserved: backend.unserved().map(|it| it.to_string()),
            refused: self.refused().collect(),
        }
    }

    /// The sysctls that are 0 and that a family with Services needs.
    fn forwarding_off(&self) -> Vec<String> {
        let ports = &self.outputs.metrics.ours.service_ports;
        let off = forwarding::off().into_iter();
        let off = off.filter(|it| ports.of(*it).get() > 0);
        off.map(|it| forwarding::sysctl(it).to_owned()).collect()
    }

    /// The protections that are off. The defaults are kube-proxy's, so that a drop-in changes
    /// nothing.
    pub(super) fn unprotected(&self) -> Vec<ProtectionStatus> {
        let settings = self.proxy.planner().settings();
        let all = [
            (
                settings.external_ips.is_none(),
                "--external-ip-allow",
                "whoever may write a Service may take any external IP (CVE-2020-8554)",
            ),
            (
                !settings.refuse_shadowing,
                "--refuse-shadowing-vips",
                "Services may take addresses of nodes and pods",
            ),
        ];
        let off = all.into_iter().filter(|(is_off, ..)| *is_off);
        off.map(|(_, option, risk)| ProtectionStatus {
            option: option.to_owned(),
            risk: risk.to_owned(),
        })
        .collect()
    }

    fn problems(&self) -> impl Iterator<Item = ProblemStatus> {
        let all = self.proxy.planner().problems();
        all.map(|(origin, message)| ProblemStatus {
            origin: origin.to_string(),
            message: message.clone(),
        })
    }

    fn refused(&self) -> impl Iterator<Item = RefusedStatus> {
        let all = self.proxy.reconciler().refusals().iter();
        all.map(|(key, it)| refused(key, it))
    }
}

pub(super) fn refused(key: &PortKey, refusal: &Refusal) -> RefusedStatus {
    RefusedStatus {
        service_port: key.name.to_string(),
        family: key.family.to_string(),
        protocol: key.name.protocol.to_string(),
        reason: refusal.reason.clone(),
    }
}

fn rules(it: &RuleCount) -> RulesStatus {
    RulesStatus {
        family: it.family.to_string(),
        table: it.table.to_owned(),
        total: it.total,
        last: it.last,
    }
}

fn table(it: &TableFill) -> TableStatus {
    TableStatus {
        table: it.table.to_owned(),
        entries: it.entries,
        capacity: it.capacity,
    }
}

fn full_table(it: &TableFill) -> Option<IssueStatus> {
    let what = match (&it.refused, it.when_full) {
        (Some(reason), _) => format!("the kernel gives no larger one: {reason}"),
        (None, Some(what)) if it.needs_room() => what.to_owned(),
        (None, _) => return None,
    };
    Some(table_issue("TableFilling", it, &what))
}

fn dropping_table(it: &TableFill) -> Option<IssueStatus> {
    let what = it.dropping.as_ref()?;
    Some(table_issue("ConnectionsDropped", it, what))
}

fn table_issue(reason: &str, it: &TableFill, what: &str) -> IssueStatus {
    let (table, entries, capacity) = (it.table, it.entries, it.capacity);
    IssueStatus {
        reason: reason.to_owned(),
        message: format!("map {table} has {entries} entries of {capacity}: {what}"),
    }
}

/// The issue of connections that an earlier data plane still carries; `None` without any.
fn carried(connections: usize) -> Option<IssueStatus> {
    let minutes = DRAIN_LIMIT.as_secs() / 60;
    (connections > 0).then(|| IssueStatus {
        reason: "EarlierDataPlane".to_owned(),
        message: format!(
            "the programs or virtual servers of an earlier data plane still carry connections ({connections}): \
             they go when these have ended, after {minutes} minutes at most"
        ),
    })
}

fn issue(it: &Issue) -> IssueStatus {
    IssueStatus {
        reason: it.kind.name().to_owned(),
        message: it.to_string(),
    }
}

fn count(gauge: &IntGauge) -> usize {
    usize::try_from(gauge.get()).unwrap_or_default()
}

pub(super) fn sum(gauges: &PerFamily<IntGauge>) -> usize {
    IpFamily::ALL.map(|it| count(gauges.of(it))).iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(entries: u64, refused: Option<&str>, expected: Option<&str>) {
        let fill = TableFill {
            table: "FLOWS",
            entries,
            capacity: 1_000,
            when_full: Some("raise --ebpf-flows"),
            refused: refused.map(str::to_owned),
            ..TableFill::default()
        };
        let message = full_table(&fill).map(|it| it.message);
        assert_eq!(message.as_deref(), expected);
    }

    #[test]
    fn connections_of_an_earlier_data_plane_are_an_issue() {
        assert_eq!(carried(0), None);
        let message = carried(3).map(|it| it.message).unwrap_or_default();
        assert!(message.contains("still carry connections (3)"), "{message}");
    }

    #[test]
    fn a_table_that_fills_up_is_an_issue() {
        check(800, None, None);
        let filling = "map FLOWS has 801 entries of 1000: raise --ebpf-flows";
        check(801, None, Some(filling));
        let refused = "map FLOWS has 7 entries of 1000: the kernel gives no larger one: no memory";
        check(7, Some("no memory"), Some(refused));
    }

    #[test]
    fn dropped_connections_are_an_issue() {
        let mut fill = TableFill {
            table: "FLOWS",
            entries: 1_000,
            capacity: 1_000,
            ..TableFill::default()
        };
        assert_eq!(dropping_table(&fill), None);
        fill.dropping = Some("new connections are dropped".to_owned());
        let message = dropping_table(&fill).map(|it| it.message);
        let expected = "map FLOWS has 1000 entries of 1000: new connections are dropped";
        assert_eq!(message.as_deref(), Some(expected));
    }
}
