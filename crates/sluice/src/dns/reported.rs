//! Reports what the source of a DNS server cannot read, in the log and as a metric.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context;
use prometheus::{IntGauge, Registry};
use sluice_model::Notice;
use sluice_source::apiserver;
use sluice_zone::Event;
use tracing::warn;

/// The agent's gauge of the same meaning.
const METRIC: &str = "sluice_problems";

/// The number of problems, as a metric of a server.
pub(super) fn metric(registry: &Registry) -> anyhow::Result<IntGauge> {
    let count = IntGauge::new(METRIC, "Files and objects that sources could not read.");
    let count = count.context(METRIC)?;
    let collector = Box::new(count.clone());
    registry.register(collector).context(METRIC)?;
    Ok(count)
}

/// The problems that a source has now, by their origin.
pub(super) struct Reported {
    problems: BTreeMap<Arc<str>, Vec<String>>,
    count: IntGauge,
}

impl Reported {
    pub(super) fn new(count: IntGauge) -> Self {
        count.set(0);
        Self {
            problems: BTreeMap::new(),
            count,
        }
    }

    /// Counts the problems, and logs those that are new. What becomes of the connection to an API server is logged by
    /// its source.
    pub(super) fn take(&mut self, events: &[Event]) {
        for it in events {
            let Event::Notice(Notice::Problems { origin, problems }) = it else {
                continue;
            };
            let before = self.problems.remove(origin).unwrap_or_default();
            if &**origin != apiserver::ORIGIN {
                let new = problems.iter().filter(|it| !before.contains(it));
                new.for_each(|it| warn!(%origin, "{it}"));
            }
            if !problems.is_empty() {
                self.problems.insert(origin.clone(), problems.clone());
            }
            let count: usize = self.problems.values().map(Vec::len).sum();
            self.count.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }
}
