//! Server-side apply: who owns which field, and what a manager's new configuration makes of an
//! object (KEP-555; `sigs.k8s.io/structured-merge-diff`).
//!
//! A manager that applies owns the fields of its configuration. A field that it owned and no longer
//! sets goes, unless another manager owns it. A field that another manager owns with a different
//! value is a conflict.

mod fields;
mod managers;
mod merge;
#[cfg(test)]
mod tests;
mod typed;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::resource::{Resource, Subresource};
use crate::status::{Cause, Status};
use fields::{Difference, Element, Fields, Path};
pub(crate) use managers::keep_reset;
use managers::{Managers, Operation};
pub(crate) use typed::{all_fit, untyped};

/// A field manager: the client that writes, and through which subresource.
#[derive(Clone, Debug)]
pub(crate) struct Manager {
    pub(crate) name: String,
    /// Empty for the object itself.
    pub(crate) subresource: String,
}

/// What apply does with fields that other managers own with another value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conflicts {
    /// The request fails with 409.
    Refused,
    /// The applying manager takes the fields over (`force=true`).
    Forced,
}

/// The object after `manager` applied `config` to `live`; `live` is `None` for a new object.
///
/// # Errors
///
/// 409 with the fields that other managers own.
pub(crate) fn applied(
    resource: &Resource,
    live: Option<&Value>,
    config: &Value,
    manager: &Manager,
    conflicts: Conflicts,
    now: &str,
) -> Result<Value, Status> {
    let schema = &resource.schema;
    let mut managers = Managers::of(live.unwrap_or(&Value::Null));
    if let Some(live) = live
        && managers.is_empty()
    {
        // What nobody is known to own could be changed by anybody, without a conflict (`skipnonapplied.go`).
        let is_own = |field: &str| match manager.subresource.as_str() {
            "status" => ["metadata", "status"].contains(&field),
            _ => field != "status" || resource.status == Subresource::Absent,
        };
        let mut live = live.clone();
        if let Some(live) = live.as_object_mut() {
            live.retain(|field, _| is_own(field));
        }
        let before = Manager {
            name: "before-first-apply".to_owned(),
            subresource: manager.subresource.clone(),
        };
        let fields = Fields::of(schema, &live);
        managers.put(&before, Operation::Update, resource, fields, now.to_owned());
    }
    let wanted = Fields::of(schema, config);
    let before = managers.take(manager, Operation::Apply);
    let mut object = match live {
        None => config.clone(),
        Some(live) => {
            let mut object = live.clone();
            merge::merge(Some(schema), &mut object, config);
            let changed = Difference::between(schema, live, &object).changed;
            // Who conflicts about a Scale knows it in that version.
            let version = (manager.subresource == "scale").then_some("autoscaling/v1");
            let foreign = managers.owning(&changed, version);
            if conflicts == Conflicts::Refused && !foreign.is_empty() {
                return Err(conflict(&foreign));
            }
            managers.disown(&changed);
            if let Some((before, _)) = &before {
                let mut gone = before.clone();
                gone.remove(&wanted);
                let gone = gone.without_parts_of(&managers.fields(&wanted));
                fields::remove(schema, &mut object, &gone);
            }
            object
        }
    };
    let time = match before {
        Some((before, time)) if before == wanted => time,
        _ => now.to_owned(),
    };
    managers.put(manager, Operation::Apply, resource, wanted, time);
    managers.write(&mut object);
    Ok(object)
}

/// Records who creates an object, which is in its one form. Whoever leaves a field to its default owns it, and a status that
/// is a subresource has no owner yet.
pub(crate) fn created(resource: &Resource, object: &mut Value, manager: &Manager, now: &str) {
    let status = match resource.status {
        Subresource::Served => object.as_object_mut().and_then(|it| it.remove("status")),
        Subresource::Absent => None,
    };
    resource.complete(object);
    written(resource, None, object, manager, now);
    if let Some(status) = status {
        object["status"] = status;
    }
}

