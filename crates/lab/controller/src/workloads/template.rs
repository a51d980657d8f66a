//! Hashes of pod templates, which are labels of pods and ReplicaSets.

use k8s_openapi::api::core::v1::PodTemplateSpec;

use crate::meta;

/// The label of a Deployment's ReplicaSets and pods.
pub(super) const POD_TEMPLATE_HASH: &str = "pod-template-hash";

/// Length of a hash: the most that kube-controller-manager's have.
const LENGTH: usize = 10;

/// The hash of a template. It differs for each number of collisions (`ComputeHash`,
/// `pkg/controller/controller_utils.go`, which uses another algorithm that nothing may rely on).
pub(super) fn hash(template: &PodTemplateSpec, collisions: Option<i32>) -> String {
    let text = serde_json::to_string(template).expect("maps with texts as keys become JSON");
    let number = meta::hash(&[&text, &collisions.unwrap_or(0).to_string()]);
    meta::characters(number, LENGTH)
}

/// Whether two templates are equal but for the label with the hash (`EqualIgnoreHash`,
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
