//! Rules against plan: what the kernel does with the packets that the plan decides about.

use std::collections::BTreeSet;
use std::path::Path;

use sluice_diagnose::doctor::{Finding, State};
use sluice_plan::explain::Explanation;

use crate::live::Reader;
use crate::view::View;

/// Compares the kernel of this machine with the explanations: a finding for each difference.
pub(super) fn rules(view: &View, socket: &Path, explanations: &[Explanation]) -> Vec<Finding> {
    if explanations.is_empty() {
        return Vec::new();
    }
    let read = || {
        let reader = Reader::new(view, socket)?;
        let all = explanations.iter().map(|it| {
            let live = reader.read(it)?;
            let question = format!("{} → {}/{}", it.source, it.destination, it.protocol);
            Ok((question, live))
        });
        all.collect::<anyhow::Result<Vec<_>>>()
    };
    let all = match read() {
        Ok(all) => all,
        Err(error) => return vec![Finding::new("rules", State::Skip, format!("{error:#}"))],
    };
    let mut seen = BTreeSet::new();
    let mut findings = Vec::new();
    for (question, live) in &all {
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
