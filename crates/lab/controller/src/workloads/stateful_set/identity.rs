//! Names and labels of a StatefulSet's pods (`pkg/controller/statefulset/stateful_set_utils.go`).

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaimVolumeSource, Pod, Volume};

use super::super::plan::Plan;
use super::super::pods;
use super::super::revisions::REVISION_HASH;
use super::Set;
use crate::meta;

/// The label with the pod's name, for Services of a single pod.
const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
/// The label with the pod's ordinal (KEP-4017).
const POD_INDEX: &str = "apps.kubernetes.io/pod-index";

/// The ordinal of a pod of this StatefulSet, from its name; `None` for other names.
pub(super) fn ordinal(set: &StatefulSet, pod: &Pod) -> Option<i32> {
    let (set, pod) = (set.metadata.name.as_deref()?, pod.metadata.name.as_deref()?);
    let digits = pod.strip_prefix(set)?.strip_prefix('-')?;
    let ordinal = digits.parse().ok()?;
    // `web-01` and `web-+1` are not names that a StatefulSet gives.
    (format!("{ordinal}") == digits && ordinal >= 0).then_some(ordinal)
}

/// The revision label of a pod.
pub(super) fn revision(pod: &Pod) -> &str {
    meta::label(&pod.metadata, REVISION_HASH)
}

/// A new pod with this ordinal.
pub(super) fn pod(set: &Set<'_>, ordinal: i32) -> Pod {
    let (revision, template) = set.revision(ordinal);
    let mut pod = pods::from_template(&template, set.object);
    let name = meta::name(&set.object.metadata);
    let name = format!("{name}-{ordinal}");
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(REVISION_HASH.to_owned(), revision.to_owned());
    identify(&mut pod, &name, ordinal);
    let spec = pods::spec_mut(&mut pod);
    let claims = set.spec.volume_claim_templates.as_deref();
    let volumes = spec.volumes.get_or_insert_default();
    for claim in claims.unwrap_or_default() {
        let volume = meta::name(&claim.metadata);
        // A claim takes the place of a volume of its name (`updateStorage`).
        volumes.retain(|it| it.name != volume);
        volumes.push(Volume {
            name: volume.to_owned(),
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: format!("{volume}-{name}"),
                read_only: Some(false),
            }),
            ..Volume::default()
        });
    }
    if volumes.is_empty() {
        spec.volumes = None;
    }
    spec.hostname = Some(name);
    spec.subdomain = set.spec.service_name.clone();
    pod
}

/// Sets the labels of an adopted pod.
pub(super) fn restore(set: &StatefulSet, pod: &Pod, ordinal: i32, plan: &mut Plan) {
    let mut after = pod.clone();
    let name = meta::name(&pod.metadata);
    identify(&mut after, name, ordinal);
    if super::ownership::is_controlled_by(&pod.metadata, set) {
        plan.update(pod, after);
    }
}

fn identify(pod: &mut Pod, name: &str, ordinal: i32) {
    pod.metadata.name = Some(name.to_owned());
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(POD_NAME.to_owned(), name.to_owned());
    labels.insert(POD_INDEX.to_owned(), ordinal.to_string());
}
