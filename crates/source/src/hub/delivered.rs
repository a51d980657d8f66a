//! The objects that were delivered, and what a new list changes about them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use sluice_model::{NamespacedName, Reference};

use crate::object::{Event, Object};
use crate::received::Outcome;
use crate::report::Reported;

/// The objects of one kind as they were delivered, and their problems.
#[derive(Debug, Default)]
pub(crate) struct Delivered {
    objects: HashMap<NamespacedName, Object>,
    problems: Reported<Reference, String>,
}

/// The objects of a list that is not complete yet. An object that is equal to the delivered one is
/// dropped at once (`None`), so that a list of unchanged objects takes no memory.
#[derive(Debug, Default)]
pub(crate) struct Listing(HashMap<NamespacedName, Option<Outcome>>);

impl Listing {
    /// Adds an object that exists.
    pub(crate) fn add(&mut self, outcome: Outcome, delivered: &Delivered) {
        let (key, is_same) = match &outcome {
            Outcome::Usable(object, faults) => {
                let key = object.reference();
                let has_problems = !faults.is_empty() || delivered.problems.contains(&key);
                let is_same = delivered.objects.get(&key.name) == Some(object) && !has_problems;
                (key.name, is_same)
            }
            Outcome::Unusable(key, _) => (key.name.clone(), false),
        };
        self.0.insert(key, (!is_same).then_some(outcome));
    }

    /// Removes an object that was deleted before the list was complete.
    pub(crate) fn remove(&mut self, key: &Reference) {
        self.0.remove(&key.name);
    }

    /// Whether no object was listed, usable or not.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Delivered {
    /// Whether no object is delivered, or all were deleted again.
    pub(crate) fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Every object.
    pub(crate) fn objects(&self) -> impl Iterator<Item = &Object> {
        self.objects.values()
    }

    /// The problems of each object, with the object as origin.
    pub(crate) fn problems(&self) -> impl Iterator<Item = (Arc<str>, Vec<String>)> {
        let all = self.problems.iter();
        all.map(|(key, problems)| (key.to_string().into(), problems.clone()))
    }

    /// Sets an object to its present content: appends an event if it differs from the delivered object.
    pub(crate) fn set(&mut self, outcome: Outcome, events: &mut Vec<Event>) {
        match outcome {
            Outcome::Usable(object, faults) => {
                let key = object.reference();
                self.report(&key, &faults, events);
                if self.objects.get(&key.name) != Some(&object) {
                    self.objects.insert(key.name, object.clone());
                    events.push(Event::Set(object));
                }
            }
            Outcome::Unusable(key, mut faults) => {
                if self.objects.contains_key(&key.name) {
                    faults.push("refused: its last good version stays in force".to_owned());
                }
                self.report(&key, &faults, events);
            }
        }
    }

    /// An object is deleted.
    pub(crate) fn delete(&mut self, key: &Reference, events: &mut Vec<Event>) {
        self.report(key, &[], events);
        if self.objects.remove(&key.name).is_some() {
            events.push(Event::Delete(key.clone()));
        }
    }

    /// A complete list: objects that it lacks are deleted, objects that are equal are no event.
    pub(crate) fn replace(&mut self, listing: Listing, events: &mut Vec<Event>) {
        let delivered = self.objects.values().map(Object::reference);
        let all = delivered.chain(self.problems.iter().map(|(key, _)| key.clone()));
        let missing: HashSet<Reference> =
            all.filter(|it| !listing.0.contains_key(&it.name)).collect();
        for key in &missing {
            self.delete(key, events);
        }
        for outcome in listing.0.into_values().flatten() {
            self.set(outcome, events);
        }
    }

    fn report(&mut self, key: &Reference, faults: &[String], events: &mut Vec<Event>) {
        let problems = faults.iter().map(|it| format!("{key}: {it}")).collect();
        events.extend(self.problems.replace(key, problems));
    }
}

#[cfg(test)]
mod tests;
