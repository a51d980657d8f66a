//! Events of `events.k8s.io/v1`, which are those of the core group under other names (`pkg/apis/events/v1/conversion.go`).

use serde_json::Value;

/// The names of fields: of `events.k8s.io`, and of the core group.
const NAMES: [(&str, &str); 7] = [
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

/// Turns an Event of `events.k8s.io` into one of the core group.
pub(super) fn store(object: &mut Value) {
    rename(object, NAMES);
}

/// Turns an Event of the core group into one of `events.k8s.io`.
pub(super) fn show(object: &mut Value) {
    rename(object, NAMES.map(|(theirs, core)| (core, theirs)));
}

fn rename(object: &mut Value, names: [(&str, &str); 7]) {
    let Some(fields) = object.as_object_mut() else {
        return;
    };
    for (from, to) in names {
        if let Some(value) = fields.remove(from) {
            fields.insert(to.to_owned(), value);
        }
    }
}
