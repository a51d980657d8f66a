//! Events on their way to a consumer: of each subject only the last event.
//!
//! A step may take seconds, and a source goes on meanwhile. The queue is as large as the number of different
//! subjects, however often they change. One step takes in a part of it, so that a small change does not wait for a
//! hundred thousand others.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An event about one subject, such as an object of the cluster. The order of events about different
/// subjects is free.
pub trait Keyed {
    /// The subject.
    type Key: Eq + Hash + Send;

    /// The subject: a later event about the same subject replaces this one.
    fn key(&self) -> Self::Key;

    /// The namespace of the subject. Of a large number of events each namespace has its share, and those about subjects of
    /// no namespace come first.
    fn namespace(&self) -> Option<Arc<str>> {
        None
    }

    /// Whether it comes after all that were added before it, such as the event that a list is complete. It has no namespace.
    fn is_last(&self) -> bool {
        false
    }

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
pub(crate) struct EventQueue<E: Keyed>(Arc<Mutex<Shares<E>>>);

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
        let mut shares = self.lock();
        let was_empty = shares.is_empty();
        events.into_iter().for_each(|it| shares.push(it));
        was_empty && !shares.is_empty()
    }

    /// Takes events out, about `limit` of them if more wait.
    pub(crate) fn take(&self, limit: usize) -> Vec<E> {
        self.lock().take(limit)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// The namespaces about which events wait.
    pub(crate) fn namespaces(&self) -> HashSet<Arc<str>> {
        self.lock().namespaces.keys().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Shares<E>> {
        // Nothing panics with the lock held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The events of a queue, by namespace.
struct Shares<E: Keyed> {
    /// Events about objects without a namespace.
    others: Latest<E>,
    /// The events of each namespace that has any.
    namespaces: BTreeMap<Arc<str>, Latest<E>>,
    /// Whether an event waits that comes after all others.
    is_last: bool,
}

impl<E: Keyed> Default for Shares<E> {
    fn default() -> Self {
        Self {
            others: Latest::default(),
            namespaces: BTreeMap::new(),
            is_last: false,
        }
    }
}

impl<E: Keyed> Shares<E> {
    fn is_empty(&self) -> bool {
        self.others.len() == 0 && self.namespaces.is_empty()
    }

    fn push(&mut self, event: E) {
        self.is_last |= event.is_last();
        match event.namespace() {
            Some(name) => self.namespaces.entry(name).or_default().push(event),
            None => self.others.push(event),
        }
    }

    /// All events of no namespace. Of the others each namespace has the same share, and what it does not need is for those
    /// that have more: so one that has a few events does not wait for one that has many.
    fn take(&mut self, limit: usize) -> Vec<E> {
        let waiting: usize = self.namespaces.values().map(Latest::len).sum();
        let others = std::mem::take(&mut self.others);
        if self.is_last || waiting <= limit {
            self.is_last = false;
            let namespaces = std::mem::take(&mut self.namespaces).into_values();
            return namespaces.flatten().chain(others).collect();
        }
        let mut taken: Vec<E> = others.into_iter().collect();
        let mut namespaces: Vec<(usize, Arc<str>)> = self
            .namespaces
            .iter()
            .map(|(name, events)| (events.len(), name.clone()))
            .collect();
        namespaces.sort_unstable();
        let (mut left, count) = (limit, namespaces.len());
        for (index, (waiting, name)) in namespaces.into_iter().enumerate() {
            let share = (left / (count - index)).max(1).min(waiting).min(left);
            left -= share;
            let Some(events) = self.namespaces.get_mut(&name) else {
                continue;
            };
            taken.extend((0..share).filter_map(|_| events.pop_first()));
            if events.len() == 0 {
                self.namespaces.remove(&name);
            }
        }
        taken
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
    /// `None` for an event that was removed.
    events: VecDeque<Option<E>>,
    /// The number of the first of `events`.
    first: usize,
    /// The number of each subject's event.
    numbers: HashMap<E::Key, usize>,
}

impl<E: Keyed> Default for Latest<E> {
    fn default() -> Self {
        Self {
            events: VecDeque::new(),
            first: 0,
            numbers: HashMap::new(),
        }
    }
}

impl<E: Keyed> Latest<E> {
    /// Adds an event, or replaces the event about the same subject.
    pub fn push(&mut self, mut event: E) {
        match self.numbers.entry(event.key()) {
            Entry::Occupied(at) => {
                if let Some(place) = &mut self.events[*at.get() - self.first] {
                    std::mem::swap(place, &mut event);
                    place.replace(event);
                }
            }
            Entry::Vacant(at) => {
                at.insert(self.first + self.events.len());
                self.events.push_back(Some(event));
            }
        }
    }

    /// Removes the event about a subject.
    pub(crate) fn remove(&mut self, key: &E::Key) {
        if let Some(number) = self.numbers.remove(key) {
            self.events[number - self.first] = None;
        }
        if self.numbers.is_empty() {
            *self = Self::default();
        }
    }

    fn pop_first(&mut self) -> Option<E> {
        while let Some(first) = self.events.pop_front() {
            self.first += 1;
            if let Some(event) = first {
                self.numbers.remove(&event.key());
                return Some(event);
            }
        }
        None
    }

    /// The number of subjects.
    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }
}

impl<E: Keyed> IntoIterator for Latest<E> {
    type Item = E;
    type IntoIter = std::iter::Flatten<std::collections::vec_deque::IntoIter<Option<E>>>;

    fn into_iter(self) -> Self::IntoIter {
        self.events.into_iter().flatten()
    }
}

impl<E: Keyed> FromIterator<E> for Latest<E> {
    fn from_iter<T: IntoIterator<Item = E>>(events: T) -> Self {
        let mut latest = Self::default();
        events.into_iter().for_each(|it| latest.push(it));
        latest
    }
}

#[cfg(test)]
mod tests;
