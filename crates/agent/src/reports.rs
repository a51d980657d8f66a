//! Says once what is wrong, and once that it is over.

use std::collections::BTreeSet;
use std::fmt::Display;

use sluice_core::plan::Planner;
use tracing::{info, warn};

/// Lines logged at once; `sluice status` has the rest.
const SHOWN: usize = 50;

/// What has been logged as wrong and has not gone since.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    issues: BTreeSet<String>,
    problems: BTreeSet<String>,
    refused: BTreeSet<String>,
}

impl Reports {
    /// Compares with what was logged before and logs the difference.
    pub(crate) fn update(
        &mut self,
        planner: &Planner,
        refused: impl Iterator<Item = impl Display>,
    ) {
        let issues = planner.issues().map(|it| it.to_string());
        self.issues = renew("object", &self.issues, issues.collect());
        let problems = planner.problems();
        let problems = problems.map(|(origin, text)| format!("{origin}: {text}"));
        self.problems = renew("source", &self.problems, problems.collect());
        let refused = refused.map(|it| it.to_string());
        self.refused = renew("kernel", &self.refused, refused.collect());
    }
}

fn renew(from: &str, old: &BTreeSet<String>, new: BTreeSet<String>) -> BTreeSet<String> {
    let fresh = new.difference(old);
    for problem in fresh.clone().take(SHOWN) {
        warn!(from, "{problem}");
    }
    let more = fresh.count().saturating_sub(SHOWN);
    if more > 0 {
        warn!(from, more, "further problems: `sluice status` lists them");
    }
    let gone = old.difference(&new);
    for problem in gone.clone().take(SHOWN) {
        info!(from, "solved: {problem}");
    }
    let more = gone.count().saturating_sub(SHOWN);
    if more > 0 {
        info!(from, more, "further problems solved");
    }
    new
}
