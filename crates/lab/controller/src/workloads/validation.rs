//! Rules of workloads that need several fields (`pkg/apis/{core,apps,batch}/validation/validation.go`): not every one of
//! kube-apiserver, but those that users of kubectl meet. Rules of one field are the API's: they are facts of types.

mod dns;
mod job;
mod pod;
mod strategy;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet, StatefulSetSpec};
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

pub use job::{validate_cron_job, validate_job};

use super::labels;
use crate::FieldError;
use crate::field::Problems;

/// The errors in a Pod that has its defaults; `old` is the version that it replaces.
#[must_use]
pub fn validate_pod(pod: &Pod, old: Option<&Pod>) -> Vec<FieldError> {
    let mut problems = Problems::default();
    let spec = pod.spec.clone().unwrap_or_default();
    dns::check("spec", &spec, &mut problems);
    if let Some(old) = old.and_then(|it| it.spec.as_ref()) {
        pod::unchanged(old, &spec, &mut problems);
    }
    problems.found
}

/// The errors in a Deployment that has its defaults.
#[must_use]
pub fn validate_deployment(deployment: &Deployment, _: Option<&Deployment>) -> Vec<FieldError> {
    let spec = deployment.spec.clone().unwrap_or_default();
    let mut problems = common(&spec.selector, &spec.template);
    strategy::deployment(&spec, &mut problems);
    problems.found
}

/// The errors in a ReplicaSet that has its defaults.
#[must_use]
pub fn validate_replica_set(set: &ReplicaSet, _: Option<&ReplicaSet>) -> Vec<FieldError> {
    let spec = set.spec.clone().unwrap_or_default();
    let template = spec.template.unwrap_or_default();
    common(&spec.selector, &template).found
}

/// The errors in a StatefulSet that has its defaults; `old` is the version that it replaces.
#[must_use]
pub fn validate_stateful_set(set: &StatefulSet, old: Option<&StatefulSet>) -> Vec<FieldError> {
    let spec = set.spec.clone().unwrap_or_default();
    let mut problems = common(&spec.selector, &spec.template);
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

/// The errors in a DaemonSet that has its defaults.
#[must_use]
pub fn validate_daemon_set(set: &DaemonSet, _: Option<&DaemonSet>) -> Vec<FieldError> {
    let spec = set.spec.clone().unwrap_or_default();
    let mut problems = common(&spec.selector, &spec.template);
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

/// The checks that all workloads share.
fn common(new: &LabelSelector, pods: &PodTemplateSpec) -> Problems {
    let mut problems = Problems::default();
    selector(new, pods, &mut problems);
    template(pods, &mut problems);
    problems
}

fn selector(selector: &LabelSelector, template: &PodTemplateSpec, problems: &mut Problems) {
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
}

fn template(template: &PodTemplateSpec, problems: &mut Problems) {
    let spec = template.spec.clone().unwrap_or_default();
    dns::check("spec.template.spec", &spec, problems);
    let restarts = spec.restart_policy.as_deref();
    let field = "spec.template.spec.restartPolicy";
    problems.one_of(field, restarts, &["Always"]);
}
