//! The indexes of an Indexed Job (`pkg/controller/job/indexed_job_utils.go`).

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::batch::v1::{JobSpec, JobStatus};
use k8s_openapi::api::core::v1::Pod;

use super::INDEX;
use super::policy::{self, Outcome};
use crate::meta;
use crate::workloads::pods;

/// The annotation with the number of earlier failures of a pod's index.
const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";

#[derive(Clone, Debug)]
pub(super) struct Indexes {
    completions: i32,
    succeeded: BTreeSet<i32>,
    /// With `backoffLimitPerIndex`: those that failed for good.
    failed: Option<BTreeSet<i32>>,
    /// The failures of each index that has any.
    failures: BTreeMap<i32, i32>,
}

impl Indexes {
    /// The indexes that a status names, and those of pods that ended since.
    pub(super) fn of(status: &JobStatus, all: &[&Pod], spec: &JobSpec) -> Self {
        let completions = spec.completions.unwrap_or(0);
        let text = |it: &Option<String>| parse(it.as_deref().unwrap_or_default(), completions);
        let ended = |phase: &'static str| {
            let ended = all.iter().filter(move |it| pods::phase(it) == phase);
            let indexed = ended.filter_map(|it| Some((index(it)?, *it)));
            indexed.filter(|(index, _)| (0..completions).contains(index))
        };
        let mut succeeded = text(&status.completed_indexes);
        succeeded.extend(ended("Succeeded").map(|(index, _)| index));
        let mut made = Self {
            completions,
            succeeded,
            failed: None,
            failures: BTreeMap::new(),
        };
        let Some(limit) = spec.backoff_limit_per_index else {
            return made;
        };
        let mut failed = text(&status.failed_indexes);
        for (index, pod) in ended("Failed") {
            let before = meta::annotation(&pod.metadata, FAILURES)
                .parse()
                .unwrap_or(0);
            let outcome = policy::outcome(spec, pod);
            let count = before + i32::from(outcome != Outcome::Ignored);
            let known = made.failures.entry(index).or_default();
            *known = count.max(*known);
            if outcome == Outcome::FailsIndex || count > limit {
                failed.insert(index);
            }
        }
        made.failed = Some(failed);
        made
    }

    pub(super) fn succeeded(&self) -> usize {
        self.succeeded.len()
    }

    pub(super) fn all_succeeded(&self) -> &BTreeSet<i32> {
        &self.succeeded
    }

    /// Why a Job with `backoffLimitPerIndex` fails: the reason, and the words for it.
    pub(super) fn failure(&self, most: Option<i32>) -> Option<(&'static str, &'static str)> {
        let failed = self.failed.as_ref()?.len();
        let is_over = |most: i32| usize::try_from(most).is_ok_and(|it| failed > it);
        let is_done =
            i32::try_from(failed + self.succeeded.len()).is_ok_and(|it| it >= self.completions);
        if most.is_some_and(is_over) {
            let why = "Job has exceeded the specified maximal number of failed indexes";
            Some(("MaxFailedIndexesExceeded", why))
        } else if failed > 0 && is_done {
            Some(("FailedIndexes", "Job has failed indexes"))
        } else {
            None
        }
    }

    /// Notes in a new pod how often its index failed.
    pub(super) fn note_failures(&self, pod: &mut Pod, index: i32) {
        if self.failed.is_some() {
            let count = self.failures.get(&index).copied().unwrap_or(0);
            let annotations = pod.metadata.annotations.get_or_insert_default();
            annotations.insert(FAILURES.to_owned(), count.to_string());
        }
    }

    /// Writes the indexes into a status.
    pub(super) fn write(&self, status: &mut JobStatus) {
        status.completed_indexes = Some(text(&self.succeeded)).filter(|it| !it.is_empty());
        status.failed_indexes = self.failed.as_ref().map(text);
    }

    /// The first indexes, at most `count`, that neither ended nor have a pod.
    pub(super) fn missing(&self, active: &[&Pod], count: usize) -> Vec<i32> {
        let busy: BTreeSet<i32> = active.iter().filter_map(|it| index(it)).collect();
        let all = 0..self.completions;
        let failed = |it: &i32| self.failed.as_ref().is_some_and(|all| all.contains(it));
        let free =
            all.filter(|it| !self.succeeded.contains(it) && !failed(it) && !busy.contains(it));
        free.take(count).collect()
    }
}

/// `0,2-4`.
fn text(indexes: &BTreeSet<i32>) -> String {
    let mut ranges: Vec<(i32, i32)> = Vec::new();
    for it in indexes {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *it => *last = *it,
            _ => ranges.push((*it, *it)),
        }
    }
    let texts = ranges.iter().map(|(first, last)| match last - first {
        0 => first.to_string(),
        1 => format!("{first},{last}"),
        _ => format!("{first}-{last}"),
    });
    texts.collect::<Vec<_>>().join(",")
}

/// The indexes below `completions` that `0,2-4` names.
pub(super) fn parse(text: &str, completions: i32) -> BTreeSet<i32> {
    let ranges = text.split(',').map(range);
    let known = ranges.map(|it| it.start.max(0)..it.end.min(completions));
    known.flatten().collect()
}

/// `2-4` or `2`; nothing of another text.
fn range(text: &str) -> std::ops::Range<i32> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse(), last.parse::<i32>()) {
        (Ok(first), Ok(last)) => first..last.saturating_add(1),
        _ => 0..0,
    }
}

fn index(pod: &Pod) -> Option<i32> {
    meta::annotation(&pod.metadata, INDEX).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_ranges() {
        for (given, completions, expected) in [
            ("", 5, None),
            ("0", 5, Some("0")),
            ("4,0,2-3", 5, Some("0,2-4")),
            ("0,1", 5, Some("0,1")),
            ("0-9", 3, Some("0-2")),
            ("x,1-", 3, None),
        ] {
            let mut status = JobStatus {
                completed_indexes: Some(given.to_owned()),
                ..JobStatus::default()
            };
            let spec = JobSpec {
                completions: Some(completions),
                ..JobSpec::default()
            };
            Indexes::of(&status, &[], &spec).write(&mut status);
            assert_eq!(status.completed_indexes.as_deref(), expected, "{given}");
        }
    }
}
