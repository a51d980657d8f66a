//! Says once what is wrong, and once that it is over.

use std::collections::BTreeSet;
use std::fmt::Display;

use tracing::{info, warn};

use crate::status::{IssueStatus, ProblemStatus, RefusedStatus};

/// Lines logged at once; `sluice status` has the rest.
const SHOWN: usize = 50;

/// What has been logged as wrong and has not gone since.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    issues: BTreeSet<String>,
    problems: BTreeSet<String>,
    unserved: BTreeSet<String>,
    refused: BTreeSet<String>,
}

impl Reports {
    /// Compares with what was logged before and logs the difference.
    pub(crate) fn update(
        &mut self,
        issues: &[IssueStatus],
        problems: &[ProblemStatus],
        unserved: &[String],
        refused: &[RefusedStatus],
    ) {
        renew("object", &mut self.issues, issues);
        renew("source", &mut self.problems, problems);
        renew("kernel", &mut self.unserved, unserved);
        renew("kernel", &mut self.refused, refused);
    }
}

fn renew(from: &str, known: &mut BTreeSet<String>, now: &[impl Display]) {
    let now: BTreeSet<String> = now.iter().map(ToString::to_string).collect();
    let fresh = now.difference(known);
    for problem in fresh.clone().take(SHOWN) {
        warn!(from, "{problem}");
    }
    let more = fresh.count().saturating_sub(SHOWN);
    if more > 0 {
        warn!(from, more, "further problems: `sluice status` lists them");
    }
    let gone = known.difference(&now);
    for problem in gone.clone().take(SHOWN) {
        info!(from, "solved: {problem}");
    }
    let more = gone.count().saturating_sub(SHOWN);
    if more > 0 {
        info!(from, more, "further problems solved");
    }
    *known = now;
}
