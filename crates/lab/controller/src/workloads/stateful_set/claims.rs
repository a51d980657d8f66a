//! The claims of a StatefulSet's pods, which outlive them, and who owns the claims
//! (`pkg/controller/statefulset/stateful_pod_control.go`, KEP-1847).

use k8s_openapi::Resource;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::super::plan::{Object, Plan};
use super::super::{Cluster, ownership};
use super::{Set, identity};
use crate::meta;

/// The claims of the pod with this ordinal.
fn of(set: &Set<'_>, ordinal: i32) -> Vec<PersistentVolumeClaim> {
    let templates = set.spec.volume_claim_templates.iter().flatten();
    let claims = templates.map(|template| {
        let mut metadata = template.metadata.clone();
        let name = meta::name(&set.object.metadata);
        let name = format!("{}-{name}-{ordinal}", meta::name(&metadata));
        let labels = set.spec.selector.match_labels.iter().flatten();
        let labels = labels.map(|(key, value)| (key.clone(), value.clone()));
        metadata.labels.get_or_insert_default().extend(labels);
        PersistentVolumeClaim {
            metadata: ObjectMeta {
                name: Some(name),
                namespace: set.object.metadata.namespace.clone(),
                ..metadata
            },
            spec: template.spec.clone(),
            status: None,
        }
    });
    claims.collect()
}

fn find<'a>(
    cluster: &'a Cluster,
    claim: &PersistentVolumeClaim,
) -> Option<&'a PersistentVolumeClaim> {
    let (name, namespace) = (&claim.metadata.name, &claim.metadata.namespace);
    let mut all = cluster.claims.iter();
    let found = all.find(|it| it.metadata.name == *name && it.metadata.namespace == *namespace)?;
    Some(&**found)
}

/// Creates the claims that a new pod lacks. Returns whether the pod can have them: none is being deleted, or belongs to an
/// earlier pod that was scaled down (`PodClaimIsStale`).
pub(super) fn create(cluster: &Cluster, set: &Set<'_>, ordinal: i32, plan: &mut Plan) -> bool {
    let mut is_ready = true;
    for claim in of(set, ordinal) {
        match find(cluster, &claim) {
            Some(it) => {
                let owners = it.metadata.owner_references.iter().flatten();
                let pod = format!("{}-{ordinal}", meta::name(&set.object.metadata));
                let mut owners = owners.filter(|it| it.kind == Pod::KIND && it.name == pod);
                let is_stale = set.deletes_claims(|it| &it.when_scaled) && owners.next().is_some();
                is_ready &= it.metadata.deletion_timestamp.is_none() && !is_stale;
            }
            None => {
                let set_name = meta::name(&set.object.metadata);
                let message = format!(
                    "create Claim {} Pod {set_name}-{ordinal} in StatefulSet {set_name} success",
                    meta::name(&claim.metadata)
                );
                plan.create(claim);
                plan.event(set.object, "SuccessfulCreate", message);
            }
        }
    }
    is_ready
}

/// Gives the claims of a pod the owners that `persistentVolumeClaimRetentionPolicy` wants
/// (`UpdatePodClaimForRetentionPolicy`).
pub(super) fn keep(cluster: &Cluster, set: &Set<'_>, pod: &Pod, plan: &mut Plan) {
    let Some(ordinal) = identity::ordinal(set.object, pod) else {
        return;
    };
    for claim in of(set, ordinal) {
        let Some(claim) = find(cluster, &claim) else {
            continue;
        };
        let given = claim.metadata.owner_references.clone().unwrap_or_default();
        let is_same = |wanted: &[OwnerReference]| {
            wanted.len() == given.len() && wanted.iter().all(|it| given.contains(it))
        };
        if let Some(wanted) = owners(set, pod, ordinal, &given).filter(|it| !is_same(it)) {
            let mut after = claim.clone();
            after.metadata.owner_references = (!wanted.is_empty()).then_some(wanted);
            plan.update(claim, after);
        }
    }
}

/// The owners that a claim is to have. `None`: they refer to an earlier set or pod of the name, whose end the garbage
/// collector sees to.
fn owners(
    set: &Set<'_>,
    pod: &Pod,
    ordinal: i32,
    given: &[OwnerReference],
) -> Option<Vec<OwnerReference>> {
    let names = |it: &OwnerReference| is_named(it, set.object) || is_named(it, pod);
    let is_own = |it: &OwnerReference| is_owner(it, set.object) || is_owner(it, pod);
    if given.iter().any(|it| names(it) && !is_own(it)) {
        return None;
    }
    let mut wanted: Vec<_> = given.iter().filter(|it| !names(it)).cloned().collect();
    let (on_deletion, on_scale) = (
        set.deletes_claims(|it| &it.when_deleted),
        set.deletes_claims(|it| &it.when_scaled),
    );
    // The policy yields to another controller.
    if wanted.iter().any(|it| it.controller == Some(true)) {
        return Some(wanted);
    }
    let is_surplus = !set.ordinals().contains(&ordinal);
    if on_scale && is_surplus {
        wanted.push(ownership::reference(pod));
    } else if on_deletion {
        wanted.push(ownership::reference(set.object));
    }
    Some(wanted)
}

fn is_named<T: Object>(reference: &OwnerReference, object: &T) -> bool {
    (&*reference.api_version, &*reference.kind) == (T::API_VERSION, T::KIND)
        && reference.name == meta::name(object.metadata())
}

fn is_owner<T: Object>(reference: &OwnerReference, object: &T) -> bool {
    Some(&reference.uid) == object.metadata().uid.as_ref()
}
