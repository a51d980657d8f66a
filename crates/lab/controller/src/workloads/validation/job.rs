//! Jobs and CronJobs (`pkg/apis/batch/validation/validation.go`).

use k8s_openapi::api::batch::v1::{CronJob, Job, JobSpec};
use k8s_openapi::api::core::v1::{Affinity, PodSpec};
use serde::Serialize;

use super::super::cron_job::schedule::Schedule;
use super::super::labels;
use super::dns;
use crate::FieldError;
use crate::field::Problems;
use crate::meta;

/// Longest name of a CronJob: those of its Jobs are 11 letters longer.
const LONGEST: usize = 52;

/// The errors in a Job that has its defaults; `old` is the version that it replaces.
#[must_use]
pub fn validate_job(job: &Job, old: Option<&Job>) -> Vec<FieldError> {
    let mut problems = Problems::default();
    let spec = job.spec.clone().unwrap_or_default();
    check("spec", &spec, &mut problems);
    match &spec.selector {
        None => problems.required("spec.selector", ""),
        Some(selector) => {
            let metadata = spec.template.metadata.as_ref();
            let pods = metadata.and_then(|it| it.labels.as_ref());
            if !labels::matches(selector, pods) {
                let found = serde_json::to_string(&pods.cloned().unwrap_or_default());
                let found = found.expect("maps of texts become JSON");
                let why = "`selector` does not match template `labels`";
                problems.invalid("spec.template.metadata.labels", found, why);
            }
        }
    }
    if let Some(old) = old {
        unchanged(old, &spec, &mut problems);
    }
    problems.found
}

/// The errors in a CronJob that has its defaults. `is_zone` tells whether this machine knows a time zone.
#[must_use]
pub fn validate_cron_job(
    cron_job: &CronJob,
    old: Option<&CronJob>,
    is_zone: impl Fn(&str) -> bool,
) -> Vec<FieldError> {
    let mut problems = Problems::default();
    let name = meta::name(&cron_job.metadata);
    if old.is_none() && name.len() > LONGEST {
        let why = "must be no more than 52 characters";
        problems.invalid("metadata.name", format!("\"{name}\""), why);
    }
    let spec = cron_job.spec.clone();
    let schedule = spec.schedule.as_str();
    if schedule.is_empty() {
        problems.required("spec.schedule", "");
    } else if schedule.contains("TZ") {
        let why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        problems.invalid("spec.schedule", format!("{schedule:?}"), why);
    } else if let Err(why) = Schedule::parse(schedule) {
        problems.invalid("spec.schedule", format!("{schedule:?}"), &why);
    }
    if let Some(zone) = spec.time_zone.as_deref().filter(|it| !is_zone(it)) {
        let why = format!("unknown time zone {zone}");
        problems.invalid("spec.timeZone", format!("{zone:?}"), &why);
    }
    let job = spec.job_template.spec.unwrap_or_default();
    let path = "spec.jobTemplate.spec";
    if job.manual_selector == Some(true) {
        let why = "supported values: \"nil\", \"false\"";
        problems.invalid(format!("{path}.manualSelector"), true, why);
    }
    check(path, &job, &mut problems);
    problems.found
}

fn check(path: &str, spec: &JobSpec, problems: &mut Problems) {
    let mode = spec.completion_mode.as_deref();
    if mode == Some("Indexed") && spec.completions.is_none() {
        let why = "when completion mode is Indexed";
        problems.required(format!("{path}.completions"), why);
    }
    policies(path, spec, problems);
    let template = spec.template.spec.clone().unwrap_or_default();
    let below = format!("{path}.template.spec");
    dns::check(&below, &template, problems);
    let field = format!("{below}.restartPolicy");
    match template.restart_policy.as_deref() {
        // The default of pods: whoever left it out must choose.
        None | Some("" | "Always") => {
            problems.required(field, "valid values: \"OnFailure\", \"Never\"");
        }
        restarts => problems.one_of(field, restarts, &["OnFailure", "Never"]),
    }
}

