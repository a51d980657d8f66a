//! Status and conditions of a Job (`syncJob`, `getNewFinishedCondition`).

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobStatus};
use k8s_openapi::api::core::v1::Pod;

use super::Run;
use super::policy::{self, Outcome};
use crate::workloads::counts::count;
use crate::workloads::plan::Plan;
use crate::workloads::pods;

/// Why a Job ends, or has ended.
struct End {
    way: Way,
    reason: String,
    message: String,
}

/// How a Job ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Success,
    Failure,
}

impl Way {
    /// The condition that says so before the Job's pods have ended, and the last one.
    const fn conditions(self) -> (&'static str, &'static str) {
        match self {
            Self::Success => ("SuccessCriteriaMet", "Complete"),
            Self::Failure => ("FailureTarget", "Failed"),
        }
    }
}

impl End {
    fn new(way: Way, reason: &str, message: impl Into<String>) -> Self {
        Self {
            way,
            reason: reason.to_owned(),
            message: message.into(),
        }
    }

    /// The result that the conditions of an earlier status say.
    fn told(status: &JobStatus) -> Option<Self> {
        [Way::Success, Way::Failure].into_iter().find_map(|way| {
            let told = condition(status, way.conditions().0)?;
            let text = |it: &Option<String>| it.clone().unwrap_or_default();
            Some(Self::new(way, &text(&told.reason), text(&told.message)))
        })
    }
}

/// When a Job finished; `None` while it runs.
pub(super) fn finished_at(job: &Job) -> Option<Timestamp> {
    let status = job.status.as_ref()?;
    let last = ["Complete", "Failed"];
    let found = last.iter().find_map(|it| condition(status, it))?;
    found.last_transition_time.as_ref().map(|it| it.0)
}

/// Whether a status says that no pod may run any more.
pub(super) fn is_ending(status: &JobStatus) -> bool {
    End::told(status).is_some()
}

fn condition<'a>(status: &'a JobStatus, type_: &str) -> Option<&'a JobCondition> {
    let mut all = status.conditions.iter().flatten();
    all.find(|it| it.type_ == type_ && it.status == "True")
}

/// The status of a Job, and the Events about its changes.
pub(super) fn status(run: &Run<'_>, plan: &mut Plan) -> JobStatus {
    let mut status = run.old.clone();
    run.counted.write(&mut status);
    if let Some(indexes) = &run.indexes {
        indexes.write(&mut status);
    }
    let active = run.active();
    status.active = Some(count(&active)).filter(|it| *it != 0);
    status.ready = Some(count(active.iter().filter(|it| pods::is_ready(it))));
    status.terminating = Some(i32::try_from(run.terminating()).unwrap_or(i32::MAX));
    suspend(run, &mut status, plan);
    let told = End::told(&status);
    let Some(end) = told.or_else(|| end(run, &status, &active, plan)) else {
        return status;
    };
    let (early, last) = end.way.conditions();
    let why = (&*end.reason, &*end.message);
    set(&mut status, early, "True", why, plan);
    if active.is_empty() && run.terminating() == 0 && run.counted.is_settled() {
        set(&mut status, last, "True", why, plan);
        match end.way {
            Way::Success => {
                status.completion_time = Some(plan.time());
                plan.event(run.job, "Completed", "Job completed".to_owned());
            }
            Way::Failure => plan.warning(run.job, reason_of_event(&end.reason), end.message),
        }
    }
    status
}

/// Starts the clock of a Job, or stops it with `suspend`.
fn suspend(run: &Run<'_>, status: &mut JobStatus, plan: &mut Plan) {
    let was = condition(status, "Suspended").is_some();
    if run.is_suspended() {
        if !was {
            set(
                status,
                "Suspended",
                "True",
                ("JobSuspended", "Job suspended"),
                plan,
            );
            status.start_time = None;
            plan.event(run.job, "Suspended", "Job suspended".to_owned());
        }
        return;
    }
    if was {
        set(
            status,
            "Suspended",
            "False",
            ("JobResumed", "Job resumed"),
            plan,
        );
        plan.event(run.job, "Resumed", "Job resumed".to_owned());
    }
    if status.start_time.is_none() {
        status.start_time = Some(plan.time());
    }
}