/// Records who replaces `old` by `new`, which is in its one form and keeps a status that is a subresource.
pub(crate) fn replaced(
    resource: &Resource,
    old: &Value,
    new: &mut Value,
    manager: &Manager,
    now: &str,
) {
    if resource.status == Subresource::Served {
        put(new, "status", old["status"].clone());
    }
    resource.complete(new);
    written(resource, Some(old), new, manager, now);
}

/// `old` with the status of `new`, and who wrote that.
pub(crate) fn status_replaced(
    resource: &Resource,
    old: &Value,
    mut new: Value,
    manager: &Manager,
    now: &str,
) -> Value {
    let mut whole = old.clone();
    put(&mut whole, "status", new["status"].take());
    let own = resource.metadata_of_status();
    for field in ["resourceVersion", "uid"].iter().chain(own) {
        put(&mut whole["metadata"], field, new["metadata"][field].take());
    }
    written(resource, Some(old), &mut whole, manager, now);
    whole
}

/// Sets a field, or removes it.
fn put(object: &mut Value, field: &str, value: Value) {
    if let Some(fields) = object.as_object_mut() {
        match value {
            Value::Null => fields.remove(field),
            value => fields.insert(field.to_owned(), value),
        };
    }
}

/// Records in the `managedFields` of `new` that `manager` wrote it in place of `old` by other means
/// than apply.
fn written(
    resource: &Resource,
    old: Option<&Value>,
    new: &mut Value,
    manager: &Manager,
    now: &str,
) {
    let schema = &resource.schema;
    let nothing = schema.zero();
    let given = &new["metadata"]["managedFields"];
    if managers::is_reset(given) && old.is_some() && manager.subresource.is_empty() {
        if let Some(metadata) = new["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        return;
    }
    let old = old.unwrap_or(&nothing);
    // Clients that do not know the field must not remove it, and writers of a part cannot change it (`decodeLiveOrNew` in
    // `managedfields/internal/fieldmanager.go`).
    let mut managers = Managers::of(new);
    if managers.is_empty() || !manager.subresource.is_empty() {
        managers = Managers::of(old);
    }
    let Difference { changed, removed } = Difference::between(schema, old, new);
    managers.disown(&removed);
    if !changed.is_empty() {
        managers.disown(&changed);
        let (mut own, _) = managers
            .take(manager, Operation::Update)
            .unwrap_or_default();
        own.extend(changed);
        managers.put(manager, Operation::Update, resource, own, now.to_owned());
        managers.cap();
    }
    managers.write(new);
}

/// 409 (`managedfields/internal/conflict.go`).
fn conflict(foreign: &[(String, Path)]) -> Status {
    let causes = foreign.iter().map(|(manager, path)| Cause {
        reason: "FieldManagerConflict",
        field: fields::text(path),
        message: format!("conflict with {manager}"),
    });
    let causes: Vec<_> = causes.collect();
    let why = match causes.as_slice() {
        [one] => format!("1 conflict: {}: {}", one.message, one.field),
        many => {
            let mut all: BTreeMap<_, Vec<_>> = BTreeMap::new();
            for it in many {
                all.entry(&it.message).or_default().push(&it.field);
            }
            let lines = all.into_iter().flat_map(|(message, fields)| {
                let head = format!("{}:", message.replacen("conflict", "conflicts", 1));
                let fields = fields.into_iter().map(|it| format!("- {it}"));
                std::iter::once(head).chain(fields)
            });
            let lines: Vec<_> = lines.collect();
            format!("{} conflicts: {}", many.len(), lines.join("\n"))
        }
    };
    Status::apply_conflict(format!("Apply failed with {why}"), &causes)
}

/// Whether a field is written by the server, or identifies the object. No manager owns such fields.
fn is_identity(path: &[&Element]) -> bool {
    let [Element::Field(first), rest @ ..] = path else {
        return false;
    };
    match (first.as_str(), rest) {
        ("apiVersion" | "kind", []) => true,
        ("metadata", [Element::Field(field)]) => [
            "name",
            "namespace",
            "uid",
            "resourceVersion",
            "generation",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "managedFields",
            "selfLink",
        ]
        .contains(&field.as_str()),
        _ => false,
    }
}
