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
mod undeclared;

use serde_json::Value;

use crate::resource::Resource;
use crate::status::{Cause, Status};
use fields::{Element, Fields, Path};
use managers::{Managers, Operation};
pub(crate) use undeclared::all_declared;

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
    let wanted = Fields::of(schema, config);
    let before = managers.take(manager, Operation::Apply);
    let mut object = match live {
        None => config.clone(),
        Some(live) => {
            let (have, set) = (fields::values(schema, live), fields::values(schema, config));
            let changed = wanted.only(|it| wanted.is_leaf(it) && have.get(it) != set.get(it));
            let foreign = managers.owning(&changed);
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
    let mut managers = Managers::of(new);
    let fields = Fields::of(schema, new);
    let nothing = Value::Null;
    let old = old.unwrap_or(&nothing);
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

fn conflict(foreign: &[(String, Path)]) -> Status {
    let causes = foreign.iter().map(|(manager, path)| Cause {
        reason: "FieldManagerConflict",
        field: fields::text(path),
        message: format!("conflict with {manager}"),
    });
    let causes: Vec<_> = causes.collect();
    let each = causes
        .iter()
        .map(|it| format!("{}: {}", it.message, it.field));
    let (count, plural) = (causes.len(), if causes.len() == 1 { "" } else { "s" });
    let all = each.collect::<Vec<_>>().join("\n");
    Status::apply_conflict(
        format!("Apply failed with {count} conflict{plural}: {all}"),
        &causes,
    )
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