/// Reasons of Events are those of conditions.
fn reason_of_event(reason: &str) -> &'static str {
    let known = [
        "BackoffLimitExceeded",
        "DeadlineExceeded",
        "PodFailurePolicy",
        "FailedIndexes",
        "MaxFailedIndexesExceeded",
    ];
    let mut known = known.into_iter();
    known.find(|it| *it == reason).unwrap_or("Failed")
}

/// Why the Job must end now, if it must.
fn end(run: &Run<'_>, status: &JobStatus, active: &[&Pod], plan: &mut Plan) -> Option<End> {
    let failed = run.pods.iter().filter(|it| pods::phase(it) == "Failed");
    let mut outcomes = failed.map(|it| policy::outcome(run.spec, it));
    let fatal = outcomes.find_map(|it| match it {
        Outcome::FailsJob(why) => Some(why),
        _ => None,
    });
    if let Some(why) = fatal {
        return Some(End::new(Way::Failure, "PodFailurePolicy", why));
    }
    let limit = run.spec.backoff_limit.unwrap_or(6);
    let limit = usize::try_from(limit).unwrap_or(0);
    let succeeded = run.counted.succeeded();
    let is_complete = match run.spec.completions {
        None => succeeded > 0 && active.is_empty(),
        Some(completions) => usize::try_from(completions).is_ok_and(|it| succeeded >= it),
    };
    if run.counted.failed() > limit || has_restarted_too_often(run, active, limit) {
        let why = "Job has reached the specified backoff limit";
        return Some(End::new(Way::Failure, "BackoffLimitExceeded", why));
    }
    if let (Some(start), Some(seconds)) = (&status.start_time, run.spec.active_deadline_seconds)
        && !is_complete
        && plan.is_over(start.0, seconds)
    {
        let why = "Job was active longer than specified deadline";
        return Some(End::new(Way::Failure, "DeadlineExceeded", why));
    }
    if let Some(indexes) = &run.indexes {
        if let Some((reason, why)) = indexes.failure(run.spec.max_failed_indexes) {
            return Some(End::new(Way::Failure, reason, why));
        }
        if let Some(rule) = policy::succeeds(run.spec, indexes) {
            let why = format!("Matched rules at index {rule}");
            return Some(End::new(Way::Success, "SuccessPolicy", why));
        }
    }
    let why = "Reached expected number of succeeded pods";
    (is_complete && !run.is_suspended()).then(|| End::new(Way::Success, "CompletionsReached", why))
}

/// With `restartPolicy: OnFailure` restarts of containers count, not pods (`pastBackoffLimitOnFailure`).
fn has_restarted_too_often(run: &Run<'_>, active: &[&Pod], limit: usize) -> bool {
    let spec = run.spec.template.spec.as_ref();
    if spec.and_then(|it| it.restart_policy.as_deref()) != Some("OnFailure") {
        return false;
    }
    let statuses = active.iter().filter_map(|it| it.status.as_ref());
    let containers = statuses.flat_map(|it| {
        let init = it.init_container_statuses.iter().flatten();
        init.chain(it.container_statuses.iter().flatten())
    });
    let restarts: i32 = containers.map(|it| it.restart_count).sum();
    let restarts = usize::try_from(restarts).unwrap_or(0);
    if limit == 0 {
        restarts > 0
    } else {
        restarts >= limit
    }
}

fn set(
    status: &mut JobStatus,
    type_: &str,
    value: &str,
    (reason, message): (&str, &str),
    plan: &Plan,
) {
    let all = status.conditions.get_or_insert_default();
    if all.iter().any(|it| it.type_ == type_ && it.status == value) {
        return;
    }
    all.retain(|it| it.type_ != type_);
    all.push(JobCondition {
        last_probe_time: Some(plan.time()),
        last_transition_time: Some(plan.time()),
        message: Some(message.to_owned()),
        reason: Some(reason.to_owned()),
        status: value.to_owned(),
        type_: type_.to_owned(),
    });
}
