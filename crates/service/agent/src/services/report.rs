//! Publishes problems that changed: metrics, log and Events.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use sluice_model::{NamespacedName, Notice};
use sluice_node::metrics::to_gauge;
use sluice_plan::issue::Issue;
use sluice_plan::{Changes, PortKey};
use sluice_plane::DataPlane;

use super::Services;
use super::findings::{Finding, Topic, event_reason, lasts, service_of};
use crate::status::ProblemStatus;

impl<P: DataPlane> Services<P> {
    /// Publishes the changes of a sync. `written` are the Services that it wrote; `None` for all. `end`: now.
    pub(super) fn report(
        &mut self,
        changes: &Changes,
        written: Option<BTreeSet<NamespacedName>>,
        is_synced: bool,
        end: Instant,
    ) {
        let planner = self.proxy.planner();
        let reconciler = self.proxy.reconciler();
        let node_issues = planner.node_issues();
        let ours = &self.outputs.metrics.ours;
        for change in changes.issues.values() {
            ours.count_issues(&change.old, -1);
            ours.count_issues(&change.new, 1);
        }
        ours.set_node_issues(&node_issues);
        if !changes.problems.is_empty() {
            ours.problems.set(to_gauge(planner.problems().count()));
        }
        if changes.problems.contains(Notice::API_SERVER) {
            self.report_stale();
        }
        ours.refused.set(to_gauge(reconciler.refusals().len()));
        ours.set_complete(&self.complete());

        let written = written.unwrap_or_else(|| {
            let refused = reconciler.refusals().keys();
            let refused = refused.map(|it| it.name.service.clone());
            refused.chain(self.findings.refused()).collect()
        });
        let mut now = BTreeMap::new();
        for (name, change) in &changes.issues {
            let found = change.new.iter().map(of_issue).collect();
            now.insert(Topic::Issues(name.clone()), found);
        }
        now.insert(Topic::Node, node_issues.iter().map(of_issue).collect());
        // The source logs what becomes of its connection.
        let origins = changes.problems.iter();
        for origin in origins.filter(|it| &***it != Notice::API_SERVER) {
            let found = planner.problems_of(origin).iter();
            let found = found.map(|message| of_problem(origin, message)).collect();
            now.insert(Topic::Source(origin.clone()), found);
        }
        let unserved = reconciler.backend().unserved().map(|it| Finding {
            from: "kernel",
            kind: "Unserved",
            lasts: Duration::ZERO,
            about: it.family.to_string(),
            text: it.to_string(),
            event: None,
        });
        // After a sync that failed for all families, the one that failed before is no better than it was.
        if is_synced || unserved.is_some() {
            now.insert(Topic::Kernel, unserved.into_iter().collect());
        }
        for name in written {
            let found = self.refusals_of(&name);
            now.insert(Topic::Refusals(name), found);
        }
        self.findings.update(now, end, &self.outputs.announce);
    }

    /// Tells the probes what the API server has not kept up to date.
    pub(super) fn report_stale(&self) {
        let stale = self.proxy.planner().problems_of(Notice::API_SERVER);
        self.outputs.health.set_stale(stale);
    }

    fn refusals_of(&self, service: &NamespacedName) -> BTreeSet<Finding> {
        let all = self.proxy.reconciler().refusals();
        let own = PortKey::of_service(all, service);
        let finding = |key: &PortKey, it| {
            let it = super::status::refused(key, it);
            Finding {
                from: "kernel",
                kind: "Refused",
                lasts: Duration::ZERO,
                about: format!("{} {} {}", it.service_port, it.family, it.protocol),
                text: it.to_string(),
                event: Some((service.clone(), "ServiceRefused")),
            }
        };
        own.map(|(key, it)| finding(key, it)).collect()
    }
}

fn of_issue(issue: &Issue) -> Finding {
    let service = issue.service.as_ref();
    let name = service.map_or_else(String::new, ToString::to_string);
    Finding {
        from: "object",
        kind: issue.kind.name(),
        lasts: lasts(issue.kind),
        about: format!("{} {name}", issue.kind.name()),
        text: issue.to_string(),
        event: service.cloned().zip(event_reason(issue)),
    }
}

fn of_problem(origin: &str, message: &str) -> Finding {
    let it = ProblemStatus {
        origin: origin.to_owned(),
        message: message.to_owned(),
    };
    Finding {
        from: "source",
        kind: "Problem",
        lasts: Duration::ZERO,
        text: it.to_string(),
        event: service_of(origin).map(|it| (it, "ServiceInvalid")),
        about: it.origin,
    }
}
