//! What every file says, and what follows for every object.
//!
//! Pure: files in, events out. One [`Catalog::apply`] is one settled change; its cost is that
//! of the files in it, however many there are besides.

mod file;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use sluice_model::{Event, Object, ObjectKey};

use crate::manifest::{Manifest, Problem};
use file::File;

/// What became of a file.
#[derive(Debug)]
pub(crate) enum Change {
    /// It has been read.
    Read(Manifest),
    /// It is there but cannot be read: what it said before stands.
    Unreadable(String),
    /// It is gone, and its objects with it.
    Gone,
}

/// The files of a folder and the objects they give.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    files: BTreeMap<Arc<str>, File>,
    /// Which files have an object: nearly always one.
    claims: HashMap<ObjectKey, Vec<Arc<str>>>,
    delivered: HashMap<ObjectKey, Object>,
}

impl Catalog {
    /// Takes in all changes as one. The events say what is different now.
    pub(crate) fn apply(&mut self, changes: Vec<(Arc<str>, Change)>) -> Vec<Event> {
        let mut touched = BTreeSet::new();
        let mut files = BTreeSet::new();
        for (name, change) in changes {
            self.replace(&name, change, &mut touched);
            files.insert(name);
        }
        let mut events = Vec::new();
        for key in touched {
            // A file that lost or won a contest says so, though it has not changed itself.
            files.extend(self.claims.get(&key).into_iter().flatten().cloned());
            events.extend(self.settle(key));
        }
        events.extend(files.iter().filter_map(|it| self.tell(it)));
        events
    }

    /// Every object, ordered by key.
    pub(crate) fn objects(&self) -> Vec<Object> {
        let ordered: BTreeMap<_, _> = self.delivered.iter().collect();
        ordered.into_values().cloned().collect()
    }

    /// Every problem, ordered by file.
    pub(crate) fn problems(&self) -> Vec<Problem> {
        let told = self.files.values().flat_map(|it| &it.told);
        told.cloned().collect()
    }

    fn replace(&mut self, name: &Arc<str>, change: Change, touched: &mut BTreeSet<ObjectKey>) {
        let old = self.files.remove(name);
        for key in old.iter().flat_map(|it| it.entries.keys()) {
            if let Some(claim) = self.claims.get_mut(key) {
                claim.retain(|it| it != name);
            }
            touched.insert(key.clone());
        }
        let new = match change {
            Change::Gone => {
                // The name stays until its problems have been cleared.
                let told = old.map(|it| it.told).unwrap_or_default();
                File {
                    told,
                    gone: true,
                    ..File::default()
                }
            }
            Change::Unreadable(why) => File::unreadable(name, old.unwrap_or_default(), why),
            Change::Read(manifest) => {
                File::read(name, old.unwrap_or_default(), manifest, &self.delivered)
            }
        };
        for key in new.entries.keys() {
            let claim = self.claims.entry(key.clone()).or_default();
            if !claim.contains(name) {
                claim.reserve_exact(1);
                claim.push(name.clone());
            }
            touched.insert(key.clone());
        }
        self.files.insert(name.clone(), new);
    }

    /// The file whose version of an object counts: the first by name of those that can be read
    /// now; a version that is only kept counts last.
    fn winner(&self, key: &ObjectKey) -> Option<(&Arc<str>, &file::Held)> {
        let versions = (self.claims.get(key)?.iter())
            .filter_map(|name| Some((name, self.files.get(name)?.entries.get(key)?)));
        versions.min_by_key(|(name, held)| (held.kept, *name))
    }

    fn settle(&mut self, key: ObjectKey) -> Option<Event> {
        let now = self.winner(&key).map(|(_, held)| held.object.clone());
        let Some(object) = now else {
            self.claims.remove(&key);
            return self.delivered.remove(&key).map(|_| Event::Delete(key));
        };
        if self.delivered.get(&key) == Some(&object) {
            return None;
        }
        self.delivered.insert(key, object.clone());
        Some(Event::Set(object))
    }

    /// The problems of a file, if they are not what has been told already.
    fn tell(&mut self, name: &Arc<str>) -> Option<Event> {
        let file = self.files.get(name)?;
        let mut problems = file.problems.clone();
        for (key, held) in &file.entries {
            if let Some((first, winner)) = self.winner(key)
                && first != name
                && !held.kept
            {
                problems.push(file::duplicate(name, key, held.line, (first, winner.line)));
            }
        }
        problems.sort_by_key(|it| it.line);
        let (gone, changed) = (file.gone, file.told != problems);
        let lines = problems.iter().map(Problem::to_string).collect();
        if gone {
            self.files.remove(name);
        } else if let Some(file) = self.files.get_mut(name) {
            file.told = problems;
        }
        changed.then(|| Event::Problems {
            origin: name.clone(),
            problems: lines,
        })
    }
}

#[cfg(test)]
mod tests;
