//! CronJobs: Jobs at times (`pkg/controller/cronjob`).

pub(crate) mod schedule;

use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use k8s_openapi::api::batch::v1::{CronJob, CronJobSpec, CronJobStatus, Job};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use super::plan::Plan;
use super::{Cluster, ownership};
use crate::meta;
use schedule::Schedule;

/// The annotation of a Job with the time that it is for.
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// Plans the writes for one CronJob.
pub(super) fn reconcile(cluster: &Cluster, cron_job: &CronJob, plan: &mut Plan) {
    let spec = &cron_job.spec;
    let jobs = cluster.jobs.iter();
    let jobs: Vec<&Job> = jobs
        .map(|it| &**it)
        .filter(|it| ownership::is_controlled_by(&it.metadata, cron_job))
        .collect();
    let mut status = cron_job.status.clone().unwrap_or_default();
    watch(cron_job, &jobs, &mut status, plan);
    forget(spec, &jobs, plan);
    let is_ending = cron_job.metadata.deletion_timestamp.is_some() || plan.deletes(cron_job);
    if !is_ending && spec.suspend != Some(true) {
        run(cluster, cron_job, spec, &jobs, &mut status, plan);
    }
    let mut after = cron_job.clone();
    after.status = Some(status);
    plan.update_status(cron_job, after);
}

/// The last condition of a finished Job, and when it finished.
fn finished(job: &Job) -> Option<(&str, Timestamp)> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    let last = conditions
        .iter()
        .find(|it| matches!(it.type_.as_str(), "Complete" | "Failed") && it.status == "True")?;
    Some((&last.type_, last.last_transition_time.as_ref()?.0))
}

/// Brings the list of active Jobs and the time of the last success up to date.
fn watch(cron_job: &CronJob, jobs: &[&Job], status: &mut CronJobStatus, plan: &mut Plan) {
    let was_active = |job: &Job| {
        let mut all = status.active.iter().flatten();
        all.any(|it| it.uid == job.metadata.uid)
    };
    for job in jobs.iter().filter(|it| was_active(it)) {
        if let Some((how, _)) = finished(job) {
            let name = meta::name(&job.metadata);
            let text = format!("Saw completed job: {name}, condition: {how}");
            plan.event(cron_job, "SawCompletedJob", text);
        }
    }
    let active = jobs.iter().filter(|it| finished(it).is_none());
    let active: Vec<ObjectReference> = active.map(|it| reference(it)).collect();
    status.active = (!active.is_empty()).then_some(active);
    let successes = jobs.iter().filter_map(|it| {
        let (how, _) = finished(it)?;
        let ended = it.status.as_ref()?.completion_time.as_ref()?.0;
        (how == "Complete").then_some(ended)
    });
    let known = status.last_successful_time.as_ref().map(|it| it.0);
    status.last_successful_time = successes.chain(known).max().map(Time);
}

