//! Writes Kubernetes Events, counts repetitions, and is silent about what comes too often.

mod correlator;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use k8s_openapi::api::core::v1::ObjectReference;
use serde_json::{Value, json};
use sluice_api::{Store, now};

use correlator::{Correlator, Outcome};

/// The Events of one reporter.
#[derive(Clone)]
pub(crate) struct Events {
    store: Arc<Store>,
    correlator: Arc<Mutex<Correlator>>,
}

/// Who tells.
const COMPONENT: &str = "sluice-lab";

/// What stands before the message of an Event that stands for others, too (client-go's `EventAggregatorByReasonMessageFunc`).
const COMBINED: &str = "(combined from similar events): ";

impl Events {
    pub(crate) fn new(store: Arc<Store>) -> Self {
        Self {
            store,
            correlator: Arc::default(),
        }
    }

    /// Writes an Event, or increments its count.
    pub(crate) fn tell(&self, about: &ObjectReference, reason: &str, message: &str, warning: bool) {
        let outcome = {
            let correlator = self.correlator.lock();
            // Nobody panics with it: each change of it is whole.
            let mut correlator = correlator.unwrap_or_else(PoisonError::into_inner);
            correlator.correlate(about, (reason, warning), message, Instant::now())
        };
        match outcome {
            Outcome::Silent => {}
            Outcome::Told => {
                let name = event_name(about, reason, message);
                self.write(about, &name, reason, message, warning);
            }
            Outcome::Combined => {
                let name = event_name(about, reason, COMBINED);
                let message = format!("{COMBINED}{message}");
                self.write(about, &name, reason, &message, warning);
            }
        }
    }

    fn write(
        &self,
        about: &ObjectReference,
        name: &str,
        reason: &str,
        message: &str,
        warning: bool,
    ) {
        let now = now();
        let namespace = about.namespace.as_deref();
        let namespace = namespace.filter(|it| !it.is_empty()).unwrap_or("default");
        let written = match self.store.get("Event", namespace, name) {
            Some(old) => {
                let mut event = Value::clone(&old);
                event["count"] = (old["count"].as_u64().unwrap_or(1) + 1).into();
                event["message"] = message.into();
                event["lastTimestamp"] = now.into();
                self.store.by(COMPONENT).update(event)
            }
            None => self.store.by(COMPONENT).create(json!({
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"namespace": namespace, "name": name},
                "involvedObject": {
                    "apiVersion": about.api_version, "kind": about.kind,
                    "namespace": about.namespace, "name": about.name, "uid": about.uid,
                    "resourceVersion": about.resource_version,
                },
                "reason": reason,
                "message": message,
                "type": if warning { "Warning" } else { "Normal" },
                "count": 1,
                "firstTimestamp": now,
                "lastTimestamp": now,
                "source": {"component": COMPONENT},
            })),
        };
        if let Err(error) = written {
            tracing::debug!(%error, reason, message, "an Event cannot be written");
        }
    }
}

/// The name of the Event, equal for each repetition. It may change with an update of Sluice, because the hash is that
/// of the standard library.
fn event_name(about: &ObjectReference, reason: &str, message: &str) -> String {
    let mut hasher = DefaultHasher::new();
    let name = about.name.as_deref().unwrap_or_default();
    let uid = about.uid.as_deref().unwrap_or_default();
    (uid, name, reason, message).hash(&mut hasher);
    // A name has at most 253 characters.
    let name: String = name.chars().take(230).collect();
    format!("{name}.{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests;
