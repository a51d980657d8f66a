//! Pods and Jobs that the API refuses to create: told in an Event, and tried again later and later.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ObjectReference;
use serde_json::Value;
use sluice_api::Status;
use sluice_controller::workloads::Failure;

use super::delays::Delays;
use crate::events::Events;

/// First time until an owner tries again.
const FIRST: Duration = Duration::from_millis(100);

/// How long the failures of an owner are kept after it was to try again: it may be gone.
const KEPT: SignedDuration = SignedDuration::from_secs(3600);

/// What was refused, by the uid of the owner, and how long the owner waits.
#[derive(Debug)]
pub(super) struct Failures {
    last: BTreeMap<String, Failure>,
    delays: Delays,
}

impl Default for Failures {
    fn default() -> Self {
        Self {
            last: BTreeMap::new(),
            delays: Delays::new(FIRST),
        }
    }
}

impl Failures {
    /// The last failure of each owner.
    pub(super) fn all(&self) -> BTreeMap<String, Failure> {
        self.last.clone()
    }

    /// The API has taken an object of this owner.
    pub(super) fn forget(&mut self, owner: &str) {
        self.last.remove(owner);
        self.delays.forget(owner);
    }

    /// Records that `object` was refused for its controller, and writes the Event FailedCreate, in the words of the controller's
    /// kind. Returns the uid of the controller; `None` when the object has none.
    pub(super) fn record(
        &mut self,
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
        let old = now.checked_sub(KEPT).unwrap_or(now);
        self.last.retain(|_, it| it.until > old);
        self.delays.forget_due(old);
        let failure = Failure {
            message: refused.to_string(),
            until: self.delays.add(uid.clone(), now),
        };
        self.last.insert(uid.clone(), failure);
        Some(uid)
    }
}
