//! Objects whose write was refused: each is tried again later and later, and no other object waits for it.

use std::time::Duration;

use http::StatusCode;
use jiff::Timestamp;
use serde_json::Value;
use sluice_api::Status;
use sluice_model::NamespacedName;
use tracing::warn;

use super::delays::Delays;
use crate::object::key_of;

/// First time until a write is tried again.
const FIRST: Duration = Duration::from_millis(20);

/// The refused writes, each with its next attempt.
#[derive(Debug)]
pub(super) struct Refusals {
    /// By what is written: the verb, the kind and the name.
    waiting: Delays,
    /// When the round began. What is due then is tried in this round.
    now: Timestamp,
    is_stale: bool,
}

impl Default for Refusals {
    fn default() -> Self {
        Self {
            waiting: Delays::new(FIRST),
            now: Timestamp::default(),
            is_stale: false,
        }
    }
}

impl Refusals {
    /// Begins a round of writes.
    pub(super) fn begin(&mut self, now: Timestamp) {
        self.now = now;
        self.is_stale = false;
    }

    /// Ends a round of writes: when the next refused one is due.
    pub(super) fn end(&mut self) -> Option<Timestamp> {
        // What was due and is here has not been asked for in this round: it is no longer needed.
        self.waiting.forget_due(self.now);
        self.waiting.next()
    }

    /// Whether a write of this round met an object that another client has written since it was read.
    pub(super) fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// Whether a write was refused and is not due yet.
    pub(super) fn waits(&self, id: &str) -> bool {
        self.waiting.due(id).is_some_and(|due| due > self.now)
    }

    /// Makes a write, unless it [waits](Self::waits). Returns whether nothing is left to do.
    pub(super) fn attempt(
        &mut self,
        id: String,
        write: impl FnOnce() -> Result<(), Status>,
    ) -> bool {
        !self.waits(&id) && self.record(id, write())
    }

    /// Records the outcome of a write. Returns whether nothing is left to do.
    pub(super) fn record(&mut self, id: String, outcome: Result<(), Status>) -> bool {
        let status = match outcome {
            // The object goes with its namespace.
            Err(status) if status.is_namespace_terminating() => return true,
            Ok(()) => {
                self.waiting.forget(&id);
                return true;
            }
            Err(status) => status,
        };
        let is_conflict = status.code == StatusCode::CONFLICT;
        if !is_conflict {
            warn!(%status, "a controller's write was refused");
        }
        self.is_stale |= is_conflict;
        self.waiting.add(id, self.now);
        false
    }
}

/// The name of a write in [`Refusals`]: `update Service default/web`.
pub(super) fn id_of(verb: &str, object: &Value) -> String {
    let kind = object["kind"].as_str().unwrap_or_default();
    id(verb, kind, &key_of(object))
}

/// The same name, from verb, kind and object.
pub(super) fn id(verb: &str, kind: &str, key: &NamespacedName) -> String {
    format!("{verb} {kind} {key}")
}
