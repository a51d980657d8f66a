//! Jobs: pods that run to their end (`pkg/controller/job`), and the removal of finished Jobs (`pkg/controller/ttlafterfinished`).
//!
//! Each pod has a finalizer until it is counted. Counting has two steps, so that neither a lost write nor a deleted pod counts
//! twice or never: the uids of ended pods are written to the status, then their finalizers are removed, then the counts grow.

mod count;
mod indexes;
mod policy;
mod state;

use k8s_openapi::api::batch::v1::{Job, JobSpec, JobStatus};
use k8s_openapi::api::core::v1::{EnvVar, EnvVarSource, ObjectFieldSelector, Pod};

use super::plan::Plan;
use super::{Cluster, ownership, pods};
use crate::meta;
use count::Counted;
use indexes::Indexes;

/// The finalizer of pods that are not counted yet.
const FINALIZER: &str = "batch.kubernetes.io/job-tracking";

/// The label and annotation with the index of a pod.
const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// Back-off in seconds after the first failure of a pod; it doubles with each. Kubernetes has 10 and 600.
const FIRST_PAUSE: i64 = 1;
const LONGEST_PAUSE: i64 = 60;

/// One Job, with what was found of it.
struct Run<'a> {
    job: &'a Job,
    spec: &'a JobSpec,
    old: JobStatus,
    /// All its pods.
    pods: Vec<&'a Pod>,
    counted: Counted,
    indexes: Option<Indexes>,
}

/// Plans the writes for one Job.
pub(super) fn reconcile(cluster: &Cluster, job: &Job, plan: &mut Plan) {
    let Some(spec) = &job.spec else {
        return;
    };
    if spec
        .managed_by
        .as_deref()
        .is_some_and(|it| it != "kubernetes.io/job-controller")
    {
        return;
    }
    if let Some(finished) = state::finished_at(job) {
        return remove_when_old(cluster, job, finished, plan);
    }
    let all = cluster.pods.iter().map(|it| &**it);
    let all: Vec<&Pod> = all
        .filter(|it| ownership::is_controlled_by(&it.metadata, job))
        .collect();
    let old = job.status.clone().unwrap_or_default();
    let indexes =
        (spec.completion_mode.as_deref() == Some("Indexed")).then(|| Indexes::of(&old, &all, spec));
    let counted = count::count(&old, &all, spec, indexes.as_ref());
    for pod in &counted.released {
        release(pod, plan);
    }
    let run = Run {
        job,
        spec,
        old,
        pods: all,
        counted,
        indexes,
    };
    let mut status = state::status(&run, plan);
    if run.job.metadata.deletion_timestamp.is_none() && !plan.deletes(job) {
        manage(cluster, &run, &mut status, plan);
    }
    let mut after = job.clone();
    after.status = Some(status);
    plan.update_status(job, after);
}

/// Removes the finalizer from pods whose Job is gone: nobody counts them.
pub(super) fn release_orphans(cluster: &Cluster, plan: &mut Plan) {
    for pod in cluster.pods.iter().filter(|it| has_finalizer(it)) {
        let is_alone = ownership::controller(&pod.metadata).is_none_or(|owner| {
            let mut jobs = cluster.jobs.iter();
            owner.kind == "Job" && !jobs.any(|it| it.metadata.uid.as_ref() == Some(&owner.uid))
        });
        if is_alone {
            release(pod, plan);
        }
    }
}

fn release(pod: &Pod, plan: &mut Plan) {
    if !has_finalizer(pod) {
        return;
    }
    let mut after = pod.clone();
    if let Some(all) = &mut after.metadata.finalizers {
        all.retain(|it| it != FINALIZER);
    }
    plan.update(pod, after);
}

fn has_finalizer(pod: &Pod) -> bool {
    pod.metadata
        .finalizers
        .iter()
        .flatten()
        .any(|it| it == FINALIZER)
}

/// Deletes a finished Job after `ttlSecondsAfterFinished`, and its pods' finalizers before that.
fn remove_when_old(cluster: &Cluster, job: &Job, finished: jiff::Timestamp, plan: &mut Plan) {
    for pod in &cluster.pods {
        if ownership::is_controlled_by(&pod.metadata, job) {
            release(pod, plan);
        }
    }
    let ttl = job
        .spec
        .as_ref()
        .and_then(|it| it.ttl_seconds_after_finished);
    if ttl.is_some_and(|it| plan.is_over(finished, i64::from(it))) {
        plan.delete(job);
    }
}

