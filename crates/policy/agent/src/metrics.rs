//! Metrics of network policies.

use std::sync::Arc;

use prometheus::{IntCounter, IntGauge};
use sluice_node::Handle;
use sluice_node::metrics::{Metrics, follow};
use sluice_node::server::await_answer;

use crate::{Policies, PolicyStatus};

/// One line per metric: name and help.
const HELP: &str = "\
sluice_network_policy_in_force 1 while the kernel's rules are those of the policies, in both families.
sluice_network_policy_isolated_pod_addresses Addresses of pods on this node that some policy is about.
sluice_network_policy_issues Problems of policies that do not get all they ask for.
sluice_network_policy_peers Entries of sets of peers.
sluice_network_policy_pod_addresses Addresses of pods on this node.
sluice_network_policy_policies NetworkPolicies that some pod of this node needs, each direction once.
sluice_network_policy_repairs_total Repairs of rules that another program had changed.
";

struct PolicyMetrics {
    in_force: IntGauge,
    isolated: IntGauge,
    issues: IntGauge,
    peers: IntGauge,
    addresses: IntGauge,
    policies: IntGauge,
    repairs: IntCounter,
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
    });
    of_process.before_scrape(move || {
        let (metrics, answer) = (metrics.clone(), policies.ask(|it| it.facts()));
        Box::pin(async move {
            // Of an agent that is busy they stay as they were.
            if let Ok(facts) = await_answer(answer).await {
                metrics.set(&facts);
            }
        })
    });
}

impl PolicyMetrics {
    fn set(&self, facts: &PolicyStatus) {
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
    }
}
