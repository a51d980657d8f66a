//! Compares the decision and the endpoints of the kernel with those of the plan.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use sluice_plan::explain::{Decision, Explanation};

use super::{End, Findings};

impl Findings {
    /// Where they differ from the explanation, a sentence each.
    #[must_use]
    pub fn differences(&self, explanation: &Explanation) -> Vec<String> {
        differences(explanation, self)
    }
}

fn differences(explanation: &Explanation, findings: &Findings) -> Vec<String> {
    let mut differences = findings.wrong.clone();
    let kernel = decision(&findings.ends);
    if kernel != explanation.verdict {
        let missing = if findings.missing.is_empty() {
            String::new()
        } else {
            format!(": {}", findings.missing.join(", "))
        };
        differences.push(format!(
            "by the plan this node {}, but the kernel {}{missing}",
            words(explanation.verdict),
            words(kernel),
        ));
    }
    if kernel == Decision::Balance {
        differences.extend(endpoints(explanation, &findings.ends));
    }
    differences
}

fn decision(ends: &BTreeSet<End>) -> Decision {
    let has = |wanted: End| ends.contains(&wanted);
    match ends.first() {
        // The order of `End`: endpoints come first.
        Some(End::Translated(_)) => Decision::Balance,
        _ if has(End::Drop) => Decision::Drop,
        _ if has(End::Reject) => Decision::Reject,
        _ => Decision::NotService,
    }
}

fn words(decision: Decision) -> &'static str {
    match decision {
        Decision::Balance => "sends the packet to an endpoint",
        Decision::Drop => "drops the packet",
        Decision::Reject => "rejects the packet",
        Decision::NotService => "leaves the packet alone",
    }
}

fn endpoints(explanation: &Explanation, ends: &BTreeSet<End>) -> Vec<String> {
    let members = explanation.service.iter().flat_map(|it| &it.endpoints);
    let included = members.filter(|it| it.included).map(|it| it.address);
    let planned: BTreeSet<SocketAddr> = included.collect();
    let reached: BTreeSet<SocketAddr> = ends.iter().filter_map(endpoint).collect();
    let surplus = reached.difference(&planned);
    let surplus = surplus.map(|it| format!("the kernel sends packets to {it}: not so the plan"));
    let lacking = planned.difference(&reached);
    let lacking = lacking.map(|it| format!("the kernel sends no packet to {it}: the plan does"));
    let others = ends.iter().filter(|it| endpoint(it).is_none());
    let others = others.map(|it| {
        let instead = words(decision(&[*it].into()));
        format!("not every connection gets an endpoint: by chance the kernel {instead}")
    });
    surplus.chain(lacking).chain(others).collect()
}

fn endpoint(end: &End) -> Option<SocketAddr> {
    match end {
        End::Translated(to) => Some(*to),
        _ => None,
    }
}
