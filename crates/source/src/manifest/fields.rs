//! Fields that the API does not have: the API ignores a misspelt field, and the object means something else than its
//! author wrote.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use sluice_yaml::{Node, Value};

use super::nearest::nearest;

/// The fields of one kind of object: its whole mapping, or one part of it.
#[derive(Debug, Default)]
pub(super) struct Mapping {
    /// Each field; `None` below it stands for any value.
    known: Vec<(&'static str, Option<Mapping>)>,
}

/// The fields of a kind, as the API writes them.
pub struct Fields {
    fields: Mapping,
    /// The path of each mapping and its fields: `spec.ports[]` → `name port ...`.
    lines: BTreeMap<&'static str, Vec<&'static str>>,
}

/// A field that the API does not have.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unknown {
    pub(super) line: u32,
    pub(super) field: String,
    pub(super) message: String,
}

/// Unknown fields of one object that are reported.
const MAX_UNKNOWN: usize = 20;

/// `metadata` of every object (`ObjectMeta` of Kubernetes 1.36).
const METADATA: &str = "
metadata: annotations creationTimestamp deletionGracePeriodSeconds deletionTimestamp finalizers generateName generation labels managedFields name namespace ownerReferences resourceVersion selfLink uid
metadata.managedFields[]: apiVersion fieldsType fieldsV1 manager operation subresource time
metadata.ownerReferences[]: apiVersion blockOwnerDeletion controller kind name uid";

pub(super) static ENDPOINTS: LazyLock<Fields> = LazyLock::new(|| {
    Fields::of(
        "
: apiVersion kind metadata subsets
subsets[]: addresses notReadyAddresses ports
subsets[].addresses[]: hostname ip nodeName targetRef
subsets[].addresses[].targetRef: apiVersion fieldPath kind name namespace resourceVersion uid
subsets[].notReadyAddresses[]: hostname ip nodeName targetRef
subsets[].notReadyAddresses[].targetRef: apiVersion fieldPath kind name namespace resourceVersion uid
subsets[].ports[]: appProtocol name port protocol",
    )
});

impl Fields {
    /// Reads lines of the form `path: field field`, with `path[]` for the elements of a list and no path for the
    /// object itself. The fields of `metadata` belong to every kind.
    #[must_use]
    pub fn of(own: &'static str) -> Self {
        let lines = METADATA.lines().chain(own.lines());
        let lines = lines.filter_map(|it| it.split_once(':'));
        let lines: BTreeMap<_, Vec<_>> = lines
            .map(|(path, names)| (path, names.split_whitespace().collect()))
            .collect();
        let fields = Mapping::of("", &lines);
        Self { fields, lines }
    }

    /// The first unknown fields of an object.
    pub(super) fn unknown(&self, object: &Node<'_>) -> Vec<Unknown> {
        let mut found = Vec::new();
        self.fields.check(object, &mut found);
        let unknown = |(line, path, id, name): (u32, &Mapping, usize, &str)| {
            let (_, field) = object.find(id);
            let message = format!(
                "is no field of the API and is ignored{}",
                self.instead(path, name)
            );
            Unknown {
                line,
                field,
                message,
            }
        };
        found.into_iter().map(unknown).collect()
    }

    /// The field to write: the nearest field of the same mapping, or the outermost field of this name in another
    /// mapping.
    fn instead(&self, siblings: &Mapping, name: &str) -> String {
        let known = siblings.known.iter().map(|(it, _)| *it);
        if let Some(near) = nearest(name, known) {
            return format!(": write {near}");
        }
        let is_same = |it: &&&str| it.eq_ignore_ascii_case(name);
        let elsewhere = (self.lines.iter())
            .filter_map(|(path, names)| Some((*path, names.iter().find(is_same)?)));
        match elsewhere.min_by_key(|(path, _)| path.len()) {
            Some(("", name)) => format!(": {name} belongs beside kind"),
            Some((path, name)) => format!(": {name} belongs in {path}"),
            None => String::new(),
        }
    }
}

impl Mapping {
    /// The fields of the mapping at `path`, and of the mappings below it.
    fn of(path: &str, lines: &BTreeMap<&str, Vec<&'static str>>) -> Self {
        let below = |name: &str| {
            let path = match path {
                "" => name.to_owned(),
                path => format!("{path}.{name}"),
            };
            let paths = [format!("{path}[]"), path];
            let path = paths.iter().find(|it| lines.contains_key(it.as_str()))?;
            Some(Self::of(path, lines))
        };
        let names = lines.get(path).into_iter().flatten();
        let known = names.map(|name| (*name, below(name))).collect();
        Self { known }
    }

    /// Collects line, mapping, [`Node::id`] of the value and name of each unknown field.
    fn check<'a>(&'a self, node: &'a Node<'_>, found: &mut Vec<(u32, &'a Self, usize, &'a str)>) {
        match node.value() {
            Value::Map(entries) => {
                for (key, value) in entries {
                    let known = self.known.iter().find(|(name, _)| *name == key.text);
                    match known {
                        Some((_, Some(below))) => below.check(value, found),
                        Some((_, None)) => {}
                        None if found.len() < MAX_UNKNOWN => {
                            found.push((key.place.line, self, value.id(), &key.text));
                        }
                        None => return,
                    }
                }
            }
            Value::List(items) => items.iter().for_each(|it| self.check(it, found)),
            Value::Scalar(_) | Value::Shared(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