fn reference(job: &Job) -> ObjectReference {
    ObjectReference {
        api_version: Some("batch/v1".to_owned()),
        kind: Some("Job".to_owned()),
        name: job.metadata.name.clone(),
        namespace: job.metadata.namespace.clone(),
        uid: job.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}

/// Deletes finished Jobs beyond the limits of the history, the oldest first.
fn forget(spec: &CronJobSpec, jobs: &[&Job], plan: &mut Plan) {
    for (kind, limit) in [
        ("Complete", spec.successful_jobs_history_limit.unwrap_or(3)),
        ("Failed", spec.failed_jobs_history_limit.unwrap_or(1)),
    ] {
        let of_kind = |it: &&&Job| finished(it).is_some_and(|(how, _)| how == kind);
        let mut ended: Vec<&&Job> = jobs.iter().filter(of_kind).collect();
        let start = |it: &Job| {
            let status = it.status.as_ref().and_then(|it| it.start_time.as_ref());
            let created = it.metadata.creation_timestamp.as_ref();
            status.or(created).map(|it| it.0)
        };
        ended.sort_by_key(|it| (start(it), it.metadata.name.clone()));
        let limit = usize::try_from(limit).unwrap_or(0);
        let surplus = ended.len().saturating_sub(limit);
        for job in &ended[..surplus] {
            plan.delete(**job);
        }
    }
}

/// Creates the Job that is due, and wakes for the next one.
fn run(
    cluster: &Cluster,
    cron_job: &CronJob,
    spec: &CronJobSpec,
    jobs: &[&Job],
    status: &mut CronJobStatus,
    plan: &mut Plan,
) {
    let zone = match &spec.time_zone {
        None => Some(TimeZone::UTC),
        Some(name) => cluster.zones.get(name).cloned(),
    };
    // Both were admitted; an object of an earlier version may have others.
    let (Ok(schedule), Some(zone)) = (Schedule::parse(&spec.schedule), zone) else {
        let text = format!("unparseable schedule: {:?}", spec.schedule);
        return plan.warning(cron_job, "UnparseableSchedule", text);
    };
    let now = plan.now();
    if let Some(next) = schedule.next(now, &zone) {
        plan.wake_at(next);
    }
    let created = cron_job.metadata.creation_timestamp.as_ref();
    let last = status.last_schedule_time.as_ref().or(created);
    let Some(since) = last.map(|it| it.0) else {
        return;
    };
    let deadline = spec.starting_deadline_seconds;
    let Some(due) = schedule.last(since, now, &zone) else {
        return;
    };
    let is_late = deadline.is_some_and(|it| now.duration_since(due).as_secs() > it);
    let name = meta::name(&cron_job.metadata);
    let minutes = due.as_second().div_euclid(60);
    let job_name = format!("{name}-{minutes}");
    let is_there = |it: &&Job| meta::name(&it.metadata) == job_name;
    if jobs.iter().any(is_there) {
        status.last_schedule_time = Some(Time(due));
        return;
    }
    if is_late {
        // Not again for the same time.
        status.last_schedule_time = Some(Time(due));
        let text = format!("Missed scheduled time to start a job: {due}");
        return plan.warning(cron_job, "MissSchedule", text);
    }
    let active: Vec<&&Job> = jobs.iter().filter(|it| finished(it).is_none()).collect();
    match spec.concurrency_policy.as_deref() {
        Some("Forbid") if !active.is_empty() => {
            // Once it ends, the time that was missed is made up for.
            return;
        }
        Some("Replace") => {
            for job in active {
                if plan.delete(*job) {
                    let text = format!("Deleted job {}", meta::name(&job.metadata));
                    plan.event(cron_job, "SuccessfulDelete", text);
                }
            }
        }
        _ => {}
    }
    if !plan.may_create(cron_job) {
        return;
    }
    plan.create(job(cron_job, spec, job_name.clone(), due));
    plan.event(
        cron_job,
        "SuccessfulCreate",
        format!("Created job {job_name}"),
    );
}

fn job(cron_job: &CronJob, spec: &CronJobSpec, name: String, due: Timestamp) -> Job {
    let template = &spec.job_template;
    let metadata = template.metadata.clone().unwrap_or_default();
    let mut annotations = metadata.annotations.unwrap_or_default();
    annotations.insert(SCHEDULED.to_owned(), due.to_string());
    Job {
        metadata: ObjectMeta {
            namespace: cron_job.metadata.namespace.clone(),
            name: Some(name),
            labels: metadata.labels,
            annotations: Some(annotations),
            owner_references: Some(vec![ownership::reference(cron_job)]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    }
}

/// The names of the time zones that CronJobs need.
pub fn time_zones(cron_jobs: &[Arc<CronJob>]) -> impl Iterator<Item = &str> {
    let zones = cron_jobs.iter();
    zones.filter_map(|it| it.spec.time_zone.as_deref())
}
