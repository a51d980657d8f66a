//! The content of every file, and the objects in force that follow from it.
//!
//! Pure: files in, events out. One [`Catalog::apply`] is one settled change; its cost is that
//! of the files in it, however many there are besides.

mod file;
mod owned;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use sluice_model::Reference;

use crate::hub::Topics;
use crate::manifest::{Manifest, Origin, Problem};
use crate::object::{Event, Object};
use crate::report::Reported;
use file::{File, Version};
use owned::Owned;

/// Problems of one file that are listed: a file of 500 KB may have 200,000.
const MAX_PROBLEMS: usize = 1_000;

/// The new state of a file in the folder.
#[derive(Debug)]
pub(crate) enum Change {
    /// The file has been read.
    Read(Manifest),
    /// The file exists and cannot be read: its last content stays in force.
    Unreadable(String),
    /// The file is gone, and its objects with it.
    Gone,
}

/// The files of a folder and the objects they give.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    files: BTreeMap<Arc<str>, File>,
    /// The files that have an object: nearly always one.
    sources: HashMap<Reference, Vec<Arc<str>>>,
    delivered: HashMap<Reference, Object>,
    owned: Owned,
    /// The kinds that are read, in the order of their events. An object whose owner is of another kind is not
    /// reported as lacking its owner.
    kinds: Vec<&'static str>,
    reported: Reported<Arc<str>, Problem>,
}

impl Catalog {
    /// Objects of these kinds are read.
    pub(crate) fn read_kinds(&mut self, wanted: &Topics) {
        self.kinds = wanted.kinds().collect();
    }

    /// Absorbs all changes as one. The events are the differences to the state before.
    pub(crate) fn apply(&mut self, changes: Vec<(Arc<str>, Change)>) -> Vec<Event> {
        let mut touched = BTreeSet::new();
        let mut files = BTreeSet::new();
        for (name, change) in changes {
            self.replace(&name, change, &mut touched);
            files.insert(name);
        }
        touched.extend(self.owned.competing());
        let mut touched: Vec<Reference> = touched.into_iter().collect();
        touched.sort_by_key(|key| self.kinds.iter().position(|it| *it == key.kind.name));
        let mut events = Vec::new();
        for key in touched {
            // Other files with this object may have to report another duplicate now.
            files.extend(self.sources.get(&key).into_iter().flatten().cloned());
            let was_there = self.delivered.contains_key(&key);
            events.extend(self.deliver(key.clone()));
            // Files with objects that belong to this one may have to report that it is missing, or exists again.
            if was_there != self.delivered.contains_key(&key) {
                let files_of = |key: Reference| self.sources.get(&key).into_iter().flatten();
                files.extend(self.owned.of(&key).flat_map(files_of).cloned());
            }
        }
        for name in files {
            let problems = self.problems_of(&name);
            events.extend(self.reported.replace(&name, problems));
        }
        events
    }

    /// Every object, ordered by key.
    pub(crate) fn objects(&self) -> Vec<Object> {
        let ordered: BTreeMap<_, _> = self.delivered.iter().collect();
        ordered.into_values().cloned().collect()
    }

    /// How many objects a file had when it was read last; `None` for a file that was never read.
    pub(crate) fn objects_of(&self, file: &str) -> Option<usize> {
        Some(self.files.get(file)?.objects.len())
    }

    /// Every file with its problems.
    pub(crate) fn origins(&self) -> impl Iterator<Item = Event> {
        self.reported.origins()
    }

    /// Every problem, ordered by file.
    pub(crate) fn problems(&self) -> Vec<Problem> {
        let problems = self.reported.iter().flat_map(|(_, problems)| problems);
        problems.cloned().collect()
    }

    fn replace(&mut self, name: &Arc<str>, change: Change, touched: &mut BTreeSet<Reference>) {
        let old = self.files.remove(name).unwrap_or_default();
        for (key, version) in &old.objects {
            self.owned.remove(version);
            if let Some(files) = self.sources.get_mut(key) {
                files.retain(|it| it != name);
            }
            touched.insert(key.clone());
        }
        let new = match change {
            Change::Gone => return,
            Change::Unreadable(why) => File::unreadable(name, old, why),
            Change::Read(manifest) => File::read(name, old, manifest, &self.delivered),
        };
        for (key, version) in &new.objects {
            self.owned.add(version);
            let files = self.sources.entry(key.clone()).or_default();
            files.reserve_exact(1);
            files.push(name.clone());
            touched.insert(key.clone());
        }
        self.files.insert(name.clone(), new);
    }

    /// The version of an object that counts: that of the first file by name, but a last good
    /// version counts after all that can be read now. A slice made from Endpoints does not count
    /// where its Service has EndpointSlices.
    fn in_force(&self, key: &Reference) -> Option<(&Arc<str>, &Version)> {
        let versions = (self.sources.get(key)?.iter())
            .filter_map(|name| Some((name, self.files.get(name)?.objects.get(key)?)));
        let versions = versions.filter(|(_, it)| !self.owned.supersede(it));
        versions.min_by_key(|(name, version)| (version.old, *name))
    }

    fn deliver(&mut self, key: Reference) -> Option<Event> {
        let now = self
            .in_force(&key)
            .map(|(_, version)| version.object.clone());
        let Some(object) = now else {
            if self.sources.get(&key).is_some_and(Vec::is_empty) {
                self.sources.remove(&key);
            }
            return self.delivered.remove(&key).map(|_| Event::Delete(key));
        };
        if self.delivered.get(&key) == Some(&object) {
            return None;
        }
        self.delivered.insert(key, object.clone());
        Some(Event::Set(object))
    }

    fn problems_of(&self, name: &Arc<str>) -> Vec<Problem> {
        let Some(file) = self.files.get(name) else {
            return Vec::new();
        };
        let mut problems = file.problems.clone();
        for (key, version) in file.objects.iter().filter(|(_, it)| !it.old) {
            problems.extend(match self.in_force(key) {
                Some((first, in_force)) if first != name => {
                    let first = (&**first, in_force.line);
                    Some(file::duplicate(name, version, first))
                }
                Some(_) => self.missing_owner(name, version),
                None if version.origin == Origin::Endpoints => {
                    Some(file::superseded(name, version))
                }
                None => None,
            });
        }
        problems.sort_by_key(|it| it.line);
        // An Endpoints object may be several slices.
        problems.dedup();
        if let Some(further) = problems
            .len()
            .checked_sub(MAX_PROBLEMS)
            .filter(|it| *it > 0)
        {
            problems.truncate(MAX_PROBLEMS);
            problems.push(file::further(name, further));
        }
        problems
    }

    fn missing_owner(&self, name: &str, version: &Version) -> Option<Problem> {
        let owner = version.object.owner()?;
        let is_missing = self.kinds.contains(&owner.object.kind.name)
            && !self.delivered.contains_key(&owner.object);
        is_missing.then(|| file::without_owner(name, version, &owner))
    }
}

#[cfg(test)]
mod tests;