/// Checks the limits of indexes and the policies.
fn policies(path: &str, spec: &JobSpec, problems: &mut Problems) {
    let is_indexed = spec.completion_mode.as_deref() == Some("Indexed");
    for (field, value) in [
        ("backoffLimitPerIndex", spec.backoff_limit_per_index),
        ("maxFailedIndexes", spec.max_failed_indexes),
    ] {
        if let Some(it) = value.filter(|_| !is_indexed) {
            let why = "requires indexed completion mode";
            problems.invalid(format!("{path}.{field}"), it, why);
        }
    }
    if spec.max_failed_indexes.is_some() && spec.backoff_limit_per_index.is_none() {
        let why = "when maxFailedIndexes is specified";
        problems.required(format!("{path}.backoffLimitPerIndex"), why);
    }
    if spec.success_policy.is_some() && !is_indexed {
        let why = "requires indexed completion mode";
        problems.invalid(format!("{path}.successPolicy"), "{}", why);
    }
    let Some(policy) = &spec.pod_failure_policy else {
        return;
    };
    let template = spec.template.spec.as_ref();
    if let Some(it) = template.and_then(|it| it.restart_policy.as_deref())
        && it != "Never"
    {
        let why = "only \"Never\" is supported when podFailurePolicy is specified";
        let field = format!("{path}.template.spec.restartPolicy");
        problems.invalid(field, format!("{it:?}"), why);
    }
    for (at, rule) in policy.rules.iter().enumerate() {
        if rule.action == "FailIndex" && spec.backoff_limit_per_index.is_none() {
            let why = "requires the backoffLimitPerIndex to be set";
            let field = format!("{path}.podFailurePolicy.rules[{at}].action");
            problems.invalid(field, "\"FailIndex\"", why);
        }
    }
}

/// Checks what cannot change, but in some states (`ValidateJobSpecUpdate`).
fn unchanged(old: &Job, new: &JobSpec, problems: &mut Problems) {
    let before = old.spec.clone().unwrap_or_default();
    // An Indexed Job can grow and shrink with its parallelism.
    let is_elastic =
        new.completion_mode.as_deref() == Some("Indexed") && new.completions == new.parallelism;
    if before.completions != new.completions && !is_elastic {
        immutable("spec.completions", &new.completions, problems);
    }
    let (mut expected, given) = (before.template, &new.template);
    if !is_open(old) {
        if expected != *given {
            immutable("spec.template", given, problems);
        }
        return;
    }
    let given = given.spec.clone().unwrap_or_default();
    let expected = expected.spec.get_or_insert_default();
    take_over(&given, expected);
    if *expected != given {
        immutable("spec.template.spec", &given, problems);
    }
}

fn immutable(field: &str, value: &impl Serialize, problems: &mut Problems) {
    let shown = serde_json::to_string(value).expect("an object becomes JSON");
    problems.invalid(field, shown, "field is immutable");
}

/// Whether a Job is suspended and has no pods, so that its template can change (`shouldAllowMutablePodTemplate` in
/// `pkg/registry/batch/job/strategy.go`).
fn is_open(job: &Job) -> bool {
    let is_suspended = job.spec.as_ref().and_then(|it| it.suspend) == Some(true);
    let status = job.status.clone().unwrap_or_default();
    let conditions = status.conditions.iter().flatten();
    let mut suspended = conditions.filter(|it| it.type_ == "Suspended" && it.status == "True");
    let has_stopped = status.start_time.is_none() || suspended.next().is_some();
    is_suspended && has_stopped && status.active.unwrap_or(0) == 0
}

/// Copies what may change while a Job has no pods: where they run, and their resources.
fn take_over(new: &PodSpec, old: &mut PodSpec) {
    old.node_selector.clone_from(&new.node_selector);
    old.tolerations.clone_from(&new.tolerations);
    old.scheduling_gates.clone_from(&new.scheduling_gates);
    let node = new
        .affinity
        .as_ref()
        .and_then(|it| it.node_affinity.clone());
    let affinity = old.affinity.get_or_insert_default();
    affinity.node_affinity = node;
    if new.affinity.is_none() && *affinity == Affinity::default() {
        old.affinity = None;
    }
    let init = old.init_containers.iter_mut().flatten();
    let init = init.zip(new.init_containers.iter().flatten());
    let containers = old.containers.iter_mut().zip(&new.containers);
    for (old, new) in containers
        .chain(init)
        .filter(|(old, new)| old.name == new.name)
    {
        old.resources.clone_from(&new.resources);
    }
}
