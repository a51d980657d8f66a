//! What came of a policy, as text for tests.

use sluice_policy_plan::{Peer, Rule};
use sluice_source::kind::Fault;

/// Peers and ports of a rule.
pub(super) fn of(rule: &Rule) -> String {
    let peer = |it: &Peer| match it {
        Peer::Pods(pods) => pods.to_string(),
        Peer::Block(block) => {
            let except = block.except.iter().map(|it| format!(" but {it}"));
            format!("{}{}", block.cidr, except.collect::<String>())
        }
    };
    let peers = rule
        .peers
        .as_ref()
        .map(|it| it.iter().map(peer).collect::<Vec<_>>());
    let ports = rule.ports.as_ref().map(|it| {
        let ports = it.iter();
        let ports = ports.map(|it| format!("{} {:?}", it.protocol, it.number));
        ports.collect::<Vec<_>>()
    });
    let [peers, ports] =
        [peers, ports].map(|it| it.map_or_else(|| "all".to_owned(), |it| it.join(" | ")));
    format!("{peers}; {ports}")
}

/// Each fault as a line.
pub(super) fn faults(faults: &[Fault]) -> Vec<String> {
    faults.iter().map(Fault::to_string).collect()
}
