//! Holds back changes that delete objects, until other changes may have brought the objects back. Pure: time is an
//! argument.
//!
//! An object moves from one file to another, or from a file to its next version, in two steps: `mv`
//! is one system call with two events, an editor renames the old file and writes a new one, a program
//! that divides its objects among files writes one file after the other. Between the steps the object
//! is in no file. To delete it would reset its connections.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_model::{EndpointSlice, Model, Reference};

use crate::object::Event;

/// Wait after the last object was deleted or came back.
const QUIET: Duration = Duration::from_millis(40);

/// The longest wait when no object comes back.
const MAX_WAIT: Duration = Duration::from_millis(80);

/// The longest wait while objects come back, or somebody writes a new file.
const MAX_MOVE: Duration = Duration::from_secs(2);

/// Most events that are taken at once: other changes come between them.
const LIMIT: usize = 2048;

/// Events that wait, the latest event of each object.
#[derive(Debug, Default)]
pub(super) struct Held {
    events: BTreeMap<Reference, Event>,
    /// When the first object was deleted, and when the last one was deleted or came back.
    since: Option<(Instant, Instant)>,
    /// A deleted object has come back.
    is_move: bool,
}

impl Held {
    /// Takes in one change: the events to act on now. In a namespace where it deletes an object all of it waits,
    /// because the objects may belong together: a Service with another name and the same address.
    pub(super) fn pass(&mut self, events: Vec<Event>, now: Instant) -> Vec<Event> {
        let losing: HashSet<Arc<str>> = events
            .iter()
            .filter_map(|it| match it {
                Event::Delete(key) => Some(key.name.namespace.clone()),
                _ => None,
            })
            .collect();
        let mut passed = Vec::new();
        for event in events {
            let key = match &event {
                Event::Set(object) => object.reference(),
                Event::Delete(key) => key.clone(),
                _ => {
                    passed.push(event);
                    continue;
                }
            };
            let before = self.events.remove(&key);
            if matches!((&before, &event), (Some(Event::Delete(_)), Event::Set(_))) {
                self.is_move = true;
                self.since = self.since.map(|(first, _)| (first, now));
            }
            if losing.contains(&key.name.namespace) {
                self.events.insert(key, event);
            } else {
                passed.push(event);
            }
        }
        if !losing.is_empty() {
            let first = self.since.map_or(now, |(first, _)| first);
            self.since = Some((first, now));
        }
        if self.events.is_empty() {
            *self = Self::default();
        }
        passed
    }

    /// When to call [`Held::take`]. `is_writing`: somebody writes a new file.
    pub(super) fn due(&self, is_writing: bool) -> Option<Instant> {
        let (first, last) = self.since?;
        let quiet = if is_writing { MAX_MOVE } else { QUIET };
        let longest = if is_writing || self.is_move {
            MAX_MOVE
        } else {
            MAX_WAIT
        };
        Some((last + quiet).min(first + longest))
    }

    /// The events that have waited long enough: as one change, or the next [`LIMIT`] of many. Of these what is deleted comes
    /// last.
    pub(super) fn take(&mut self, is_writing: bool, now: Instant) -> Vec<Event> {
        if self.due(is_writing).is_none_or(|it| now < it) {
            return Vec::new();
        }
        if self.events.len() <= LIMIT {
            let all = std::mem::take(self).events.into_values();
            let (slices, mut next): (Vec<Event>, Vec<Event>) =
                all.partition(|it| Turn::of(it) == Turn::Endpoints);
            next.extend(slices);
            return next;
        }
        let mut next = Vec::new();
        for turn in [Turn::Set, Turn::Deleted, Turn::Endpoints] {
            let left = LIMIT - next.len();
            let those = self.events.extract_if(.., |_, it| Turn::of(it) == turn);
            next.extend(those.take(left).map(|(_, event)| event));
        }
        next
    }
}

/// The turn of an event among many.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    Set,
    Deleted,
    /// Slices are deleted after their Service, which would be one without endpoints for a moment, and planned twice.
    Endpoints,
}

impl Turn {
    fn of(event: &Event) -> Self {
        match event {
            Event::Delete(key) if key.kind == EndpointSlice::KIND => Self::Endpoints,
            Event::Delete(_) => Self::Deleted,
            _ => Self::Set,
        }
    }
}

#[cfg(test)]
mod tests;
