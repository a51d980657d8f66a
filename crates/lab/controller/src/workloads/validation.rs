//! Validation of workloads (`pkg/apis/apps/validation/validation.go`): not every check of kube-apiserver, but those
//! that users of kubectl meet.

mod dns;
mod job;
mod pod;
mod strategy;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet, StatefulSetSpec};
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};

pub use job::{validate_cron_job, validate_job};

use super::labels;
use crate::field::Problems;
use crate::{FieldError, Format, meta};

/// The errors in a Pod that has its defaults; `old` is the version that it replaces.
#[must_use]
pub fn validate_pod(pod: &Pod, old: Option<&Pod>) -> Vec<FieldError> {
    let mut problems = Problems::default();
    metadata(&pod.metadata, &mut problems);
    let spec = pod.spec.clone().unwrap_or_default();
    pod::spec("spec", &spec, &mut problems);
    if let Some(old) = old.and_then(|it| it.spec.as_ref()) {
        pod::unchanged(old, &spec, &mut problems);
    }
    problems.found
}

/// The errors in a Deployment that has its defaults; `old` is the version that it replaces.
#[must_use]
pub fn validate_deployment(deployment: &Deployment, old: Option<&Deployment>) -> Vec<FieldError> {
    let spec = deployment.spec.clone().unwrap_or_default();
    let old = old.and_then(|it| Some(&it.spec.as_ref()?.selector));
    let mut problems = common(&deployment.metadata, &spec.selector, old, &spec.template);
    problems.not_negative("spec.replicas", spec.replicas);
    problems.not_negative("spec.minReadySeconds", spec.min_ready_seconds);
    problems.not_negative("spec.revisionHistoryLimit", spec.revision_history_limit);
    strategy::deployment(&spec, &mut problems);
    problems.found
}

/// The errors in a ReplicaSet that has its defaults; `old` is the version that it replaces.
#[must_use]
pub fn validate_replica_set(set: &ReplicaSet, old: Option<&ReplicaSet>) -> Vec<FieldError> {
    let spec = set.spec.clone().unwrap_or_default();
    let old = old.and_then(|it| Some(&it.spec.as_ref()?.selector));
    let template = spec.template.unwrap_or_default();
    let mut problems = common(&set.metadata, &spec.selector, old, &template);
    problems.not_negative("spec.replicas", spec.replicas);
    problems.not_negative("spec.minReadySeconds", spec.min_ready_seconds);
    problems.found
}

/// The errors in a StatefulSet that has its defaults; `old` is the version that it replaces.
#[must_use]
pub fn validate_stateful_set(set: &StatefulSet, old: Option<&StatefulSet>) -> Vec<FieldError> {
    let spec = set.spec.clone().unwrap_or_default();
    // A changed selector is reported below.
    let mut problems = common(&set.metadata, &spec.selector, None, &spec.template);
    problems.not_negative("spec.replicas", spec.replicas);
    problems.not_negative("spec.minReadySeconds", spec.min_ready_seconds);
    problems.not_negative("spec.revisionHistoryLimit", spec.revision_history_limit);
    let start = spec.ordinals.as_ref().and_then(|it| it.start);
    problems.not_negative("spec.ordinals.start", start);
    let policy = spec.pod_management_policy.as_deref();
    let policies = ["OrderedReady", "Parallel"];
    problems.one_of("spec.podManagementPolicy", policy, &policies);
    strategy::stateful_set(&spec, &mut problems);
    if let Some(old) = old.and_then(|it| it.spec.as_ref())
        && fixed(old) != fixed(&spec)
    {
        problems.forbidden(
            "spec",
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
             'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
             'minReadySeconds' are forbidden",
        );
    }
    problems.found
}

/// The errors in a DaemonSet that has its defaults; `old` is the version that it replaces.
#[must_use]
pub fn validate_daemon_set(set: &DaemonSet, old: Option<&DaemonSet>) -> Vec<FieldError> {
    let spec = set.spec.clone().unwrap_or_default();
    let old = old.and_then(|it| Some(&it.spec.as_ref()?.selector));
    let mut problems = common(&set.metadata, &spec.selector, old, &spec.template);
    problems.not_negative("spec.minReadySeconds", spec.min_ready_seconds);
    problems.not_negative("spec.revisionHistoryLimit", spec.revision_history_limit);
    strategy::daemon_set(&spec, &mut problems);
    problems.found
}

/// The immutable part of a StatefulSet.
fn fixed(spec: &StatefulSetSpec) -> StatefulSetSpec {
    StatefulSetSpec {
        min_ready_seconds: None,
        ordinals: None,
        persistent_volume_claim_retention_policy: None,
        replicas: None,
        revision_history_limit: None,
        template: PodTemplateSpec::default(),
        update_strategy: None,
        ..spec.clone()
    }
}

/// The checks that all workloads share. `old` is the selector of the previous version.
fn common(
    object: &ObjectMeta,
    new: &LabelSelector,
    old: Option<&LabelSelector>,
    pods: &PodTemplateSpec,
) -> Problems {
    let mut problems = Problems::default();
    metadata(object, &mut problems);
    selector(new, old, pods, &mut problems);
    template(pods, &mut problems);
    problems
}

fn metadata(metadata: &ObjectMeta, problems: &mut Problems) {
    let name = meta::name(metadata);
    let generated = metadata.generate_name.as_deref().unwrap_or_default();
    if name.is_empty() && generated.is_empty() {
        problems.required("metadata.name", "name or generateName is required");
    } else if !name.is_empty() {
        problems.format("metadata.name", name, Format::Subdomain);
    }
}

fn selector(
    selector: &LabelSelector,
    old: Option<&LabelSelector>,
    template: &PodTemplateSpec,
    problems: &mut Problems,
) {
    if labels::is_empty(selector) {
        problems.required("spec.selector", "");
        return;
    }
    let labels = template.metadata.as_ref().and_then(|it| it.labels.as_ref());
    if !labels::matches(selector, labels) {
        let found = serde_json::to_string(&labels.cloned().unwrap_or_default());
        problems.invalid(
            "spec.template.metadata.labels",
            found.expect("maps of texts become JSON"),
            "`selector` does not match template `labels`",
        );
    }
    if old.is_some_and(|it| it != selector) {
        let found = serde_json::to_string(selector).expect("selectors become JSON");
        problems.invalid("spec.selector", found, "field is immutable");
    }
}

fn template(template: &PodTemplateSpec, problems: &mut Problems) {
    let spec = template.spec.clone().unwrap_or_default();
    pod::spec("spec.template.spec", &spec, problems);
    let restarts = spec.restart_policy.as_deref();
    let field = "spec.template.spec.restartPolicy";
    problems.one_of(field, restarts, &["Always"]);
}
