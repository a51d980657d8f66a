//! What the status of a namespace says while it is being deleted
//! (`pkg/controller/namespace/deletion/status_condition_utils.go`).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::custom;
use crate::object::Object;

/// The conditions of a deletion that waits for nothing. The first three never fail here: kinds are known, and an object
/// that cannot be deleted is tried again.
const FINE: [(&str, &str, &str); 5] = [
    (
        "NamespaceDeletionDiscoveryFailure",
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    (
        "NamespaceContentRemaining",
        "ContentRemoved",
        "All content successfully removed",
    ),
    (
        "NamespaceFinalizersRemaining",
        "ContentHasNoFinalizers",
        "All content-preserving finalizers finished",
    ),
];

/// Sets the conditions: `remaining` are the objects that the namespace waits for.
pub(super) fn report(status: &mut Value, remaining: &[Arc<Object>]) {
    for (sort, reason, message) in FINE {
        custom::set(status, sort, "False", reason, message);
    }
    let (mut kinds, mut finalizers) = (BTreeMap::new(), BTreeMap::new());
    for it in remaining {
        let kind = format!("{}.{}", it.resource.plural, it.resource.group);
        *kinds.entry(kind).or_insert(0) += 1;
        let value = it.value();
        let own = value["metadata"]["finalizers"].as_array();
        for name in own.into_iter().flatten().filter_map(Value::as_str) {
            *finalizers.entry(name.to_owned()).or_insert(0) += 1;
        }
    }
    let list = |counts: &BTreeMap<String, u32>, words: &str| {
        let counts = counts.iter();
        let counts =
            counts.map(|(name, count)| format!("{name} {words} {count} resource instances"));
        counts.collect::<Vec<_>>().join(", ")
    };
    if !kinds.is_empty() {
        let message = format!("Some resources are remaining: {}", list(&kinds, "has"));
        let (sort, reason) = ("NamespaceContentRemaining", "SomeResourcesRemain");
        custom::set(status, sort, "True", reason, &message);
    }
    if !finalizers.is_empty() {
        let message = format!(
            "Some content in the namespace has finalizers remaining: {}",
            list(&finalizers, "in")
        );
        let (sort, reason) = ("NamespaceFinalizersRemaining", "SomeFinalizersRemain");
        custom::set(status, sort, "True", reason, &message);
    }
}
