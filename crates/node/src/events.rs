//! Events on their way to the agent: of each object the last one.
//!
//! A sync may take seconds, and a source goes on meanwhile. What waits is as large as the number of
//! different objects, however often they change.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sluice_model::{Event, Object, ObjectKey};

use crate::Input;

/// Most changes of one slice that are timed: while a sync blocks or fails there may be any number.
pub(crate) const TIMED_CHANGES: usize = 64;

/// Sends events to the agent. Clones share one queue.
#[derive(Clone, Debug)]
pub struct EventSender {
    queue: EventQueue,
    inputs: Sender<Input>,
}

impl EventSender {
    /// Sends to the agent that receives these inputs.
    pub fn new(inputs: Sender<Input>) -> Self {
        let queue = EventQueue::default();
        Self { queue, inputs }
    }

    /// Sends a batch, which the agent takes in as a whole. An event replaces the waiting one about the
    /// same object.
    pub fn send(&self, events: Vec<Event>) {
        // One input in the channel stands for everything in the queue.
        if self.queue.add(events) {
            // A closed channel means that the agent has stopped.
            let _ = self.inputs.send(Input::Events(self.queue.clone()));
        }
    }
}

/// The events that wait for the agent.
///
/// Law: the events that are taken lead to the same state as all that were added
/// (`sluice_model::Event` says that the order for different objects is free).
#[derive(Clone, Debug, Default)]
pub struct EventQueue(Arc<Mutex<Queue>>);

#[derive(Debug, Default)]
struct Queue {
    changes: Vec<Change>,
    /// The position of each subject in `changes`.
    positions: HashMap<Subject, usize>,
}

/// What is new about one subject.
#[derive(Debug)]
pub(crate) struct Change {
    /// The last event.
    pub(crate) event: Event,
    /// Of a slice: the times of change ([`sluice_model::EndpointSlice::triggered`]) that the replaced
    /// versions named, in order, at most [`TIMED_CHANGES`].
    pub(crate) earlier: Vec<i64>,
}

/// What an event is about: a later one about the same replaces it.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) enum Subject {
    /// An object.
    Object(ObjectKey),
    /// The problems of this origin.
    Problems(Arc<str>),
    /// The machine's addresses.
    LocalAddresses,
    /// The source is complete.
    Synced,
}

impl Subject {
    pub(crate) fn of(event: &Event) -> Self {
        match event {
            Event::Set(object) => Self::Object(object.key()),
            Event::Delete(key) => Self::Object(key.clone()),
            Event::Problems { origin, .. } => Self::Problems(origin.clone()),
            Event::LocalAddresses(_) => Self::LocalAddresses,
            Event::Synced => Self::Synced,
        }
    }
}

impl EventQueue {
    /// Adds events; whether these are the first ones since the queue was empty.
    fn add(&self, events: Vec<Event>) -> bool {
        let mut queue = self.lock();
        let was_empty = queue.changes.is_empty();
        events.into_iter().for_each(|it| queue.push(it));
        was_empty && !queue.changes.is_empty()
    }

    /// Empties the queue.
    pub(crate) fn take(&self) -> Vec<Change> {
        std::mem::take(&mut *self.lock()).changes
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Nothing panics with the lock held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    fn push(&mut self, event: Event) {
        match self.positions.entry(Subject::of(&event)) {
            Entry::Occupied(at) => self.changes[*at.get()].replace(event),
            Entry::Vacant(at) => {
                at.insert(self.changes.len());
                let earlier = Vec::new();
                self.changes.push(Change { event, earlier });
            }
        }
    }
}

impl Change {
    fn replace(&mut self, event: Event) {
        let old = std::mem::replace(&mut self.event, event);
        match (old, &self.event) {
            (Event::Set(Object::EndpointSlice(old)), Event::Set(_)) => {
                let is_counted = self.earlier.len() < TIMED_CHANGES;
                self.earlier.extend(old.triggered.filter(|_| is_counted));
            }
            _ => self.earlier.clear(),
        }
    }
}

#[cfg(test)]
mod tests;
