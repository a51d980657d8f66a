//! Hooks into writes: admission and journal.

use std::io;
use std::sync::Arc;

use serde_json::Value;

use crate::history::Event;
use crate::status::Status;

/// Completes objects before they are stored: defaults, allocations, rules.
pub trait Admission: Send {
    /// Called before every create and update, with the stored object and the new one, which it may
    /// change. Called again when the client retries.
    ///
    /// # Errors
    ///
    /// The error for the client; then nothing is stored.
    fn admit(&mut self, old: Option<&Value>, new: &mut Value) -> Result<(), Status>;

    /// An admitted write was not stored: a dry run, or the journal failed.
    fn abandoned(&mut self, old: Option<&Value>, new: &Value) {
        let _ = (old, new);
    }

    /// An object waits for its deletion: for its grace period, its finalizers or its dependents.
    fn marked(&mut self, new: &Value) {
        let _ = new;
    }

    /// An object was removed.
    fn deleted(&mut self, old: &Value);
}

/// Admits every object unchanged.
#[derive(Clone, Copy, Debug)]
pub struct AdmitAll;

impl Admission for AdmitAll {
    fn admit(&mut self, _: Option<&Value>, _: &mut Value) -> Result<(), Status> {
        Ok(())
    }

    fn deleted(&mut self, _: &Value) {}
}

/// Stores changes for the next run, which passes them to [`Store::restore`](super::Store::restore).
pub trait Journal: Send {
    /// Called with every change before it is visible.
    ///
    /// # Errors
    ///
    /// The change could not be stored: the write is refused with 500 and the cause.
    fn write(&mut self, change: &Change) -> io::Result<()>;
}

/// A change of one object.
#[derive(Clone, Debug)]
pub struct Change {
    /// The version of the change.
    pub revision: u64,
    /// The object before; `None` when it was created.
    pub old: Option<Arc<Value>>,
    /// The object after; `None` when it was deleted.
    pub new: Option<Arc<Value>>,
}

impl Change {
    pub(super) fn of(event: &Event) -> Self {
        Self {
            revision: event.revision,
            old: event.previous.as_ref().map(|it| it.value()),
            new: event.current().map(|it| it.value()),
        }
    }
}
