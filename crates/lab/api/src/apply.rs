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
use fields::{Element, Fields, Path};
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
            let (have, set) = (fields::values(schema, live), fields::values(schema, config));
            let changed = wanted.only(|it| wanted.is_leaf(it) && have.get(it) != set.get(it));
            // Who conflicts about a Scale knows it in that version.
            let version = (manager.subresource == "scale").then_some("autoscaling/v1");
            let foreign = managers.owning(&changed, version);
            if conflicts == Conflicts::Refused && !foreign.is_empty() {
                return Err(conflict(&foreign));
            }
            managers.disown(&changed);
            let mut object = live.clone();
            merge::merge(Some(schema), &mut object, config);
            if let Some((before, _)) = &before {
                let gone = before.without(&wanted);
                let gone = gone.only(|it| !managers.own_below(it) && !wanted.contains_below(it));
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

/// Records in the `managedFields` of `new` that `manager` wrote it in place of `old` by other means
/// than apply.
pub(crate) fn written(
    resource: &Resource,
    old: Option<&Value>,
    new: &mut Value,
    manager: &Manager,
    now: &str,
) {
    let schema = &resource.schema;
    let nothing = Value::Null;
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
    let fields = Fields::of(schema, new);
    let (before, after) = (fields::values(schema, old), fields::values(schema, new));
    let changed = fields.only(|it| before.get(it) != after.get(it));
    let gone = Fields::of(schema, old).without(&fields);
    managers.disown(&gone);
    if !changed.is_empty() {
        managers.disown(&changed.only(|it| fields.is_leaf(it)));
        let (mut own, _) = managers
            .take(manager, Operation::Update)
            .unwrap_or_default();
        own.extend(changed);
        managers.put(manager, Operation::Update, resource, own, now.to_owned());
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
fn is_identity(path: &[Element]) -> bool {
    let [Element::Field(first), rest @ ..] = path else {
        return false;
    };
    match (first.as_str(), rest) {
        ("apiVersion" | "kind", []) => true,
        ("metadata", [Element::Field(field)]) => [
            "name",
            "generateName",
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
