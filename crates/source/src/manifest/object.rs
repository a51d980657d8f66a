//! Documents → objects.

use serde::de::DeserializeOwned;
use sluice_model::{NamespacedName, Object, ObjectKey};
use std::sync::Arc;

use super::kind::{Document, Kind, log_skipped};
use super::locate::locate;
use super::{Entry, Manifest, Problem, line};
use crate::convert::{self, Converted, Interner, displayable};
use sluice_yaml::{self as yaml, Meaning, Node, Value, quoted};

/// Lists in lists that are followed.
const MAX_LISTS: usize = 4;

/// Reads the documents of one file.
pub(super) struct Reader<'a> {
    file: &'a str,
    names: &'a mut Interner,
    pub(super) manifest: Manifest,
}

impl<'a> Reader<'a> {
    pub(super) fn new(file: &'a str, names: &'a mut Interner) -> Self {
        Self {
            file,
            names,
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

    /// Reads one document; an empty one says nothing.
    pub(super) fn document(&mut self, node: &Node<'_>, check_keys: bool) {
        if !is_null(node) {
            self.value(node, None, check_keys, 0);
        }
    }

    fn value(&mut self, node: &Node<'_>, default: Option<Kind>, check_keys: bool, lists: usize) {
        if !matches!(node.value(), Value::Map(_)) {
            return self.broken(
                line(node),
                "expected an object, found no mapping".to_owned(),
            );
        }
        let document = match (node.text("kind"), default) {
            (Some(kind), _) => Document::of(kind),
            (None, Some(kind)) if node.get("kind").is_none() => Document::Object(kind),
            _ => return self.broken(line(node), "kind: is required".to_owned()),
        };
        if document == Document::Other {
            return log_skipped(node.text("kind").unwrap_or_default());
        }
        let version = node.text("apiVersion");
        let implied = default.is_some() && node.get("apiVersion").is_none();
        let known = version.is_some_and(|it| document.versions().contains(&it)) || implied;
        match document {
            Document::Object(kind) => self.object(node, kind, known, check_keys),
            Document::List(_) if !known => self.broken(line(node), wrong_version(node, document)),
            Document::List(kind) => self.list(node, kind, check_keys, lists),
            Document::Other => {}
        }
    }

    fn list(&mut self, node: &Node<'_>, kind: Option<Kind>, check_keys: bool, lists: usize) {
        let Value::Map(entries) = node.value() else {
            return;
        };
        // Which of two `items` is meant nobody can say: none.
        if let Some((key, _)) = entries.iter().find(|(key, _)| key.repeated) {
            let message = format!("the key {} is there twice", quoted(&key.text));
            return self.broken(key.place.line, message);
        }
        if lists >= MAX_LISTS {
            let message = format!("lists nested deeper than {MAX_LISTS} levels");
            return self.broken(line(node), message);
        }
        match node.get("items").map(|(key, items)| (key, items.value())) {
            None => {}
            Some((_, Value::List(items))) => {
                for item in items {
                    self.value(item, kind, check_keys, lists + 1);
                }
            }
            Some((key, _)) if node.get("items").is_some_and(|(_, it)| !is_null(it)) => {
                self.broken(key.place.line, "items: expected a list".to_owned());
            }
            Some(_) => {}
        }
    }

    fn object(&mut self, node: &Node<'_>, kind: Kind, known_version: bool, check_keys: bool) {
        let label = label(node, kind);
        let mut refused = false;
        if !known_version {
            let message = wrong_version(node, Document::Object(kind));
            self.problem(line(node), &label, "", message);
            refused = true;
        }
        if check_keys {
            for (place, field) in node.repeated_keys() {
                self.problem(place.line, &label, &field, "the key is there twice");
                refused = true;
            }
        }
        let object = if known_version {
            self.convert(node, kind, &label)
        } else {
            None
        };
        match object.filter(|_| !refused) {
            Some(object) => self.manifest.entries.push(Entry {
                key: object.key(),
                object,
                line: line(node),
            }),
            None => match key(node, kind) {
                Some(key) => self.manifest.refused.push((key, line(node))),
                // It may be any of those the file gave before.
                None => self.manifest.broken = true,
            },
        }
    }

    fn convert(&mut self, node: &Node<'_>, kind: Kind, label: &str) -> Option<Object> {
        match kind {
            Kind::Service => self.typed(node, label, convert::service, |it| {
                Object::Service(Arc::new(it))
            }),
            Kind::EndpointSlice => self.typed(node, label, convert::endpoint_slice, |it| {
                Object::EndpointSlice(Arc::new(it))
            }),
            Kind::Node => self.typed(node, label, convert::node, |it| Object::Node(Arc::new(it))),
            Kind::ServiceCidr => self.typed(node, label, convert::service_cidr, |it| {
                Object::ServiceCidr(Arc::new(it))
            }),
        }
    }

    fn typed<A: DeserializeOwned, T>(
        &mut self,
        node: &Node<'_>,
        label: &str,
        convert: fn(&A, &mut Interner) -> Converted<T>,
        wrap: fn(T) -> Object,
    ) -> Option<Object> {
        let (api, type_faults) = yaml::decode::<A>(node);
        for fault in &type_faults {
            let (line, field) = node.find(fault.node);
            self.problem(line, label, &field, &*fault.message);
        }
        let converted = convert(&api?, self.names);
        let skip: Vec<usize> = type_faults.iter().map(|it| it.node).collect();
        for fault in converted.faults {
            let at = locate(node, &fault, &skip);
            if !at.poisoned {
                self.problem(at.line, label, &at.field, fault.message);
            }
        }
        converted
            .object
            .filter(|_| type_faults.is_empty())
            .map(wrap)
    }
}

fn is_null(node: &Node<'_>) -> bool {
    matches!(node.value(), Value::Scalar(it) if it.meaning() == Meaning::Null)
}

fn wrong_version(node: &Node<'_>, document: Document) -> String {
    let expected = document.versions().join(" or ");
    match node.text("apiVersion") {
        None => format!("apiVersion: is required: {expected}"),
        Some(other) => format!("apiVersion: {} is not {expected}", quoted(other)),
    }
}

fn metadata<'n>(node: &'n Node<'_>, field: &str) -> Option<&'n str> {
    node.get("metadata")?.1.text(field)
}

/// What a message calls the object, good or bad.
fn label(node: &Node<'_>, kind: Kind) -> String {
    let shown = |it: &str| match displayable(it) {
        true => it.to_owned(),
        false => quoted(it),
    };
    let name = match metadata(node, "name") {
        None | Some("") => "(no name)".to_owned(),
        Some(name) => shown(name),
    };
    match metadata(node, "namespace").filter(|it| !it.is_empty()) {
        _ if !kind.is_namespaced() => format!("{} {name}", kind.name()),
        Some(namespace) => format!("{} {}/{name}", kind.name(), shown(namespace)),
        None => format!("{} default/{name}", kind.name()),
    }
}

/// The key of an object that is refused, if its names at least can be trusted.
fn key(node: &Node<'_>, kind: Kind) -> Option<ObjectKey> {
    let name = metadata(node, "name").filter(|it| displayable(it))?;
    let namespace = match node.get("metadata")?.1.get("namespace") {
        None => "default",
        Some((_, it)) if is_null(it) => "default",
        Some(_) => match metadata(node, "namespace")? {
            "" => "default",
            text => Some(text).filter(|it| displayable(it))?,
        },
    };
    let namespaced = || NamespacedName::new(namespace, name);
    Some(match kind {
        Kind::Service => ObjectKey::Service(namespaced()),
        Kind::EndpointSlice => ObjectKey::EndpointSlice(namespaced()),
        Kind::Node => ObjectKey::Node(name.into()),
        Kind::ServiceCidr => ObjectKey::ServiceCidr(name.into()),
    })
}
