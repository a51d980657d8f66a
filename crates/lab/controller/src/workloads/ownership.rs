//! The objects that a controller owns, by owner reference and selector (`pkg/controller/controller_ref_manager.go`).

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};

use super::labels;
use super::plan::{Object, Plan};
use crate::meta;

/// The owner reference for objects that `owner` creates.
pub(super) fn reference<T: Object>(owner: &T) -> OwnerReference {
    meta::controlled_by(T::API_VERSION, T::KIND, owner.metadata())
}

/// The owner reference of an object to its controller.
pub(super) fn controller(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    let references = metadata.owner_references.iter().flatten();
    references
        .into_iter()
        .find(|it| it.controller == Some(true))
}

/// Whether `owner`, and not an earlier object of the same name, is the controller of an object.
pub(super) fn is_controlled_by<T: Object>(metadata: &ObjectMeta, owner: &T) -> bool {
    let uid = owner.metadata().uid.as_deref().unwrap_or_default();
    controller(metadata).is_some_and(|it| it.uid == uid && it.kind == T::KIND)
}

/// The objects of `owner`. Adopts objects without controller that the selector matches, and releases those that it no
/// longer matches. Only objects with `is_member` are adopted, released and returned.
pub(super) fn claim<'a, O: Object, T: Object>(
    owner: &O,
    selector: &LabelSelector,
    objects: &'a [Arc<T>],
    is_member: impl Fn(&T) -> bool,
    plan: &mut Plan,
) -> Vec<&'a T> {
    let is_ending = owner.metadata().deletion_timestamp.is_some();
    let mut claimed = Vec::new();
    for object in objects {
        let metadata = object.metadata();
        if metadata.namespace != owner.metadata().namespace || !is_member(object) {
            continue;
        }
        let is_selected = labels::claims(selector, metadata.labels.as_ref());
        match controller(metadata) {
            Some(_) if !is_controlled_by(metadata, owner) => {}
            Some(_) if is_selected => claimed.push(&**object),
            Some(_) => {
                if !is_ending {
                    release(owner, &**object, plan);
                }
            }
            None => {
                let is_orphan = metadata.deletion_timestamp.is_none() && !plan.deletes(&**object);
                if is_selected && !is_ending && is_orphan {
                    adopt(owner, &**object, plan);
                    claimed.push(&**object);
                }
            }
        }
    }
    claimed
}

fn adopt<O: Object, T: Object>(owner: &O, object: &T, plan: &mut Plan) {
    let mut adopted = object.clone();
    let references = &mut adopted.metadata_mut().owner_references;
    references.get_or_insert_default().push(reference(owner));
    plan.update(object, adopted);
}

fn release<O: Object, T: Object>(owner: &O, object: &T, plan: &mut Plan) {
    let mut released = object.clone();
    if let Some(references) = &mut released.metadata_mut().owner_references {
        references.retain(|it| Some(&it.uid) != owner.metadata().uid.as_ref());
    }
    plan.update(object, released);
}
