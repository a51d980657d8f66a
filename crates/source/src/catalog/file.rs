//! What one file says, with what it said before where that still counts.

use std::collections::{BTreeMap, HashMap};

use sluice_model::{Object, ObjectKey};

use crate::manifest::{Entry, Manifest, Problem};
use sluice_yaml::escaped;

/// One file of the catalog.
#[derive(Debug, Default)]
pub(super) struct File {
    /// Its objects, one per key.
    pub(super) entries: BTreeMap<ObjectKey, Held>,
    /// What is wrong with the file by itself.
    pub(super) problems: Vec<Problem>,
    /// The problems last told, those with other files included.
    pub(super) told: Vec<Problem>,
    /// It has been deleted.
    pub(super) gone: bool,
}

/// One version of an object.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) object: Object,
    pub(super) line: u32,
    /// The last good version of something that cannot be read now.
    pub(super) kept: bool,
}

impl File {
    /// The file was `old` and cannot be read now: everything is kept.
    pub(super) fn unreadable(name: &str, mut old: Self, why: String) -> Self {
        for held in old.entries.values_mut() {
            held.kept = true;
        }
        old.problems = vec![problem(name, 0, "", why)];
        let kept: Vec<_> = old.entries.keys().collect();
        old.problems.extend(keeps(name, &kept));
        old
    }

    /// The file was `old` and has been read. `delivered`: the last good version of every object.
    pub(super) fn read(
        name: &str,
        mut old: Self,
        manifest: Manifest,
        delivered: &HashMap<ObjectKey, Object>,
    ) -> Self {
        let mut new = Self {
            problems: manifest.problems,
            told: std::mem::take(&mut old.told),
            ..Self::default()
        };
        for Entry { key, object, line } in manifest.entries {
            if let Some(first) = new.entries.get(&key) {
                let twice = duplicate(name, &key, line, (name, first.line));
                new.problems.push(twice);
                continue;
            }
            let kept = false;
            new.entries.insert(key, Held { object, line, kept });
        }
        for (key, line) in manifest.refused {
            if new.entries.contains_key(&key) {
                continue;
            }
            if let Some(object) = delivered.get(&key).cloned() {
                let message = "refused: its last good version stays in force";
                let object_name = key.to_string();
                new.problems
                    .push(problem(name, line, &object_name, message.to_owned()));
                let kept = true;
                new.entries.insert(key, Held { object, line, kept });
            }
        }
        if manifest.broken {
            new.keep_unseen(name, old);
        }
        new
    }

    /// Part of the file cannot be read: what it gave before and is not seen now may be there.
    fn keep_unseen(&mut self, name: &str, old: Self) {
        let mut kept = Vec::new();
        for (key, held) in old.entries {
            if let std::collections::btree_map::Entry::Vacant(slot) = self.entries.entry(key) {
                kept.push(slot.key().clone());
                slot.insert(Held { kept: true, ..held });
            }
        }
        self.problems
            .extend(keeps(name, &kept.iter().collect::<Vec<_>>()));
    }
}

/// Says which objects keep their last good version.
fn keeps(name: &str, kept: &[&ObjectKey]) -> Option<Problem> {
    let (first, rest) = kept.split_first()?;
    let more = match rest.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let message = format!("{first}{more}: not readable now, the last good version stays in force");
    Some(problem(name, 0, "", message))
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

/// An object that another place has already given.
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
