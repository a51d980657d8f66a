//! Metrics of network policies.

use std::sync::Arc;

use prometheus::{IntCounter, IntCounterVec, IntGauge};
use sluice_node::Handle;
use sluice_node::metrics::{Metrics, follow};
use sluice_node::server::await_answer;
use sluice_policy_plan::{Direction, Outcome};

use crate::drops::Reports;
use crate::{Policies, PolicyStatus};

/// One line per metric: name and help.
const HELP: &str = "\
sluice_network_policy_in_force 1 while the kernel's rules are those of the policies, in both families.
sluice_network_policy_isolated_pod_addresses Addresses of pods on this node that some policy is about.
sluice_network_policy_issues Problems of policies that do not get all they ask for.
sluice_network_policy_peers Entries of sets of peers.
sluice_network_policy_pod_addresses Addresses of pods on this node.
sluice_network_policy_policies NetworkPolicies that some pod of this node needs, each direction once.
sluice_network_policy_packets_total Packets that policies dropped, or in audit mode would drop.
sluice_network_policy_policy_reports_total Such reports by the policy that dropped, or in audit mode would drop.
sluice_network_policy_reports_total Reports of the kernel about such packets: of each pair of addresses one a second.
sluice_network_policy_repairs_total Repairs of rules that another program had changed.
";

/// What a scrape shows.
pub(crate) struct Figures {
    pub(crate) status: PolicyStatus,
    /// None where the kernel could not be asked: the counters stay as they were.
    pub(crate) packets: Vec<(Outcome, Direction, u64)>,
    pub(crate) reports: Reports,
    pub(crate) by_policy: Reports,
}

impl Policies {
    fn figures(&mut self) -> Figures {
        Figures {
            status: self.facts(),
            packets: self.packets(),
            reports: self.drops.reports.clone(),
            by_policy: self.drops.by_policy.clone(),
        }
    }
}

struct PolicyMetrics {
    in_force: IntGauge,
    isolated: IntGauge,
    issues: IntGauge,
    peers: IntGauge,
    addresses: IntGauge,
    policies: IntGauge,
    repairs: IntCounter,
    packets: IntCounterVec,
    reports: IntCounterVec,
    by_policy: IntCounterVec,
}

/// Shows the metrics of policies, which are asked for at each scrape.
pub fn show_metrics(of_process: &Metrics, policies: Handle<Policies>) {
    let to = of_process.registrar(HELP);
    let metrics = Arc::new(PolicyMetrics {
        in_force: to.gauge("sluice_network_policy_in_force"),
        isolated: to.gauge("sluice_network_policy_isolated_pod_addresses"),
        issues: to.gauge("sluice_network_policy_issues"),
        peers: to.gauge("sluice_network_policy_peers"),
        addresses: to.gauge("sluice_network_policy_pod_addresses"),
        policies: to.gauge("sluice_network_policy_policies"),
        repairs: to.counter("sluice_network_policy_repairs_total"),
        packets: to.counters(
            "sluice_network_policy_packets_total",
            &["direction", "outcome"],
        ),
        reports: to.counters(
            "sluice_network_policy_reports_total",
            &["direction", "namespace", "outcome"],
        ),
        by_policy: to.counters(
            "sluice_network_policy_policy_reports_total",
            &["direction", "outcome", "policy"],
        ),
    });
    of_process.before_scrape(move || {
        let (metrics, answer) = (metrics.clone(), policies.ask(|it| it.figures()));
        Box::pin(async move {
            // Of an agent that is busy they stay as they were.
            if let Ok(figures) = await_answer(answer).await {
                metrics.set(&figures);
            }
        })
    });
}

impl PolicyMetrics {
    fn set(&self, figures: &Figures) {
        let facts = &figures.status;
        let set = |gauge: &IntGauge, count: usize| {
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        };
        set(&self.in_force, usize::from(facts.is_in_force));
        set(&self.isolated, facts.isolated);
        set(&self.issues, facts.issues.len());
        set(&self.peers, facts.members);
        set(&self.addresses, facts.addresses);
        set(&self.policies, facts.policies);
        follow(&self.repairs, facts.repairs);
        for (outcome, direction, packets) in &figures.packets {
            let labels = [&*direction.to_string(), &*outcome.to_string()];
            follow(&self.packets.with_label_values(&labels), *packets);
        }
        for ((namespace, outcome, direction), reports) in &figures.reports {
            let labels = [&*direction.to_string(), namespace, &*outcome.to_string()];
            follow(&self.reports.with_label_values(&labels), *reports);
        }
        for ((policy, outcome, direction), reports) in &figures.by_policy {
            let labels = [&*direction.to_string(), &*outcome.to_string(), policy];
            follow(&self.by_policy.with_label_values(&labels), *reports);
        }
    }
}
