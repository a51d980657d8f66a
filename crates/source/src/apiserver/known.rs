//! What has been delivered, and what a list changes about it.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use sluice_model::{Event, Object, ObjectKey};

use super::resource::{Resource, What};

/// The objects of one resource as they were delivered, and the problems told about them.
#[derive(Debug)]
pub(super) struct Known {
    resource: Resource,
    objects: HashMap<ObjectKey, Object>,
    told: HashMap<ObjectKey, Vec<String>>,
    /// What was told of objects that nobody can name.
    nameless: Vec<String>,
}

/// A list that is not complete yet.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    found: HashMap<ObjectKey, Found>,
    nameless: Vec<String>,
}

/// One object of it. What is equal to what was delivered takes no memory twice.
#[derive(Debug)]
enum Found {
    Same,
    Changed(What),
}

impl Incoming {
    /// Takes in an object that exists.
    pub(super) fn see(&mut self, what: What, known: &Known) {
        let key = match &what {
            What::Good(object, _) => object.key(),
            What::Refused(key, _) => key.clone(),
            What::Nameless(why) => {
                if self.nameless.len() < MAX_NAMELESS {
                    self.nameless.push(why.clone());
                }
                return;
            }
        };
        let is_same = matches!(&what, What::Good(object, faults)
            if faults.is_empty()
                && !known.told.contains_key(&key)
                && known.objects.get(&key) == Some(object));
        let found = if is_same {
            Found::Same
        } else {
            Found::Changed(what)
        };
        self.found.insert(key, found);
    }

    /// An object went away while the list was on its way.
    pub(super) fn gone(&mut self, key: &ObjectKey) {
        self.found.remove(key);
    }

    /// It holds nothing at all.
    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty() && self.nameless.is_empty()
    }
}

/// Problems of nameless objects that are kept: the first say enough.
const MAX_NAMELESS: usize = 10;

impl Known {
    pub(super) fn new(resource: Resource) -> Self {
        Self {
            resource,
            objects: HashMap::new(),
            told: HashMap::new(),
            nameless: Vec::new(),
        }
    }

    /// Nothing has been delivered, or everything is gone again.
    pub(super) fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// An object exists and looks like this now.
    pub(super) fn see(&mut self, what: What, events: &mut Vec<Event>) {
        match what {
            What::Good(object, faults) => {
                let key = object.key();
                self.tell(&key, &faults, events);
                match self.objects.entry(key) {
                    Entry::Occupied(old) if *old.get() == object => {}
                    Entry::Occupied(mut old) => {
                        old.insert(object.clone());
                        events.push(Event::Set(object));
                    }
                    Entry::Vacant(slot) => {
                        slot.insert(object.clone());
                        events.push(Event::Set(object));
                    }
                }
            }
            What::Refused(key, mut faults) => {
                if self.objects.contains_key(&key) {
                    faults.push("refused: its last good version stays in force".to_owned());
                }
                self.tell(&key, &faults, events);
            }
            What::Nameless(why) => {
                let mut all = self.nameless.clone();
                if all.len() < MAX_NAMELESS && !all.contains(&why) {
                    all.push(why);
                }
                self.tell_nameless(all, events);
            }
        }
    }

    /// An object is gone.
    pub(super) fn gone(&mut self, key: &ObjectKey, events: &mut Vec<Event>) {
        self.tell(key, &[], events);
        if self.objects.remove(key).is_some() {
            events.push(Event::Delete(key.clone()));
        }
    }

    /// A complete list: only what is different leaves.
    pub(super) fn replace(&mut self, list: Incoming, events: &mut Vec<Event>) {
        let Incoming { found, nameless } = list;
        // One that cannot be named may be any of those that are missing.
        if nameless.is_empty() {
            let mine = self.objects.keys().chain(self.told.keys());
            let missing: HashSet<ObjectKey> = mine
                .filter(|it| !found.contains_key(*it))
                .cloned()
                .collect();
            for key in &missing {
                self.gone(key, events);
            }
        }
        for found in found.into_values() {
            if let Found::Changed(what) = found {
                self.see(what, events);
            }
        }
        self.tell_nameless(nameless, events);
    }

    fn tell(&mut self, key: &ObjectKey, faults: &[String], events: &mut Vec<Event>) {
        let problems: Vec<String> = faults.iter().map(|it| format!("{key}: {it}")).collect();
        let is_news = match self.told.get(key) {
            Some(told) => *told != problems,
            None => !problems.is_empty(),
        };
        if !is_news {
            return;
        }
        if problems.is_empty() {
            self.told.remove(key);
        } else {
            self.told.insert(key.clone(), problems.clone());
        }
        let origin = key.to_string().into();
        events.push(Event::Problems { origin, problems });
    }

    fn tell_nameless(&mut self, all: Vec<String>, events: &mut Vec<Event>) {
        if self.nameless == all {
            return;
        }
        let resource = self.resource;
        let line = |why: &String| format!("one of the {resource} has no usable name: {why}");
        events.push(Event::Problems {
            origin: Arc::from(format!("API server: {resource}")),
            problems: all.iter().map(line).collect(),
        });
        self.nameless = all;
    }
}

#[cfg(test)]
mod tests;
