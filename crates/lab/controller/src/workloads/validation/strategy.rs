//! Update strategies.

use k8s_openapi::api::apps::v1::{DaemonSetSpec, DeploymentSpec, StatefulSetSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::super::counts::percentage;
use crate::field::Problems;
use crate::format::PERCENTAGE;

const ROLLING: &str = "spec.updateStrategy.rollingUpdate";

/// Both numbers of a rolling update are 0: no pod could ever be replaced.
const NO_ROOM: &str = "may not be 0 when `maxSurge` is 0";

pub(super) fn deployment(spec: &DeploymentSpec, problems: &mut Problems) {
    let strategy = spec.strategy.clone().unwrap_or_default();
    let kind = strategy.type_.as_deref();
    let path = "spec.strategy.rollingUpdate";
    match (kind, &strategy.rolling_update) {
        (Some("Recreate"), Some(_)) => {
            problems.forbidden(
                path,
                "may not be specified when strategy `type` is 'Recreate'",
            );
        }
        (_, Some(rolling)) => {
            let (surge, unavailable) = (&rolling.max_surge, &rolling.max_unavailable);
            let surges =
                surge_and_unavailable(path, surge.as_ref(), unavailable.as_ref(), problems);
            if !surges && unavailable.as_ref().is_some_and(is_zero) {
                problems.invalid(format!("{path}.maxUnavailable"), 0, NO_ROOM);
            }
        }
        (_, None) => {}
    }
    let deadline = spec.progress_deadline_seconds;
    let ready = spec.min_ready_seconds.unwrap_or(0);
    if let Some(it) = deadline.filter(|it| *it <= ready) {
        let rule = "must be greater than minReadySeconds";
        problems.invalid("spec.progressDeadlineSeconds", it, rule);
    }
}

pub(super) fn daemon_set(spec: &DaemonSetSpec, problems: &mut Problems) {
    let strategy = spec.update_strategy.clone().unwrap_or_default();
    let path = ROLLING;
    let Some(rolling) = &strategy.rolling_update else {
        return;
    };
    let (surge, unavailable) = (&rolling.max_surge, &rolling.max_unavailable);
    let surges = surge_and_unavailable(path, surge.as_ref(), unavailable.as_ref(), problems);
    let misses = unavailable.as_ref().is_some_and(|it| !is_zero(it));
    if surges && misses {
        let rule = "may not be set when `maxUnavailable` is non-zero";
        problems.forbidden(format!("{path}.maxSurge"), rule);
    } else if !surges && unavailable.as_ref().is_some_and(is_zero) {
        problems.required(
            format!("{path}.maxUnavailable"),
            "cannot be 0 when maxSurge is 0",
        );
    }
}

pub(super) fn stateful_set(spec: &StatefulSetSpec, problems: &mut Problems) {
    let strategy = spec.update_strategy.clone().unwrap_or_default();
    let kind = strategy.type_.as_deref();
    let path = ROLLING;
    match (kind, &strategy.rolling_update) {
        (Some("OnDelete"), Some(_)) => {
            problems.invalid(
                path,
                "{}",
                "only allowed for updateStrategy 'RollingUpdate'",
            );
        }
        (_, Some(rolling)) => {
            if let Some(it) = &rolling.max_unavailable {
                let field = format!("{path}.maxUnavailable");
                number(&field, it, problems);
                if is_zero(it) {
                    problems.invalid(field, 0, "cannot be 0");
                }
            }
        }
        (_, None) => {}
    }
}

/// Checks both numbers. Returns whether there is a surge.
fn surge_and_unavailable(
    path: &str,
    surge: Option<&IntOrString>,
    unavailable: Option<&IntOrString>,
    problems: &mut Problems,
) -> bool {
    if let Some(it) = surge {
        number(&format!("{path}.maxSurge"), it, problems);
    }
    if let Some(it) = unavailable {
        let field = format!("{path}.maxUnavailable");
        number(&field, it, problems);
        if let IntOrString::String(text) = it
            && percentage(text).is_some_and(|it| it > 100)
        {
            problems.invalid(
                field,
                format!("\"{text}\""),
                "must not be greater than 100%",
            );
        }
    }
    surge.is_some_and(|it| !is_zero(it))
}

fn number(field: &str, value: &IntOrString, problems: &mut Problems) {
    match value {
        IntOrString::Int(it) => problems.not_negative(field, Some(*it)),
        IntOrString::String(it) if percentage(it).is_none() => {
            problems.invalid(field, format!("\"{it}\""), PERCENTAGE);
        }
        IntOrString::String(_) => {}
    }
}

fn is_zero(value: &IntOrString) -> bool {
    match value {
        IntOrString::Int(it) => *it == 0,
        IntOrString::String(it) => percentage(it) == Some(0),
    }
}
