//! What one file contains, with its earlier content where that is still in force.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};

use sluice_model::{Object, ObjectKey};

use crate::manifest::{self, Manifest, Problem};
use sluice_yaml::escaped;

/// One file of the catalog.
#[derive(Debug, Default)]
pub(super) struct File {
    pub(super) objects: BTreeMap<ObjectKey, Version>,
    /// The problems of the file by itself; duplicates in other files are not among them.
    pub(super) problems: Vec<Problem>,
}

/// One version of an object.
#[derive(Debug)]
pub(super) struct Version {
    pub(super) object: Object,
    pub(super) line: u32,
    /// The last good version of an object that cannot be read now.
    pub(super) old: bool,
}

impl File {
    /// The file was `before` and cannot be read now: all its objects stay in force.
    pub(super) fn unreadable(name: &str, before: Self, why: String) -> Self {
        let mut new = Self {
            problems: vec![problem(name, 0, "", why)],
            ..Self::default()
        };
        new.add_last_good(name, before);
        new
    }

    /// The file was `before` and has been read. `delivered`: the last good version of every object.
    pub(super) fn read(
        name: &str,
        before: Self,
        manifest: Manifest,
        delivered: &HashMap<ObjectKey, Object>,
    ) -> Self {
        let mut new = Self {
            problems: manifest.problems,
            ..Self::default()
        };
        for manifest::Entry { key, object, line } in manifest.entries {
            match new.objects.entry(key) {
                Entry::Vacant(slot) => {
                    let old = false;
                    slot.insert(Version { object, line, old });
                }
                Entry::Occupied(first) => {
                    let place = (name, first.get().line);
                    let problem = duplicate(name, first.key(), line, place);
                    new.problems.push(problem);
                }
            }
        }
        for (key, line) in manifest.refused {
            if let Entry::Vacant(slot) = new.objects.entry(key)
                && let Some(object) = delivered.get(slot.key()).cloned()
            {
                let message = "refused: its last good version stays in force".to_owned();
                let label = slot.key().to_string();
                new.problems.push(problem(name, line, &label, message));
                let old = true;
                slot.insert(Version { object, line, old });
            }
        }
        if manifest.broken {
            new.add_last_good(name, before);
        }
        new
    }

    /// Part of the file cannot be read: the objects that it contained before may be there.
    fn add_last_good(&mut self, name: &str, before: Self) {
        let mut added = Vec::new();
        for (key, mut version) in before.objects {
            if let Entry::Vacant(slot) = self.objects.entry(key) {
                added.push(slot.key().clone());
                version.old = true;
                slot.insert(version);
            }
        }
        let Some((first, rest)) = added.split_first() else {
            return;
        };
        let more = match rest.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let why = "not readable now, the last good version stays in force";
        let message = format!("{first}{more}: {why}");
        self.problems.push(problem(name, 0, "", message));
    }
}

fn problem(file: &str, line: u32, object: &str, message: String) -> Problem {
    Problem {
        file: file.to_owned(),
        line,
        object: object.to_owned(),
        field: String::new(),
        message,
    }
}

/// The number of problems that are not listed.
pub(super) fn further(name: &str, count: usize) -> Problem {
    problem(name, 0, "", format!("{count} further problems"))
}

/// An object that is also in another place, which counts.
pub(super) fn duplicate(
    name: &str,
    key: &ObjectKey,
    line: u32,
    (first, first_line): (&str, u32),
) -> Problem {
    let first = escaped(first);
    let message = format!("is also in {first}:{first_line}, which counts: this one is ignored");
    problem(name, line, &key.to_string(), message)
}
