//! Sends problems when they are new, different or over.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

use sluice_yaml::escaped;

use crate::object::Event;

/// The problems that were sent last, by their origin: a file or an object.
#[derive(Debug)]
pub(crate) struct Reported<K, P>(BTreeMap<K, Vec<P>>);

impl<K, P> Default for Reported<K, P> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord + Clone + Display, P: PartialEq + Display> Reported<K, P> {
    /// Replaces the problems of an origin: the event to send, if they are not the same.
    pub(crate) fn replace(&mut self, origin: &K, problems: Vec<P>) -> Option<Event> {
        let is_same = match self.0.get(origin) {
            Some(reported) => *reported == problems,
            None => problems.is_empty(),
        };
        if is_same {
            return None;
        }
        let lines = problems.iter().map(P::to_string).collect();
        if problems.is_empty() {
            self.0.remove(origin);
        } else {
            self.0.insert(origin.clone(), problems);
        }
        Some(Event::Problems {
            origin: shown_origin(origin),
            problems: lines,
        })
    }

    /// Every origin with its problems, for a consumer that has got no problems yet.
    pub(crate) fn origins(&self) -> impl Iterator<Item = Event> {
        self.0.iter().map(|(origin, problems)| Event::Problems {
            origin: shown_origin(origin),
            problems: problems.iter().map(P::to_string).collect(),
        })
    }

    /// Whether an origin has problems.
    pub(crate) fn contains(&self, origin: &K) -> bool {
        self.0.contains_key(origin)
    }

    /// Every origin with its problems, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &Vec<P>)> {
        self.0.iter()
    }
}

/// The origin as consumers show it: the name of a file may be anything.
fn shown_origin(origin: &impl Display) -> Arc<str> {
    escaped(&origin.to_string()).into()
}
