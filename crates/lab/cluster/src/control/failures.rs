//! Pods and Jobs that the API refuses to create: told in an Event, and tried again later and later.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ObjectReference;
use serde_json::Value;
use sluice_api::Status;
use sluice_controller::workloads::Failure;
use sluice_reconcile::Waits;

use crate::events::Events;

/// First and longest time until an owner tries again. Another owner does not wait for it.
const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(15);

/// What was refused, by the uid of the owner, and how long the owner waits.
#[derive(Debug, Default)]
pub(super) struct Failures(BTreeMap<String, (Failure, Waits)>);

impl Failures {
    pub(super) fn all(&self) -> BTreeMap<String, Failure> {
        let all = self.0.iter();
        all.map(|(uid, (it, _))| (uid.clone(), it.clone()))
            .collect()
    }

    /// The API has taken an object of this owner.
    pub(super) fn forget(&mut self, owner: &str) {
        self.0.remove(owner);
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
        // Those of owners that are gone.
        let is_recent =
            |it: &Failure| now.duration_since(it.until) < SignedDuration::from_secs(3600);
        self.0.retain(|_, (it, _)| is_recent(it));
        let known = self.0.get(&uid).map(|(_, waits)| *waits);
        let mut waits = known.unwrap_or(Waits::new(FIRST, LONGEST));
        let failure = Failure {
            message: refused.to_string(),
            until: now.checked_add(waits.take()).unwrap_or(now),
        };
        self.0.insert(uid.clone(), (failure, waits));
        Some(uid)
    }
}
