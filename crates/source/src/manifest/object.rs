//! Documents → objects.

use sluice_model::{NamespacedName, Reference};

use super::kind::{Document, Form};
use super::locate::locate;
use super::written::Written;
use super::{Entry, MAX_LISTS, Manifest, Origin, Problem, line};
use crate::convert::{Converted, Fault, Interner, displayable};
use crate::hub::Topics;
use crate::kind::{self, Kind};
use crate::kinds::{Endpoints, endpoints};
use crate::object::Object;
use sluice_yaml::{self as yaml, Meaning, Node, Value, quoted};

/// Advice on one object that is shown.
const MAX_ADVICE: usize = 20;

/// Reads the documents of one file.
pub(crate) struct Reader<'a> {
    file: &'a str,
    wanted: &'a Topics,
    names: &'a mut Interner,
    /// Repeated keys still have to be found.
    check_keys: bool,
    pub(super) manifest: Manifest,
}

impl<'a> Reader<'a> {
    pub(super) fn new(file: &'a str, wanted: &'a Topics, names: &'a mut Interner) -> Self {
        Self {
            file,
            wanted,
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

    fn value(&mut self, node: &Node<'_>, default: Option<&'static Form>, lists: usize) {
        if !matches!(node.value(), Value::Map(_)) {
            let message = "expected an object, found no mapping";
            return self.broken(line(node), message.to_owned());
        }
        let document = match (node.text("kind"), default) {
            (Some(kind), _) => Document::of(kind, self.wanted),
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
                let kind = node.text("kind").unwrap_or_default();
                if let Some(meant) = Document::meant(kind, version, self.wanted) {
                    let at = node
                        .get("kind")
                        .map_or(line(node), |(key, _)| key.place.line);
                    let message = format!("kind: {} is no kind: write {meant}", quoted(kind));
                    return self.broken(at, message);
                }
                let kind = quoted(kind);
                tracing::debug!(file = self.file, %kind, "skipped an object that is not needed");
            }
        }
    }

    fn list(&mut self, node: &Node<'_>, kind: Option<&'static Form>, lists: usize) {
        let Value::Map(entries) = node.value() else {
            return;
        };
        // It is unknown which of two `items` is meant.
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

    /// Reports the faults of an object, at their places. `skip` are the values that could not be read, which are
    /// reported already.
    fn faults(&mut self, node: &Node<'_>, label: &str, faults: Vec<Fault>, skip: &[usize]) {
        for fault in faults {
            let at = locate(node, &fault, skip);
            if !at.is_reported {
                self.problem(at.line, label, &at.field, fault.message);
            }
        }
    }

    /// Converts the object and reports every problem; `None` when a fault refuses it.
    fn convert<W: Written, O>(
        &mut self,
        node: &Node<'_>,
        label: &str,
        convert: impl FnOnce(&W, &mut Interner) -> Converted<O>,
    ) -> Option<O> {
        let (api, type_faults) = yaml::decode::<W>(node);
        for fault in &type_faults {
            let (line, field) = node.find(fault.node);
            self.problem(line, label, &field, &*fault.message);
        }
        let unknown = W::fields().map_or_else(Vec::new, |it| it.unknown(node));
        for it in &unknown {
            self.problem(it.line, label, &it.field, &*it.message);
        }
        let mut api = api?;
        api.set_defaults();
        let converted = convert(&api, self.names);
        let skip: Vec<usize> = type_faults.iter().map(|it| it.node).collect();
        self.faults(node, label, converted.faults, &skip);
        let object = converted.object.filter(|_| type_faults.is_empty())?;
        let mut advice = api.advice();
        // `clusterIp` has been named already: no word about `clusterIP` beside it.
        let is_named = |field: &str| {
            unknown
                .iter()
                .any(|it| it.field.eq_ignore_ascii_case(field))
        };
        advice.retain(|it| !is_named(&it.field()));
        advice.truncate(MAX_ADVICE);
        self.faults(node, label, advice, &[]);
        Some(object)
    }

    /// Reads an object with this label and these versions.
    fn read<W: Written, O>(
        &mut self,
        node: &Node<'_>,
        label: &str,
        versions: Result<(), &[&str]>,
        convert: impl FnOnce(&W, &mut Interner) -> Converted<O>,
    ) -> Option<O> {
        let mut object = None;
        match versions {
            Ok(()) => object = self.convert(node, label, convert),
            Err(versions) => {
                self.problem(line(node), label, "", wrong_version(node, versions));
            }
        }
        if self.check_keys {
            for (place, field) in node.repeated_keys() {
                self.problem(place.line, label, &field, "the key is there twice");
                object = None;
            }
        }
        object
    }
}

/// Reads one object.
pub(super) fn read<K: Kind + Written>(
    reader: &mut Reader<'_>,
    node: &Node<'_>,
    is_known_version: bool,
) {
    let label = kind::reference::<K>(shown_name(node)).to_string();
    let versions = is_known_version.then_some(()).ok_or(K::VERSIONS);
    let mut object = reader.read(node, &label, versions, K::convert);
    let line = line(node);
    if object.is_none()
        && is_known_version
        && let Some((closed, what)) = key::<K>(node).and_then(|it| K::unread(it.name))
    {
        reader.problem(line, &label, "", what);
        object = Some(closed);
    }
    let manifest = &mut reader.manifest;
    if let Some(object) = object {
        let object = Object::new(object);
        if !reader.wanted.select(&object) {
            return;
        }
        let (key, origin) = (object.reference(), Origin::Itself);
        manifest.entries.push(Entry {
            key,
            object,
            line,
            origin,
        });
    } else if let Some(key) = key::<K>(node) {
        manifest.refused.push((key, line));
    } else {
        // It may be any of the objects that the file gave before.
        manifest.broken = true;
    }
}

pub(super) const ENDPOINTS_VERSIONS: &[&str] = &["v1"];

/// Reads one Endpoints object into its EndpointSlices.
pub(super) fn read_endpoints(reader: &mut Reader<'_>, node: &Node<'_>, is_known_version: bool) {
    let label = format!("Endpoints {}", shown_name(node));
    let versions = is_known_version.then_some(()).ok_or(ENDPOINTS_VERSIONS);
    let mut origin = Origin::Endpoints;
    let slices = reader.read(node, &label, versions, |api: &Endpoints, names| {
        let meta = &api.metadata;
        if meta.labels.endpoints_managed_by.is_some() || meta.annotations.trigger_time.is_some() {
            origin = Origin::ControllersEndpoints;
        }
        endpoints(api, names)
    });
    let (line, manifest) = (line(node), &mut reader.manifest);
    let Some(slices) = slices else {
        // It is unknown which slices it would be.
        manifest.broken = true;
        return;
    };
    manifest.entries.extend(slices.into_iter().map(|it| {
        let object = Object::new(it);
        Entry {
            key: object.reference(),
            object,
            line,
            origin,
        }
    }));
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

/// The name of an object as a message shows it, good or bad.
fn shown_name(node: &Node<'_>) -> NamespacedName {
    let shown = |field, default: &str| match metadata(node, field) {
        None | Some("") => default.to_owned(),
        Some(text) if displayable(text) => text.to_owned(),
        Some(text) => quoted(text),
    };
    NamespacedName::new(shown("namespace", "default"), shown("name", "(no name)"))
}

/// The key of an object that is refused, if its names at least can be trusted.
fn key<K: Kind>(node: &Node<'_>) -> Option<Reference> {
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
    is_usable.then(|| kind::reference::<K>(NamespacedName::new(namespace, name)))
}
