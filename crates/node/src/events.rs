//! Events on their way to a consumer: of each subject only the last event.
//!
//! A step may take seconds, and a source goes on meanwhile. The queue is as large as the number of different
//! subjects, however often they change.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An event about one subject, such as an object of the cluster. The order of events about different
/// subjects is free.
pub trait Keyed {
    /// The subject.
    type Key: Eq + Hash + Send;

    /// The subject: a later event about the same subject replaces this one.
    fn key(&self) -> Self::Key;

    /// Takes the place of `old`, an earlier event about the same subject that the consumer has not absorbed.
    fn replace(&mut self, old: Self)
    where
        Self: Sized,
    {
        drop(old);
    }
}

/// The events that wait for a consumer. Clones are the same queue.
///
/// Law: the events that are taken lead to the same state as all events that were added.
pub(crate) struct EventQueue<E: Keyed>(Arc<Mutex<Latest<E>>>);

impl<E: Keyed> Clone for EventQueue<E> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<E: Keyed> Default for EventQueue<E> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<E: Keyed> EventQueue<E> {
    /// Adds events. Returns whether they are the first since the queue was empty.
    pub(crate) fn add(&self, events: Vec<E>) -> bool {
        let mut latest = self.lock();
        let was_empty = latest.events.is_empty();
        events.into_iter().for_each(|it| latest.push(it));
        was_empty && !latest.events.is_empty()
    }

    /// Empties the queue.
    pub(crate) fn take(&self) -> Vec<E> {
        std::mem::take(&mut *self.lock()).events
    }

    fn lock(&self) -> MutexGuard<'_, Latest<E>> {
        // Nothing panics with the lock held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The last event about each subject, in the order of the first ones.
///
/// ```
/// use sluice_node::{Keyed, Latest};
/// struct Set(&'static str, u32);
/// impl Keyed for Set {
///     type Key = &'static str;
///     fn key(&self) -> &'static str {
///         self.0
///     }
/// }
/// let latest: Latest<Set> = [Set("a", 1), Set("b", 2), Set("a", 3)].into_iter().collect();
/// let all: Vec<u32> = latest.into_iter().map(|it| it.1).collect();
/// assert_eq!(all, [3, 2]);
/// ```
pub struct Latest<E: Keyed> {
    events: Vec<E>,
    /// The position of each subject in `events`.
    positions: HashMap<E::Key, usize>,
}

impl<E: Keyed> Default for Latest<E> {
    fn default() -> Self {
        Self {
            events: Vec::new(),
            positions: HashMap::new(),
        }
    }
}

impl<E: Keyed> Latest<E> {
    /// Adds an event, or replaces the event about the same subject.
    pub fn push(&mut self, mut event: E) {
        match self.positions.entry(event.key()) {
            Entry::Occupied(at) => {
                let place = &mut self.events[*at.get()];
                std::mem::swap(place, &mut event);
                place.replace(event);
            }
            Entry::Vacant(at) => {
                at.insert(self.events.len());
                self.events.push(event);
            }
        }
    }

    /// Removes the event about a subject. The last event takes its place in the order.
    pub(crate) fn remove(&mut self, key: &E::Key) {
        let Some(position) = self.positions.remove(key) else {
            return;
        };
        self.events.swap_remove(position);
        if let Some(moved) = self.events.get(position) {
            self.positions.insert(moved.key(), position);
        }
    }

    /// The number of subjects.
    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }
}

impl<E: Keyed> IntoIterator for Latest<E> {
    type Item = E;
    type IntoIter = std::vec::IntoIter<E>;

    fn into_iter(self) -> Self::IntoIter {
        self.events.into_iter()
    }
}

impl<E: Keyed> FromIterator<E> for Latest<E> {
    fn from_iter<T: IntoIterator<Item = E>>(events: T) -> Self {
        let mut latest = Self::default();
        events.into_iter().for_each(|it| latest.push(it));
        latest
    }
}
