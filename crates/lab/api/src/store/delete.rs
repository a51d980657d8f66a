//! DELETE: at once, after the grace period, or after the last finalizer is removed.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::custom::is_definition;
use super::dependents::{FOREGROUND, ORPHAN, has_finalizer, is_waiting};
use super::writer::{Chore, Writer};
use super::{DeleteOptions, Effect, Propagation};
use crate::history::seconds;
use crate::object::{Key, Object};
use crate::resource::Resource;
use crate::status::Status;

/// Grace period of a Pod without `terminationGracePeriodSeconds` (`core/v1/defaults.go`).
const DEFAULT_GRACE: u64 = 30;

impl Writer {
    pub(super) fn delete(
        &mut self,
        resource: &Arc<Resource>,
        key: &Key,
        options: &DeleteOptions,
    ) -> Result<Arc<Value>, Status> {
        let old = self.find(resource, key)?;
        let value = old.value();
        check(resource, key, &value, options)?;
        self.check_namespace_may_go(resource, key)?;
        if options.effect == Effect::DryRun {
            return Ok(value);
        }
        let propagation = propagation(&value, options);
        if propagation == Propagation::Orphan {
            self.orphan_dependents(&old)?;
        }
        let dependents = match propagation {
            Propagation::Foreground => self.dependents_of(&old),
            _ => Vec::new(),
        };
        if !dependents.is_empty() && is_waiting(&value) {
            return Ok(value);
        }
        let old = self.without_collector(resource, &old)?;
        let value = old.value();
        if !dependents.is_empty() {
            let marked = self.mark(resource, &old, 0, Some(FOREGROUND))?;
            let chores = dependents.into_iter();
            let chores = chores.map(|(resource, key)| Chore::Collect(resource, key));
            self.chores.extend(chores);
            self.chores
                .push_back(Chore::Settle(resource.clone(), key.clone()));
            return Ok(marked);
        }
        if resource.is("", "Namespace") {
            return self.end_namespace(resource, &old);
        }
        if is_definition(resource) {
            return self.end_definition(resource, &old);
        }
        let grace = grace(resource, &value, options);
        if ends_at_once(resource, &value, options) {
            self.remove(resource, &old)?;
            return Ok(value);
        }
        let earlier = value["metadata"]["deletionGracePeriodSeconds"].as_u64();
        let is_marked = !value["metadata"]["deletionTimestamp"].is_null();
        match earlier {
            // A second request can only shorten the grace period.
            Some(earlier) if is_marked && earlier <= grace => Ok(value),
            _ => self.mark(resource, &old, grace, None),
        }
    }

    /// Removes the finalizers of the garbage collector, which has done what they ask for or is not to do it
    /// (`deletionFinalizersForGarbageCollection` in `registry/generic/registry/store.go`).
    fn without_collector(
        &mut self,
        resource: &Arc<Resource>,
        old: &Arc<Object>,
    ) -> Result<Arc<Object>, Status> {
        let mut new = Value::clone(&old.value());
        if ![FOREGROUND, ORPHAN]
            .iter()
            .any(|it| has_finalizer(&new, it))
        {
            return Ok(old.clone());
        }
        if let Some(all) = new["metadata"]["finalizers"].as_array_mut() {
            all.retain(|it| *it != FOREGROUND && *it != ORPHAN);
        }
        // The one form has no empty list.
        if !has_finalizers(&new)
            && let Some(metadata) = new["metadata"].as_object_mut()
        {
            metadata.remove("finalizers");
        }
        self.commit(resource, old.key.clone(), new, Some(old.clone()))
    }

    /// Sets `deletionTimestamp`, the end of the grace period.
    pub(super) fn mark(
        &mut self,
        resource: &Arc<Resource>,
        old: &Arc<Object>,
        grace: u64,
        finalizer: Option<&str>,
    ) -> Result<Arc<Value>, Status> {
        let mut new = Value::clone(&old.value());
        let metadata = &mut new["metadata"];
        let end = Timestamp::now()
            .checked_add(SignedDuration::from_secs(
                grace.min(u64::from(u32::MAX)) as i64
            ))
            .unwrap_or(Timestamp::MAX);
        metadata["deletionTimestamp"] = seconds(end).into();
        metadata["deletionGracePeriodSeconds"] = grace.into();
        if metadata["generation"].is_number() {
            metadata["generation"] = (old.generation + 1).into();
        }
        if let Some(finalizer) = finalizer {
            match metadata["finalizers"].as_array_mut() {
                Some(all) if all.iter().any(|it| it == finalizer) => {}
                Some(all) => all.push(finalizer.into()),
                None => metadata["finalizers"] = json!([finalizer]),
            }
        }
        let marked = self.commit(resource, old.key.clone(), new, Some(old.clone()))?;
        let marked = marked.value();
        if !resource.custom {
            self.admission.marked(&marked);
        }
        Ok(marked)
    }

