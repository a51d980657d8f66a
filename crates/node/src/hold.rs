//! Events of a consumer that wait until another consumer has settled their objects.
//!
//! ```text
//! events ─┬─ Wait::No ─────────────────────────────────────────────▶ consumer, at once
//!         └─ else ─▶ wait ─▶ step that settled the object ─────────▶ consumer
//! ```
//!
//! A DNS server waits for the rules of Services in this way: a client connects to an address as soon as DNS returns
//! it, and needs the rules then.

use std::collections::HashSet;
use std::sync::Arc;

use sluice_model::NamespacedName;

use crate::events::{Keyed, Latest};

/// Whether an event waits for a step of another consumer. Before the first such step every event waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The event is absorbed at once, and replaces a waiting event about the same subject.
    No,
    /// Until the next step that settles anything.
    Step,
    /// Until a step settles this object.
    Object(NamespacedName),
}

/// The objects that a step of a consumer has settled: all, except these.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// The objects that it has not written yet.
    pub except: HashSet<NamespacedName>,
    /// The namespaces about which it has not absorbed everything.
    pub namespaces: HashSet<Arc<str>>,
}

impl Settled {
    fn has(&self, object: &NamespacedName) -> bool {
        !self.namespaces.contains(&object.namespace) && !self.except.contains(object)
    }

    fn is_all(&self) -> bool {
        self.except.is_empty() && self.namespaces.is_empty()
    }
}

/// The events that wait, of each subject the last one: as many as there are subjects, however long the other consumer
/// takes.
pub struct Hold<E: Keyed> {
    waiting: Latest<E>,
    wait: fn(&E) -> Wait,
    /// Whether any step has settled an object yet.
    begun: bool,
}

impl<E: Keyed> Hold<E> {
    /// Nothing waits yet. `wait` says what each event waits for.
    pub fn new(wait: fn(&E) -> Wait) -> Self {
        Self {
            waiting: Latest::default(),
            wait,
            begun: false,
        }
    }

    /// Takes in events, and returns those that do not wait.
    pub fn add(&mut self, events: Vec<E>) -> Vec<E> {
        let mut at_once = Vec::new();
        for event in events {
            if self.begun && (self.wait)(&event) == Wait::No {
                self.waiting.remove(&event.key());
                at_once.push(event);
            } else {
                self.waiting.push(event);
            }
        }
        at_once
    }

    /// Returns the events that waited for these objects.
    pub fn settle(&mut self, settled: &Settled) -> Vec<E> {
        self.begun = true;
        let all = std::mem::take(&mut self.waiting);
        if settled.is_all() {
            return all.into_iter().collect();
        }
        let waits = |it: &E| match (self.wait)(it) {
            Wait::Object(name) => !settled.has(&name),
            Wait::No | Wait::Step => false,
        };
        let (waiting, settled): (Vec<E>, Vec<E>) = all.into_iter().partition(waits);
        self.waiting = waiting.into_iter().collect();
        settled
    }

    /// The number of events that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }
}
