//! The indexes of an Indexed Job (`pkg/controller/job/indexed_job_utils.go`).

use std::collections::BTreeSet;

use k8s_openapi::api::batch::v1::JobStatus;
use k8s_openapi::api::core::v1::Pod;

use super::INDEX;
use crate::meta;
use crate::workloads::pods;

#[derive(Clone, Debug)]
pub(super) struct Indexes {
    completions: i32,
    succeeded: BTreeSet<i32>,
}

impl Indexes {
    /// The indexes that a status names, and those of pods that succeeded since.
    pub(super) fn of(status: &JobStatus, all: &[&Pod], completions: i32) -> Self {
        let text = status.completed_indexes.as_deref().unwrap_or_default();
        let mut succeeded: BTreeSet<i32> = text.split(',').flat_map(range).collect();
        let ended = all.iter().filter(|it| pods::phase(it) == "Succeeded");
        succeeded.extend(ended.filter_map(|it| index(it)));
        succeeded.retain(|it| (0..completions).contains(it));
        Self {
            completions,
            succeeded,
        }
    }

    pub(super) fn succeeded(&self) -> usize {
        self.succeeded.len()
    }

    /// The first indexes, at most `count`, that neither succeeded nor have a pod.
    pub(super) fn missing(&self, active: &[&Pod], count: usize) -> Vec<i32> {
        let busy: BTreeSet<i32> = active.iter().filter_map(|it| index(it)).collect();
        let all = 0..self.completions;
        let free = all.filter(|it| !self.succeeded.contains(it) && !busy.contains(it));
        free.take(count).collect()
    }

    /// `0,2-4`; `None` without any.
    pub(super) fn text(&self) -> Option<String> {
        let mut ranges: Vec<(i32, i32)> = Vec::new();
        for it in &self.succeeded {
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
        let texts: Vec<String> = texts.collect();
        (!texts.is_empty()).then(|| texts.join(","))
    }
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
            let status = JobStatus {
                completed_indexes: Some(given.to_owned()),
                ..JobStatus::default()
            };
            let indexes = Indexes::of(&status, &[], completions);
            assert_eq!(indexes.text().as_deref(), expected, "{given}");
        }
    }
}
