//! Documents → objects.

use sluice_model::{NamespacedName, Object, ObjectKey};

use super::kind::{Document, Known};
use super::locate::locate;
use super::{Entry, Manifest, Problem, line};
use crate::convert::{Interner, displayable};
use crate::kind::Kind;
use sluice_yaml::{self as yaml, Meaning, Node, Value, quoted};

/// Lists in lists that are followed.
const MAX_LISTS: usize = 4;

/// Reads the documents of one file.
pub(super) struct Reader<'a> {
    file: &'a str,
    names: &'a mut Interner,
    /// Keys that are there twice still have to be found.
    check_keys: bool,
    pub(super) manifest: Manifest,
}

impl<'a> Reader<'a> {
    pub(super) fn new(file: &'a str, names: &'a mut Interner) -> Self {
        Self {
            file,
            names,
            check_keys: false,
            manifest: Manifest::default(),
        }
    }

    /// Notes a part of the file that cannot be read.
    pub(super) fn broken(&mut self, line: u32, message: String) {
        self.manifest.broken = true;
        self.problem(line, "", "", message);
    }

    fn problem(&mut self, line: u32, object: &str, field: &str, message: impl Into<String>) {
        self.manifest.problems.push(Problem {
            file: self.file.to_owned(),
            line,
            object: object.to_owned(),
            field: field.to_owned(),
            message: message.into(),
        });
    }

    /// Reads one document, which may be empty.
    pub(super) fn document(&mut self, node: &Node<'_>, check_keys: bool) {
        if !is_null(node) {
            self.check_keys = check_keys;
            self.value(node, None, 0);
        }
    }

    fn value(&mut self, node: &Node<'_>, default: Option<&'static Known>, lists: usize) {
        if !matches!(node.value(), Value::Map(_)) {
            let message = "expected an object, found no mapping";
            return self.broken(line(node), message.to_owned());
        }
        let document = match (node.text("kind"), default) {
            (Some(kind), _) => Document::of(kind),
            (None, Some(known)) if node.get("kind").is_none() => Document::Object(known),
            _ => return self.broken(line(node), "kind: is required".to_owned()),
        };
        let version = node.text("apiVersion");
        let is_implied = default.is_some() && node.get("apiVersion").is_none();
        let is_known = version.is_some_and(|it| document.versions().contains(&it)) || is_implied;
        match document {
            Document::Object(known) => (known.read)(self, node, is_known),
            Document::List(_) if !is_known => {
                self.broken(line(node), wrong_version(node, document.versions()));
            }
            Document::List(kind) => self.list(node, kind, lists),
            Document::Other => {
                let kind = quoted(node.text("kind").unwrap_or_default());
                tracing::debug!(file = self.file, %kind, "skipped an object that a proxy does not need");
            }
        }
    }

    fn list(&mut self, node: &Node<'_>, kind: Option<&'static Known>, lists: usize) {
        let Value::Map(entries) = node.value() else {
            return;
        };
        // Nobody can say which of two `items` is meant.
        if let Some((key, _)) = entries.iter().find(|(key, _)| key.repeated) {
            let message = format!("the key {} is there twice", quoted(&key.text));
            return self.broken(key.place.line, message);
        }
        if lists >= MAX_LISTS {
            let message = format!("lists nested deeper than {MAX_LISTS} levels");
            return self.broken(line(node), message);
        }
        let Some((key, items)) = node.get("items") else {
            return;
        };
        match items.value() {
            Value::List(items) => {
                for item in items {
                    self.value(item, kind, lists + 1);
                }
            }
            _ if is_null(items) => {}
            _ => self.broken(key.place.line, "items: expected a list".to_owned()),
        }
    }

    /// The object, unless something in it refuses it. Every problem of it is noted.
    fn convert<K: Kind>(&mut self, node: &Node<'_>, label: &str) -> Option<Object> {
        let (api, type_faults) = yaml::decode::<K>(node);
        for fault in &type_faults {
            let (line, field) = node.find(fault.node);
            self.problem(line, label, &field, &*fault.message);
        }
        let converted = api?.convert(self.names);
        let skip: Vec<usize> = type_faults.iter().map(|it| it.node).collect();
        for fault in converted.faults {
            let at = locate(node, &fault, &skip);
            if !at.is_reported {
                self.problem(at.line, label, &at.field, fault.message);
            }
        }
        converted.object.filter(|_| type_faults.is_empty())
    }
}

/// Reads one object.
pub(super) fn read<K: Kind>(reader: &mut Reader<'_>, node: &Node<'_>, is_known_version: bool) {
    let label = label::<K>(node);
    let mut object = None;
    if is_known_version {
        object = reader.convert::<K>(node, &label);
    } else {
        reader.problem(line(node), &label, "", wrong_version(node, K::VERSIONS));
    }
    if reader.check_keys {
        for (place, field) in node.repeated_keys() {
            reader.problem(place.line, &label, &field, "the key is there twice");
            object = None;
        }
    }
    let (line, manifest) = (line(node), &mut reader.manifest);
    if let Some(object) = object {
        let key = object.key();
        manifest.entries.push(Entry { key, object, line });
    } else if let Some(key) = key::<K>(node) {
        manifest.refused.push((key, line));
    } else {
        // It may be any of those the file gave before.
        manifest.broken = true;
    }
}

fn is_null(node: &Node<'_>) -> bool {
    matches!(node.value(), Value::Scalar(it) if it.meaning() == Meaning::Null)
}

fn wrong_version(node: &Node<'_>, versions: &[&str]) -> String {
    let expected = versions.join(" or ");
    match node.text("apiVersion") {
        None => format!("apiVersion: is required: {expected}"),
        Some(other) => format!("apiVersion: {} is not {expected}", quoted(other)),
    }
}

fn metadata<'n>(node: &'n Node<'_>, field: &str) -> Option<&'n str> {
    node.get("metadata")?.1.text(field)
}

/// What a message calls the object, good or bad.
fn label<K: Kind>(node: &Node<'_>) -> String {
    let shown = |field, default: &str| match metadata(node, field) {
        None | Some("") => default.to_owned(),
        Some(text) if displayable(text) => text.to_owned(),
        Some(text) => quoted(text),
    };
    let name = NamespacedName::new(shown("namespace", "default"), shown("name", "(no name)"));
    K::key(name).to_string()
}

/// The key of an object that is refused, if its names at least can be trusted.
fn key<K: Kind>(node: &Node<'_>) -> Option<ObjectKey> {
    let name = metadata(node, "name")?;
    let namespace = match node.get("metadata")?.1.get("namespace") {
        Some((_, it)) if !is_null(it) => metadata(node, "namespace")?,
        _ => "default",
    };
    let namespace = match namespace {
        "" => "default",
        text => text,
    };
    let is_usable = displayable(name) && displayable(namespace);
    is_usable.then(|| K::key(NamespacedName::new(namespace, name)))
}
