//! The templates of a StatefulSet or DaemonSet as ControllerRevisions (`pkg/controller/history/controller_history.go`).
//! kubectl reads them for `rollout history` and `rollout undo`.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use serde_json::{Value, json};

use super::plan::{Object, Plan};
use super::{Cluster, ownership, template};
use crate::Typed;

/// The label of pods and revisions with the hash of their template.
pub(super) const REVISION_HASH: &str = "controller-revision-hash";

/// The revisions of one owner.
pub(super) struct Revisions<'a> {
    /// Sorted by revision number.
    pub(super) all: Vec<&'a ControllerRevision>,
    /// The revision of the present template, existing or created by this plan.
    pub(super) update: ControllerRevision,
}

/// The owner of revisions, with its template.
pub(super) struct Owner<'a, T> {
    pub(super) object: &'a T,
    pub(super) selector: &'a LabelSelector,
    pub(super) template: &'a PodTemplateSpec,
    pub(super) collisions: Option<i32>,
}

/// Finds or creates the revision of the present template, and gives it the highest number (`getStatefulSetRevisions`,
/// `constructHistory`). `None`: another object has its name. This counts as a collision, which changes the next name.
pub(super) fn synchronize<'a, T: Object>(
    cluster: &'a Cluster,
    owner: &Owner<'_, T>,
    collisions: impl Fn(&mut T) -> &mut Option<i32>,
    plan: &mut Plan,
) -> Option<Revisions<'a>> {
    let (object, selector) = (owner.object, owner.selector);
    let mut all = ownership::claim(object, selector, &cluster.revisions, |_| true, plan);
    all.sort_by_key(|it| (it.revision, it.metadata.name.clone()));
    let data = data(owner.template);
    let highest = all.last().map_or(0, |it| it.revision);
    let equal = all.iter().rev().find(|it| it.data.as_ref() == Some(&data));
    let update = match equal {
        Some(equal) if equal.revision == highest => (*equal).clone(),
        Some(equal) => {
            let mut renewed = (*equal).clone();
            renewed.revision = highest + 1;
            plan.update(*equal, renewed.clone());
            renewed
        }
        None => {
            let Some(created) = create(cluster, owner, data, highest + 1, plan) else {
                let mut after = object.clone();
                *collisions(&mut after).get_or_insert(0) += 1;
                plan.update_status(object, after);
                return None;
            };
            created
        }
    };
    Some(Revisions { all, update })
}

fn create<T: Object>(
    cluster: &Cluster,
    owner: &Owner<'_, T>,
    data: RawExtension,
    number: i64,
    plan: &mut Plan,
) -> Option<ControllerRevision> {
    let metadata = owner.object.metadata();
    let hash = template::hash(owner.template, owner.collisions);
    let name = format!("{}-{hash}", crate::meta::name(metadata));
    let is_taken = cluster.revisions.iter().any(|it| {
        it.metadata.namespace == metadata.namespace && it.metadata.name.as_ref() == Some(&name)
    });
    if is_taken {
        return None;
    }
    let labels = owner.template.metadata.as_ref();
    let mut labels = labels.and_then(|it| it.labels.clone()).unwrap_or_default();
    labels.insert(REVISION_HASH.to_owned(), hash);
    let revision = ControllerRevision {
        data: Some(data),
        metadata: ObjectMeta {
            name: Some(name),
            namespace: metadata.namespace.clone(),
            labels: Some(labels),
            owner_references: Some(vec![ownership::reference(owner.object)]),
            ..ObjectMeta::default()
        },
        revision: number,
    };
    plan.create(revision.clone());
    Some(revision)
}

pub(super) fn name(revision: &ControllerRevision) -> &str {
    crate::meta::name(&revision.metadata)
}

/// The template of a revision; `None` when it is in another format.
pub(super) fn template(revision: &ControllerRevision) -> Option<PodTemplateSpec> {
    let mut template = revision.data.as_ref()?.0.pointer("/spec/template")?.clone();
    if let Value::Object(fields) = &mut template {
        fields.remove("$patch");
    }
    PodTemplateSpec::read(&template).ok()
}

/// A patch that restores the template, as kubectl expects it (`getPatch`).
fn data(template: &PodTemplateSpec) -> RawExtension {
    let mut template = template.write();
    template["$patch"] = json!("replace");
    RawExtension(json!({ "spec": { "template": template } }))
}

/// Deletes the lowest revisions that no pod has, until `limit` are left (`truncateHistory`, `cleanupHistory`).
pub(super) fn clean_up(
    revisions: &[&ControllerRevision],
    live: &BTreeSet<&str>,
    limit: Option<i32>,
    plan: &mut Plan,
) {
    let old: Vec<_> = revisions
        .iter()
        .filter(|it| !live.contains(name(it)))
        .collect();
    let limit = usize::try_from(limit.unwrap_or(10)).unwrap_or(0);
    for revision in &old[..old.len().saturating_sub(limit)] {
        plan.delete(**revision);
    }
}
