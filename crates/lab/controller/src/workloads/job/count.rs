//! Pods that have ended, each counted once (`trackJobStatusAndRemoveFinalizers`).

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{JobSpec, JobStatus, UncountedTerminatedPods};
use k8s_openapi::api::core::v1::Pod;

use super::has_finalizer;
use super::indexes::Indexes;
use super::policy::{self, Outcome};
use crate::workloads::pods;

/// The counts of a Job.
#[derive(Clone, Debug, Default)]
pub(super) struct Counted {
    /// Counted for good.
    kept: (usize, usize),
    /// uids of pods that succeeded and that failed, whose finalizers are not removed yet.
    uncounted: (Vec<String>, Vec<String>),
    /// Of an Indexed Job: the number of indexes that succeeded.
    indexes: Option<usize>,
    /// Pods whose finalizers can be removed: their uids are in the stored status.
    pub(super) released: Vec<Pod>,
}

impl Counted {
    pub(super) fn succeeded(&self) -> usize {
        self.indexes.unwrap_or(self.kept.0 + self.uncounted.0.len())
    }

    pub(super) fn failed(&self) -> usize {
        self.kept.1 + self.uncounted.1.len()
    }

    /// Whether every pod that has ended is counted for good.
    pub(super) fn is_settled(&self) -> bool {
        self.uncounted.0.is_empty() && self.uncounted.1.is_empty()
    }

    /// Writes the counts into a status.
    pub(super) fn write(&self, status: &mut JobStatus) {
        let number = |it: usize| i32::try_from(it).ok().filter(|it| *it != 0);
        status.succeeded = number(self.indexes.unwrap_or(self.kept.0));
        status.failed = number(self.kept.1);
        let list = |it: &Vec<String>| (!it.is_empty()).then(|| it.clone());
        // An empty object stays: it tells that pods are tracked by finalizers.
        status.uncounted_terminated_pods = Some(UncountedTerminatedPods {
            succeeded: list(&self.uncounted.0),
            failed: list(&self.uncounted.1),
        });
    }
}

pub(super) fn count(
    old: &JobStatus,
    all: &[&Pod],
    spec: &JobSpec,
    indexes: Option<&Indexes>,
) -> Counted {
    let number = |it: Option<i32>| usize::try_from(it.unwrap_or(0)).unwrap_or(0);
    let mut counted = Counted {
        kept: (number(old.succeeded), number(old.failed)),
        indexes: indexes.map(Indexes::succeeded),
        ..Counted::default()
    };
    let told = old.uncounted_terminated_pods.clone().unwrap_or_default();
    let uid = |it: &Pod| it.metadata.uid.clone().unwrap_or_default();
    let tracked: Vec<&Pod> = all.iter().copied().filter(|it| has_finalizer(it)).collect();
    let mut settle = |uids: Option<Vec<String>>, kept: &mut usize| {
        let (open, done): (Vec<String>, Vec<String>) = uids
            .unwrap_or_default()
            .into_iter()
            .partition(|it| tracked.iter().any(|pod| uid(pod) == *it));
        *kept += done.len();
        let known = tracked.iter().filter(|pod| open.contains(&uid(pod)));
        counted.released.extend(known.map(|it| Pod::clone(it)));
        open
    };
    let (mut succeeded, mut failed) = counted.kept;
    let open = (
        settle(told.succeeded, &mut succeeded),
        settle(told.failed, &mut failed),
    );
    counted.kept = (succeeded, failed);
    counted.uncounted = open;
    for pod in tracked.iter().filter(|it| has_ended(it)) {
        let uid = uid(pod);
        let (succeeded, failed) = &mut counted.uncounted;
        if succeeded.contains(&uid) || failed.contains(&uid) {
            continue;
        }
        if pods::phase(pod) == "Succeeded" {
            succeeded.push(uid);
        } else if policy::outcome(spec, pod) == Outcome::Ignored {
            counted.released.push(Pod::clone(pod));
        } else {
            failed.push(uid);
        }
    }
    counted
}

/// Whether a pod has ended, or was deleted by its kubelet or in the absence of one.
fn has_ended(pod: &Pod) -> bool {
    let grace = pod.metadata.deletion_grace_period_seconds;
    let is_gone = pods::is_terminating(pod) && (grace == Some(0) || pods::node(pod).is_none());
    pods::is_finished(pod) || is_gone
}

/// When the last container of a pod ended (`getFinishedTime`).
pub(super) fn ended_at(pod: &Pod) -> Timestamp {
    let status = pod.status.as_ref();
    let containers = status
        .iter()
        .flat_map(|it| it.container_statuses.iter().flatten());
    let ends = containers.filter_map(|it| {
        let ended = it.state.as_ref()?.terminated.as_ref()?;
        ended.finished_at.as_ref().map(|it| it.0)
    });
    let deleted = pod.metadata.deletion_timestamp.as_ref().map(|it| it.0);
    let created = pod.metadata.creation_timestamp.as_ref().map(|it| it.0);
    let last = ends.max().or(deleted).or(created);
    last.unwrap_or(Timestamp::UNIX_EPOCH)
}
