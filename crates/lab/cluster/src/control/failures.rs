//! Pods and Jobs that the API refuses to create: told in an Event, and tried again later and later.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ObjectReference;
use serde_json::Value;
use sluice_api::Status;
use sluice_controller::workloads::Failure;

use crate::events::Events;

/// What was refused, by the uid of the owner.
pub(super) type Failures = BTreeMap<String, Failure>;

/// First and longest time until an owner tries again. Another owner does not wait for it.
const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(15);

/// Records that `object` was refused for its controller, and writes the Event FailedCreate, in the words of the controller's
/// kind. Returns the uid of the controller; `None` when the object has none.
pub(super) fn record(
    failures: &mut Failures,
    object: &Value,
    refused: &Status,
    events: &Events,
) -> Option<String> {
    let owner = super::writes::controller(object)?;
    let text = |it: &Value| it.as_str().map(str::to_owned);
    let uid = text(&owner["uid"])?;
    let about = ObjectReference {
        api_version: text(&owner["apiVersion"]),
        kind: text(&owner["kind"]),
        name: text(&owner["name"]),
        namespace: text(&object["metadata"]["namespace"]),
        uid: Some(uid.clone()),
        ..ObjectReference::default()
    };
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let message = match (about.kind.as_deref(), about.name.as_deref()) {
        (Some("StatefulSet"), Some(set)) => {
            format!("create Pod {name} in StatefulSet {set} failed error: {refused}")
        }
        (Some("CronJob"), _) => format!("Error creating job: {refused}"),
        _ => format!("Error creating: {refused}"),
    };
    events.tell(&about, "FailedCreate", &message, true);
    let now = Timestamp::now();
    // Those of owners that are gone.
    failures.retain(|_, it| now.duration_since(it.until) < SignedDuration::from_secs(3600));
    let wait = failures.get(&uid).map_or(FIRST, |it| it.wait * 2);
    let wait = wait.min(LONGEST);
    let until = now.checked_add(wait).unwrap_or(now);
    let message = refused.to_string();
    failures.insert(
        uid.clone(),
        Failure {
            message,
            until,
            wait,
        },
    );
    Some(uid)
}
