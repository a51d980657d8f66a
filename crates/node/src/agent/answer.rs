//! What the agent says about itself.

use sluice_plane::{DataPlane, RuleCount};

use super::{Agent, seconds};
use crate::status::{
    IssueStatus, ProblemStatus, ProtectionStatus, RefusedStatus, RulesStatus, Status,
};

impl<P: DataPlane> Agent<P> {
    /// Everything that people ask about.
    pub(super) fn status(&self) -> Status {
        let succeeded = self.last_sync.as_ref().is_some_and(|it| it.error.is_none());
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            node: self.proxy.planner().settings().node_name.to_string(),
            mode: P::NAME.to_owned(),
            uptime_seconds: seconds(self.started.elapsed()),
            source_synced: self.proxy.planner().is_synced(),
            synced: succeeded && !self.pace.is_wanted(),
            services: self.tally.services,
            service_ports: self.tally.service_ports(),
            frontends: self.tally.frontends(),
            endpoints: self.tally.endpoints(),
            rules: self.rules(),
            localhost_node_ports: self.has_localhost_node_ports(),
            last_sync: self.last_sync.clone(),
            syncs: self.syncs,
            failures: self.failures,
            repairs: self.repairs,
            conntrack_deleted: self.outputs.metrics.conntrack_deletions(),
            unprotected: self.unprotected(),
            issues: self.issues(),
            problems: self.problems(),
            unserved: self.unserved().map(|it| it.to_string()),
            refused: self.refused(),
        }
    }

    fn rules(&self) -> Vec<RulesStatus> {
        let counts = self.proxy.reconciler().backend().rule_counts().into_iter();
        let status = |it: RuleCount| RulesStatus {
            family: it.family.to_string(),
            table: it.table.to_owned(),
            total: it.total,
            last: it.last,
        };
        counts.map(status).collect()
    }

    fn has_localhost_node_ports(&self) -> bool {
        let families = &self.proxy.plan().node.families;
        families.iter().any(|it| it.node_ports_on_loopback)
    }

    /// The defaults are kube-proxy's, so that a drop-in breaks nobody.
    fn unprotected(&self) -> Vec<ProtectionStatus> {
        let settings = self.proxy.planner().settings();
        let any_external_ip = ProtectionStatus {
            option: "--external-ip-allow".to_owned(),
            risk: "whoever may write a Service may take any external IP (CVE-2020-8554)".to_owned(),
        };
        let shadowing = ProtectionStatus {
            option: "--refuse-shadowing-vips".to_owned(),
            risk: "Services may take addresses of nodes and pods".to_owned(),
        };
        let off = [
            (settings.external_ips.is_none(), any_external_ip),
            (!settings.refuse_shadowing, shadowing),
        ];
        let off = off.into_iter().filter(|(is_off, _)| *is_off);
        off.map(|(_, protection)| protection).collect()
    }

    pub(super) fn issues(&self) -> Vec<IssueStatus> {
        let all = self.proxy.planner().issues();
        all.map(|it| IssueStatus::from(&it)).collect()
    }

    pub(super) fn problems(&self) -> Vec<ProblemStatus> {
        let all = self.proxy.planner().problems();
        all.map(|(origin, message)| ProblemStatus {
            origin: origin.to_string(),
            message: message.clone(),
        })
        .collect()
    }

    pub(super) fn refused(&self) -> Vec<RefusedStatus> {
        let all = self.proxy.reconciler().refusals().iter();
        all.map(|(key, refusal)| RefusedStatus {
            service_port: key.name.to_string(),
            family: key.family.to_string(),
            protocol: key.name.protocol.to_string(),
            reason: refusal.reason.clone(),
        })
        .collect()
    }
}
