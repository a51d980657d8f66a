//! Rules against plan: what the kernel does with the packets that the plan decides about.

use std::collections::BTreeSet;

use sluice_plane::Live;

use super::report::{Finding, State};

/// Compares the kernel of this machine with the plan: a finding for each difference. `all`: what was asked, and
/// what the kernel holds for it.
#[must_use]
pub fn rules(all: &[(String, Live)]) -> Vec<Finding> {
    let mut seen = BTreeSet::new();
    let mut findings = Vec::new();
    for (question, live) in all {
        for difference in live.differences.iter().filter(|it| seen.insert(*it)) {
            let evidence = format!("{question}: {difference}");
            let finding = Finding::new("rules", State::Fail, evidence);
            findings.push(finding.mend(
                "restart the proxy of this node, which writes its rules again; `sluice explain FROM TO \
                 --live` shows the kernel's objects",
            ));
        }
    }
    if findings.is_empty() {
        let evidence = "the kernel does what the plan says";
        findings.push(Finding::new("rules", State::Ok, evidence));
    }
    findings
}
