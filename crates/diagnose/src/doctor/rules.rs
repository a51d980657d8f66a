//! Rules against plan: what the kernel does with the packets that the plan decides about.

use std::collections::BTreeSet;

use sluice_plan::explain::Explanation;
use sluice_plane::Live;

use super::report::Finding;

/// Compares the kernel of this machine with the plan: a finding for each difference. `live`: what the kernel does with
/// each of the packets, or why that is not known.
pub(super) fn rules(packets: &[Explanation], live: Result<Vec<Live>, String>) -> Vec<Finding> {
    let live = match live {
        Ok(live) => live,
        Err(error) => return vec![Finding::skip("rules", error)],
    };
    let mut seen = BTreeSet::new();
    let mut findings = Vec::new();
    for (it, live) in packets.iter().zip(&live) {
        for difference in live.differences.iter().filter(|it| seen.insert(*it)) {
            let (from, to, protocol) = (it.source, it.destination, &it.protocol);
            let evidence = format!("{from} → {to}/{protocol}: {difference}");
            findings.push(Finding::fail("rules", evidence).mend(
                "restart the proxy of this node, which writes its rules again; `sluice explain FROM TO \
                 --live` shows the kernel's objects",
            ));
        }
    }
    if findings.is_empty() {
        findings.push(Finding::ok("rules", "the kernel does what the plan says"));
    }
    findings
}
