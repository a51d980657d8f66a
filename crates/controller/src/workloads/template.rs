//! Hashes of templates: the labels by which revisions are told apart.

use k8s_openapi::api::core::v1::PodTemplateSpec;

use crate::meta;

/// The label of a Deployment's ReplicaSets and pods.
pub(super) const POD_TEMPLATE_HASH: &str = "pod-template-hash";

/// Characters of a hash, as many as kube-controller-manager's have at most.
const LENGTH: usize = 10;

/// The hash of a template. Another number of collisions gives another hash (`ComputeHash`,
/// `pkg/controller/controller_utils.go`; the algorithm there is another, which nobody may rely on).
pub(super) fn hash(template: &PodTemplateSpec, collisions: Option<i32>) -> String {
    let text = serde_json::to_string(template).expect("maps with texts as keys become JSON");
    let number = meta::hash(&[&text, &collisions.unwrap_or(0).to_string()]);
    meta::characters(number, LENGTH)
}

/// Whether two templates make the same pods, but for the label of the hash (`EqualIgnoreHash`,
/// `pkg/controller/deployment/util/deployment_util.go`).
pub(super) fn is_equal_without_hash(a: &PodTemplateSpec, b: &PodTemplateSpec) -> bool {
    without_hash(a) == without_hash(b)
}

fn without_hash(template: &PodTemplateSpec) -> PodTemplateSpec {
    let mut template = template.clone();
    let metadata = template.metadata.get_or_insert_default();
    if let Some(labels) = &mut metadata.labels {
        labels.remove(POD_TEMPLATE_HASH);
    }
    template
}
