//! Status and conditions of a Job (`syncJob`, `getNewFinishedCondition`).

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobStatus};
use k8s_openapi::api::core::v1::Pod;

use super::Run;
use crate::workloads::counts::count;
use crate::workloads::plan::Plan;
use crate::workloads::pods;

/// Why a Job ends, or has ended.
struct End {
    /// The condition that says so before its pods have ended.
    early: &'static str,
    /// The last condition.
    last: &'static str,
    reason: &'static str,
    message: &'static str,
}

const COMPLETED: End = End {
    early: "SuccessCriteriaMet",
    last: "Complete",
    reason: "CompletionsReached",
    message: "Reached expected number of succeeded pods",
};
const TOO_MANY_FAILURES: End = End {
    early: "FailureTarget",
    last: "Failed",
    reason: "BackoffLimitExceeded",
    message: "Job has reached the specified backoff limit",
};
const TOO_LATE: End = End {
    early: "FailureTarget",
    last: "Failed",
    reason: "DeadlineExceeded",
    message: "Job was active longer than specified deadline",
};
const ENDS: [&End; 3] = [&COMPLETED, &TOO_MANY_FAILURES, &TOO_LATE];

/// When a Job finished; `None` while it runs.
pub(super) fn finished_at(job: &Job) -> Option<Timestamp> {
    let status = job.status.as_ref()?;
    let last = ["Complete", "Failed"];
    let found = last.iter().find_map(|it| condition(status, it))?;
    found.last_transition_time.as_ref().map(|it| it.0)
}

/// Whether a status says that no pod may run any more.
pub(super) fn is_ending(status: &JobStatus) -> bool {
    ENDS.iter().any(|it| condition(status, it.early).is_some())
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
        status.completed_indexes = indexes.text();
    }
    let active = run.active();
    status.active = Some(count(&active)).filter(|it| *it != 0);
    status.ready = Some(count(active.iter().filter(|it| pods::is_ready(it))));
    status.terminating = Some(i32::try_from(run.terminating()).unwrap_or(i32::MAX));
    suspend(run, &mut status, plan);
    let known = ENDS.iter().find(|it| {
        let reason = condition(&status, it.early).and_then(|it| it.reason.as_deref());
        reason == Some(it.reason)
    });
    let end = known.copied().or_else(|| end(run, &status, &active, plan));
    let Some(end) = end else {
        return status;
    };
    set(
        &mut status,
        end.early,
        "True",
        (end.reason, end.message),
        plan,
    );
    if active.is_empty() && run.terminating() == 0 && run.counted.is_settled() {
        set(
            &mut status,
            end.last,
            "True",
            (end.reason, end.message),
            plan,
        );
        if end.last == "Complete" {
            status.completion_time = Some(plan.time());
            plan.event(run.job, "Completed", "Job completed".to_owned());
        } else {
            plan.warning(run.job, end.reason, end.message.to_owned());
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

/// Why the Job must end now, if it must.
fn end(
    run: &Run<'_>,
    status: &JobStatus,
    active: &[&Pod],
    plan: &mut Plan,
) -> Option<&'static End> {
    let limit = run.spec.backoff_limit.unwrap_or(6);
    let limit = usize::try_from(limit).unwrap_or(0);
    let succeeded = run.counted.succeeded();
    let is_complete = match run.spec.completions {
        None => succeeded > 0 && active.is_empty(),
        Some(completions) => usize::try_from(completions).is_ok_and(|it| succeeded >= it),
    };
    if run.counted.failed() > limit || has_restarted_too_often(run, active, limit) {
        return Some(&TOO_MANY_FAILURES);
    }
    if let (Some(start), Some(seconds)) = (&status.start_time, run.spec.active_deadline_seconds)
        && !is_complete
        && plan.is_over(start.0, seconds)
    {
        return Some(&TOO_LATE);
    }
    (is_complete && !run.is_suspended()).then_some(&COMPLETED)
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