impl Run<'_> {
    /// Pods that run or will run.
    fn active(&self) -> Vec<&Pod> {
        let all = self.pods.iter().copied();
        all.filter(|it| pods::is_active(it)).collect()
    }

    /// Deleted pods that have not ended.
    fn terminating(&self) -> usize {
        let all = self.pods.iter();
        let all = all.filter(|it| pods::is_terminating(it) && !pods::is_finished(it));
        all.count()
    }

    fn is_suspended(&self) -> bool {
        self.spec.suspend == Some(true)
    }

    /// Most pods at a time.
    fn parallelism(&self) -> usize {
        usize::try_from(self.spec.parallelism.unwrap_or(1)).unwrap_or(0)
    }

    /// How many pods should run (`manageJob`).
    fn wanted(&self, active: usize) -> usize {
        let succeeded = self.counted.succeeded();
        match self.spec.completions {
            // Of a queue that one worker found empty the others finish their work.
            None if succeeded > 0 => active,
            None => self.parallelism(),
            Some(completions) => {
                let left = usize::try_from(completions)
                    .unwrap_or(0)
                    .saturating_sub(succeeded);
                left.min(self.parallelism())
            }
        }
    }
}

/// Creates missing pods and deletes surplus ones.
fn manage(cluster: &Cluster, run: &Run<'_>, status: &mut JobStatus, plan: &mut Plan) {
    let active = run.active();
    if run.is_suspended() || state::is_ending(status) {
        for pod in &active {
            pods::delete(run.job, pod, plan);
        }
        return;
    }
    let wanted = run.wanted(active.len());
    if active.len() > wanted {
        // Those that are not ready go first.
        let mut surplus = active.clone();
        surplus.sort_by_key(|it| pods::is_ready(it));
        for pod in &surplus[..active.len() - wanted] {
            pods::delete(run.job, pod, plan);
        }
        return;
    }
    let mut missing = wanted - active.len();
    if run.spec.pod_replacement_policy.as_deref() == Some("Failed") {
        missing = missing.saturating_sub(run.terminating());
    }
    if missing == 0 || !may_create(run, plan) {
        return;
    }
    let indexes = run.indexes.as_ref().map(|it| it.missing(&active, missing));
    for at in 0..missing {
        let index = match &indexes {
            None => None,
            Some(all) => match all.get(at) {
                Some(index) => Some(*index),
                None => return,
            },
        };
        create(cluster, run, at, index, plan);
    }
}

/// Whether the back-off after the last failures is over. A success ends it.
fn may_create(run: &Run<'_>, plan: &mut Plan) -> bool {
    let ended = |phase: &str| {
        let all = run.pods.iter().filter(|it| pods::phase(it) == phase);
        all.map(|it| count::ended_at(it)).collect::<Vec<_>>()
    };
    let success = ended("Succeeded").into_iter().max();
    let mut failures = ended("Failed");
    failures.retain(|it| success.is_none_or(|success| *it > success));
    let Some(last) = failures.iter().max() else {
        return true;
    };
    let doubled = u32::try_from(failures.len() - 1)
        .unwrap_or(u32::MAX)
        .min(16);
    let pause = (FIRST_PAUSE << doubled).min(LONGEST_PAUSE);
    plan.is_over(*last, pause)
}

fn create(cluster: &Cluster, run: &Run<'_>, at: usize, index: Option<i32>, plan: &mut Plan) {
    let mut pod = pods::from_template(&run.spec.template, run.job);
    let finalizers = pod.metadata.finalizers.get_or_insert_default();
    finalizers.push(FINALIZER.to_owned());
    pods::name(&mut pod, run.job, at, cluster, plan);
    if let (Some(index), Some(indexes)) = (index, &run.indexes) {
        set_index(&mut pod, meta::name(&run.job.metadata), index);
        indexes.note_failures(&mut pod, index);
    }
    pods::create(run.job, pod, plan);
}

/// Gives a pod its index: in its name, host name, label, annotation and in a variable.
fn set_index(pod: &mut Pod, job: &str, index: i32) {
    let name = meta::name(&pod.metadata);
    let suffix = name.rsplit('-').next().unwrap_or_default();
    pod.metadata.name = Some(format!("{job}-{index}-{suffix}"));
    pod.metadata.generate_name = Some(format!("{job}-{index}-"));
    for map in [&mut pod.metadata.labels, &mut pod.metadata.annotations] {
        map.get_or_insert_default()
            .insert(INDEX.to_owned(), index.to_string());
    }
    let spec = pods::spec_mut(pod);
    spec.hostname
        .get_or_insert_with(|| format!("{job}-{index}"));
    let variable = EnvVar {
        name: "JOB_COMPLETION_INDEX".to_owned(),
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector {
                api_version: None,
                field_path: format!("metadata.labels['{INDEX}']"),
            }),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    };
    let init = spec.init_containers.iter_mut().flatten();
    for container in init.chain(&mut spec.containers) {
        let all = container.env.get_or_insert_default();
        if all.iter().all(|it| it.name != variable.name) {
            all.push(variable.clone());
        }
    }
}