    /// Removes an object that is being deleted if nothing delays that any more: dependents,
    /// contents of a namespace.
    pub(super) fn settle(&mut self, resource: &Arc<Resource>, key: &Key) -> Result<(), Status> {
        let Some(object) = self.get(resource, key) else {
            return Ok(());
        };
        let value = object.value();
        if value["metadata"]["deletionTimestamp"].is_null() {
            return Ok(());
        }
        if resource.is("", "Namespace") {
            return self.settle_namespace(resource, &object);
        }
        if is_definition(resource) {
            return self.settle_definition(resource, &object);
        }
        let finalizers = value["metadata"]["finalizers"].as_array();
        let finalizers = finalizers.map_or(&[][..], Vec::as_slice);
        if !finalizers.iter().any(|it| it == FOREGROUND) || self.is_blocked(&object) {
            return Ok(());
        }
        if finalizers.len() == 1 {
            return self.remove(resource, &object);
        }
        let mut new = Value::clone(&value);
        let others = finalizers.iter().filter(|it| *it != FOREGROUND);
        new["metadata"]["finalizers"] = others.cloned().collect();
        self.commit(resource, key.clone(), new, Some(object.clone()))?;
        Ok(())
    }
}

/// What happens to the dependents: as the request says, or else the finalizers of the object.
fn propagation(object: &Value, options: &DeleteOptions) -> Propagation {
    match options.propagation {
        Propagation::Unspecified if has_finalizer(object, ORPHAN) => Propagation::Orphan,
        Propagation::Unspecified if has_finalizer(object, FOREGROUND) => Propagation::Foreground,
        Propagation::Unspecified => Propagation::Background,
        given => given,
    }
}

pub(super) fn has_finalizers(object: &Value) -> bool {
    let finalizers = object["metadata"]["finalizers"].as_array();
    finalizers.is_some_and(|it| !it.is_empty())
}

/// Checks the preconditions (`BeforeDelete` in `registry/rest/delete.go`).
fn check(
    resource: &Resource,
    key: &Key,
    object: &Value,
    options: &DeleteOptions,
) -> Result<(), Status> {
    let metadata = &object["metadata"];
    for (what, wanted, real, why) in [
        (
            "UID",
            &options.uid,
            &metadata["uid"],
            "deleted and then recreated",
        ),
        (
            "ResourceVersion",
            &options.resource_version,
            &metadata["resourceVersion"],
            "modified",
        ),
    ] {
        let real = real.as_str().unwrap_or_default();
        if let Some(wanted) = wanted.as_deref().filter(|it| *it != real) {
            let why = format!(
                "the {what} in the precondition ({wanted}) does not match the {what} in record ({real}). The object might \
                 have been {why}"
            );
            // Kubernetes has the kind where other refusals have the plural.
            let resource = Resource {
                plural: resource.kind.clone(),
                ..resource.clone()
            };
            return Err(Status::conflict(&resource, &key.name, &why));
        }
    }
    Ok(())
}

/// Whether a deletion removes the object, and does not only mark it.
pub(crate) fn ends_at_once(resource: &Resource, object: &Value, options: &DeleteOptions) -> bool {
    grace(resource, object, options) == 0
        && !has_finalizers(object)
        && !resource.is("", "Namespace")
}

/// The grace period in seconds: 0 for all but Pods that a kubelet runs
/// (`registry/core/pod/strategy.go`, `CheckGracefulDelete`).
fn grace(resource: &Resource, object: &Value, options: &DeleteOptions) -> u64 {
    let is_over = ["Succeeded", "Failed"]
        .map(Value::from)
        .contains(&object["status"]["phase"]);
    let on_node = object["spec"]["nodeName"]
        .as_str()
        .is_some_and(|it| !it.is_empty());
    if !resource.is("", "Pod") || is_over || !on_node {
        return 0;
    }
    let own = object["spec"]["terminationGracePeriodSeconds"].as_u64();
    options
        .grace
        .map_or(own.unwrap_or(DEFAULT_GRACE), u64::from)
}
