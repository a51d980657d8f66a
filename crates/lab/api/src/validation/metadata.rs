//! Owners, finalizers and deletion (`apimachinery/pkg/api/validation/objectmeta.go`). Labels and annotations are in the
//! schema.

use serde_json::Value;
use sluice_controller::Format;

use crate::status::Cause;

pub(super) const UNNAMED: &str = "Required value: name or generateName is required";

/// Finalizers without a domain (`standardFinalizers` in `pkg/apis/core/helper`).
const STANDARD: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

/// What is wrong with the owners, the finalizers and the deletion of an object, where they differ from those of `old`.
/// `is_core`: a finalizer has a domain or is one of Kubernetes' own.
pub(super) fn check(old: Option<&Value>, new: &Value, is_core: bool) -> Vec<Cause> {
    let mut causes = Vec::new();
    let differs = |field: &str| old.is_none_or(|old| old[field] != new[field]);
    if differs("ownerReferences") {
        owners(&new["ownerReferences"], &mut causes);
    }
    if differs("finalizers") {
        finalizers(old, new, is_core, &mut causes);
    }
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        if old.is_some() && differs(field) {
            let given = &new[field];
            let message = format!("Invalid value: {given}: field is immutable");
            causes.push(Cause::new(format!("metadata.{field}"), message));
        }
    }
    causes
}

fn owners(all: &Value, causes: &mut Vec<Cause>) {
    const PATH: &str = "metadata.ownerReferences";
    let mut controller: Option<String> = None;
    for owner in all.as_array().into_iter().flatten() {
        let text = |field: &str| owner[field].as_str().unwrap_or_default();
        for (field, why) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            if text(field).is_empty() {
                let message = format!("Invalid value: \"\": {why}");
                causes.push(Cause::new(format!("{PATH}.{field}"), message));
            }
        }
        if (text("apiVersion"), text("kind")) == ("v1", "Event") {
            let why = "/v1, Kind=Event is disallowed from being an owner";
            causes.push(Cause::new(PATH, format!("Invalid value: {owner}: {why}")));
        }
        if owner["controller"] == true {
            let own = format!("{}/{}", text("kind"), text("name"));
            if let Some(first) = &controller {
                let why = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {own}"
                );
                causes.push(Cause::new(PATH, format!("Invalid value: {all}: {why}")));
            } else {
                controller = Some(own);
            }
        }
    }
}

/// What is wrong with the finalizers in the `spec` of a Namespace (`ValidateNamespaceFinalizeUpdate`).
pub(crate) fn of_namespace(finalizers: &Value) -> Vec<Cause> {
    let all = finalizers.as_array().into_iter().flatten();
    let names = all.filter_map(Value::as_str).enumerate();
    let causes = names.flat_map(|(at, name)| {
        let path = format!("spec.finalizers[{at}]");
        let mut causes = unqualified(&path, name);
        causes.extend(undomained(&path, name));
        causes
    });
    causes.collect()
}

fn unqualified(path: &str, finalizer: &str) -> Vec<Cause> {
    let problems = Format::Qualified.problems(finalizer).into_iter();
    let message = |why| format!("Invalid value: {finalizer:?}: {why}");
    problems.map(|it| Cause::new(path, message(it))).collect()
}

fn undomained(path: &str, finalizer: &str) -> Option<Cause> {
    let is_wrong = !finalizer.contains('/') && !STANDARD.contains(&finalizer);
    let why = "name is neither a standard finalizer name nor is it fully qualified";
    is_wrong.then(|| Cause::new(path, format!("Invalid value: {finalizer:?}: {why}")))
}

fn finalizers(old: Option<&Value>, new: &Value, is_core: bool, causes: &mut Vec<Cause>) {
    const PATH: &str = "metadata.finalizers";
    let of = |metadata: &Value| -> Vec<String> {
        let all = metadata["finalizers"].as_array().into_iter().flatten();
        all.filter_map(|it| Some(it.as_str()?.to_owned())).collect()
    };
    let all = of(new);
    for (at, name) in all.iter().enumerate() {
        causes.extend(unqualified(PATH, name));
        if is_core {
            causes.extend(undomained(&format!("{PATH}[{at}]"), name));
        }
    }
    let has = |name: &str| all.iter().any(|it| it == name);
    if has("orphan") && has("foregroundDeletion") {
        let why = "finalizer orphan and foregroundDeletion cannot be both set";
        let given = &new["finalizers"];
        causes.push(Cause::new(PATH, format!("Invalid value: {given}: {why}")));
    }
    let Some(old) = old.filter(|it| !it["deletionTimestamp"].is_null()) else {
        return;
    };
    let known = of(old);
    let mut added: Vec<_> = all.iter().filter(|it| !known.contains(it)).collect();
    added.sort();
    if !added.is_empty() {
        let added: Vec<_> = added.iter().map(|it| format!("{it:?}")).collect();
        let why =
            "no new finalizers can be added if the object is being deleted, found new finalizers";
        let message = format!("Forbidden: {why} []string{{{}}}", added.join(", "));
        causes.push(Cause::new(PATH, message));
    }
}
