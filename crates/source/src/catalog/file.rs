//! The content of one file, and its earlier content where that is still in force.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};

use sluice_model::{Owner, Reference};

use crate::manifest::{self, Manifest, Origin, Problem};
use crate::object::Object;
use sluice_yaml::escaped;

/// One file of the catalog.
#[derive(Debug, Default)]
pub(super) struct File {
    pub(super) objects: BTreeMap<Reference, Version>,
    /// The problems of the file by itself; duplicates in other files are not among them.
    pub(super) problems: Vec<Problem>,
}

/// One version of an object.
#[derive(Debug)]
pub(super) struct Version {
    pub(super) object: Object,
    pub(super) line: u32,
    pub(super) origin: Origin,
    /// The last good version of an object that cannot be read now.
    pub(super) old: bool,
}

impl Version {
    /// The name of the object in messages: the name of the object that the file contains.
    pub(super) fn label(&self) -> String {
        match (self.origin, self.object.owner()) {
            (Origin::Endpoints | Origin::ControllersEndpoints, Some(owner)) => {
                format!("Endpoints {}", owner.object.name)
            }
            _ => self.object.reference().to_string(),
        }
    }
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
        delivered: &HashMap<Reference, Object>,
    ) -> Self {
        let mut new = Self {
            problems: manifest.problems,
            ..Self::default()
        };
        for manifest::Entry {
            key,
            object,
            line,
            origin,
        } in manifest.entries
        {
            let version = Version {
                object,
                line,
                origin,
                old: false,
            };
            match new.objects.entry(key) {
                Entry::Vacant(slot) => {
                    slot.insert(version);
                }
                Entry::Occupied(first) => {
                    let place = (name, first.get().line);
                    new.problems.push(duplicate(name, &version, place));
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
                slot.insert(Version {
                    object,
                    line,
                    origin: Origin::Itself,
                    old: true,
                });
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

/// Reports an object that also exists in another place, whose version counts.
pub(super) fn duplicate(
    name: &str,
    version: &Version,
    (first, first_line): (&str, u32),
) -> Problem {
    let first = escaped(first);
    let message = format!("is also in {first}:{first_line}, which counts: this one is ignored");
    problem(name, version.line, &version.label(), message)
}

/// Reports an object whose owner is in no file.
pub(super) fn without_owner(name: &str, version: &Version, owner: &Owner) -> Problem {
    let Owner { object, lost } = owner;
    let kind = object.kind.name;
    let message = format!(
        "no file has a {object} that can be read, so {lost}: write the {kind}, or the name of another one"
    );
    problem(name, version.line, &version.label(), message)
}

/// Reports Endpoints of a Service that also has EndpointSlices.
pub(super) fn superseded(name: &str, version: &Version) -> Problem {
    let message = "the Service has EndpointSlices in these files, which count: this object is \
                   ignored: remove it, or them";
    problem(name, version.line, &version.label(), message.to_owned())
}
