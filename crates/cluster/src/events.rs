//! Events for people, counted when they repeat.

use std::sync::Arc;

use jiff::{Timestamp, ToSpan as _};
use k8s_openapi::api::core::v1::ObjectReference;
use serde_json::{Value, json};
use sluice_api::{DeleteOptions, Store};

/// More of them are not kept.
const MOST: usize = 1000;

/// kube-apiserver's `--event-ttl`.
const HOURS: i64 = 1;

/// Writes Events about objects.
#[derive(Clone)]
pub(crate) struct Events {
    store: Arc<Store>,
}

/// The object that something happened to.
#[derive(Clone, Debug)]
pub(crate) struct About {
    pub(crate) kind: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
}

impl From<&ObjectReference> for About {
    fn from(it: &ObjectReference) -> Self {
        let text = |it: &Option<String>| it.clone().unwrap_or_default();
        Self {
            kind: text(&it.kind),
            namespace: text(&it.namespace),
            name: text(&it.name),
            uid: text(&it.uid),
        }
    }
}

impl Events {
    pub(crate) fn new(store: Arc<Store>) -> Self {
        Self { store }
    }

    /// Writes an Event, or counts one more of it.
    pub(crate) fn tell(&self, about: &About, reason: &str, message: &str, warning: bool) {
        let now = now();
        let namespace = match about.namespace.as_str() {
            "" => "default",
            own => own,
        };
        let same = |it: &&Arc<Value>| {
            it["involvedObject"]["uid"] == about.uid.as_str()
                && it["involvedObject"]["name"] == about.name.as_str()
                && it["reason"] == reason
                && it["message"] == message
        };
        let all = self.store.list("Event");
        let written = match all.iter().find(same) {
            Some(old) => {
                let mut event = Value::clone(old);
                event["count"] = (old["count"].as_u64().unwrap_or(1) + 1).into();
                event["lastTimestamp"] = now.into();
                self.store.update(event)
            }
            None => self.store.create(json!({
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"namespace": namespace, "generateName": format!("{}.", about.name)},
                "involvedObject": {
                    "kind": about.kind, "namespace": about.namespace,
                    "name": about.name, "uid": about.uid,
                },
                "reason": reason,
                "message": message,
                "type": if warning { "Warning" } else { "Normal" },
                "count": 1,
                "firstTimestamp": now,
                "lastTimestamp": now,
                "source": {"component": "sluice-lab"},
            })),
        };
        if let Err(error) = written {
            tracing::debug!(%error, reason, message, "an Event cannot be written");
        }
    }

    /// Deletes what is old or too much.
    pub(crate) fn forget_old(&self) {
        let mut all = self.store.list("Event");
        let time = |it: &Arc<Value>| {
            let text = it["lastTimestamp"].as_str().unwrap_or_default();
            text.parse::<Timestamp>().unwrap_or_default()
        };
        all.sort_by_cached_key(time);
        let limit = Timestamp::now() - HOURS.hours();
        let surplus = all.len().saturating_sub(MOST);
        for (position, it) in all.iter().enumerate() {
            if position >= surplus && time(it) > limit {
                return;
            }
            let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
            let metadata = &it["metadata"];
            let (namespace, name) = (text(&metadata["namespace"]), text(&metadata["name"]));
            // It may be gone already.
            let _ = self
                .store
                .delete("Event", &namespace, &name, DeleteOptions::default());
        }
    }
}

/// The time as objects have it.
pub(crate) fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
