//! `podFailurePolicy` and `successPolicy` of a Job (`pkg/controller/job/{pod_failure_policy,success_policy}.go`).

use k8s_openapi::api::batch::v1::{
    JobSpec, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyRule,
};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use super::indexes::{self, Indexes};
use crate::meta;

/// What the failure of a pod means for its Job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It counts towards `backoffLimit` and `backoffLimitPerIndex`.
    Counted,
    /// It counts towards no limit, and the pod is replaced.
    Ignored,
    /// Its index is not tried again.
    FailsIndex,
    /// The Job fails, for this reason.
    FailsJob(String),
}

/// What the first rule that matches a failed pod says.
pub(super) fn outcome(spec: &JobSpec, pod: &Pod) -> Outcome {
    let rules = spec.pod_failure_policy.iter().flat_map(|it| &it.rules);
    for (at, rule) in rules.enumerate() {
        let Some(what) = matched(rule, pod) else {
            continue;
        };
        return match rule.action.as_str() {
            "Ignore" => Outcome::Ignored,
            "FailIndex" => Outcome::FailsIndex,
            "FailJob" => Outcome::FailsJob(format!("{what} matching FailJob rule at index {at}")),
            _ => Outcome::Counted,
        };
    }
    Outcome::Counted
}

/// The exit code or condition of the pod that matches the rule, in words.
fn matched(rule: &PodFailurePolicyRule, pod: &Pod) -> Option<String> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let name = format!("{namespace}/{}", meta::name(&pod.metadata));
    let status = pod.status.as_ref()?;
    if let Some(codes) = &rule.on_exit_codes {
        let containers = status.container_statuses.iter().flatten();
        let mut all = containers.chain(status.init_container_statuses.iter().flatten());
        let (container, code) = all.find_map(|it| Some((&it.name, exited(it, codes)?)))?;
        return Some(format!(
            "Container {container} for pod {name} failed with exit code {code}"
        ));
    }
    let wanted = rule.on_pod_conditions.as_deref().unwrap_or_default();
    let mut conditions = status.conditions.iter().flatten();
    let found = conditions.find(|it| {
        let mut wanted = wanted.iter();
        wanted.any(|wanted| {
            wanted.type_ == it.type_ && wanted.status.as_deref().unwrap_or("True") == it.status
        })
    })?;
    Some(format!("Pod {name} has condition {}", found.type_))
}

/// The exit code of a container, if it matches. 0 never does.
fn exited(
    container: &ContainerStatus,
    wanted: &PodFailurePolicyOnExitCodesRequirement,
) -> Option<i32> {
    let code = container.state.as_ref()?.terminated.as_ref()?.exit_code;
    let is_named = wanted
        .container_name
        .as_ref()
        .is_none_or(|it| *it == container.name);
    let is_in = wanted.values.contains(&code);
    let is_wanted = match wanted.operator.as_str() {
        "In" => is_in,
        "NotIn" => !is_in,
        _ => false,
    };
    (code != 0 && is_named && is_wanted).then_some(code)
}

/// The first rule of `successPolicy` that the indexes that succeeded fulfil.
pub(super) fn succeeds(spec: &JobSpec, indexes: &Indexes) -> Option<usize> {
    let policy = spec.success_policy.as_ref()?;
    let succeeded = indexes.all_succeeded();
    let enough = |count: usize, wanted: Option<i32>| {
        wanted.is_some_and(|it| usize::try_from(it).is_ok_and(|it| count >= it))
    };
    policy.rules.iter().position(|rule| {
        let Some(text) = &rule.succeeded_indexes else {
            return !succeeded.is_empty() && enough(succeeded.len(), rule.succeeded_count);
        };
        let wanted = indexes::parse(text, spec.completions.unwrap_or(0));
        let reached = wanted.intersection(succeeded).count();
        !wanted.is_empty()
            && !succeeded.is_empty()
            && (reached == wanted.len() || enough(reached, rule.succeeded_count))
    })
}
