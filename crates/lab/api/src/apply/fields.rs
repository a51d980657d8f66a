//! Sets of fields, and their form `FieldsV1` in `metadata.managedFields` (`fieldpath.Set` of structured-merge-diff).

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::is_identity;
use crate::schema::{Form, ListType, Schema, Shape};

/// One step into an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Element {
    /// `f:NAME`: a field.
    Field(String),
    /// `k:{...}`: an item of a list, by its key fields as JSON.
    Item(String),
    /// `v:...`: an item of a set, as JSON.
    Member(String),
}

pub(super) type Path = Vec<Element>;

/// A set of field paths, as a tree: large objects have many long paths with one begin. No node but the root is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields {
    /// Whether the path that leads here is in the set.
    own: bool,
    below: BTreeMap<Element, Self>,
}

impl Fields {
    /// The fields that `object` sets, but for its identity (`typed/tofieldset.go`).
    pub(super) fn of(schema: &Schema, object: &Value) -> Self {
        let mut fields = Self::below(Some(schema), object);
        fields.forget_identity();
        fields
    }

    fn here() -> Self {
        Self {
            own: true,
            below: BTreeMap::new(),
        }
    }

    fn below(schema: Option<&Schema>, value: &Value) -> Self {
        let mut fields = Self::default();
        match value {
            Value::Object(map) if !map.is_empty() && !schema.is_some_and(Schema::is_atomic) => {
                let is_map = schema.is_none_or(|it| matches!(it.shape, Shape::Map(_)));
                for (name, value) in map {
                    let schema = schema.and_then(|it| it.field(name));
                    let mut inner = Self::below(schema, value);
                    inner.own |= is_map || schema.is_none();
                    fields.put(Element::Field(name.clone()), inner);
                }
            }
            Value::Array(items) if !items.is_empty() => match elements(schema, items) {
                None => fields.own = true,
                Some(elements) => {
                    for (element, item) in elements.into_iter().zip(items) {
                        let mut inner = Self::below(schema.and_then(Schema::items), item);
                        inner.own = true;
                        fields.put(element, inner);
                    }
                }
            },
            _ => fields.own = true,
        }
        fields
    }

    fn put(&mut self, element: Element, inner: Self) {
        if !inner.is_empty() {
            self.below.insert(element, inner);
        }
    }

    /// Fields that the server writes, or that identify the object, have no manager.
    fn forget_identity(&mut self) {
        self.own = false;
        self.below.retain(|element, _| !is_identity(&[element]));
        let metadata = Element::Field("metadata".to_owned());
        if let Some(inner) = self.below.get_mut(&metadata) {
            inner.own = false;
            inner
                .below
                .retain(|element, _| !is_identity(&[&metadata, element]));
            if inner.is_empty() {
                self.below.remove(&metadata);
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.own && self.below.is_empty()
    }

    /// All paths, in their order.
    pub(super) fn paths(&self) -> Vec<Path> {
        let mut found = Vec::new();
        self.collect(&mut Vec::new(), &mut found);
        found
    }

    fn collect(&self, path: &mut Path, found: &mut Vec<Path>) {
        if self.own {
            found.push(path.clone());
        }
        for (element, inner) in &self.below {
            path.push(element.clone());
            inner.collect(path, found);
            path.pop();
        }
    }

    /// The paths that are in both sets.
    pub(super) fn shared(&self, other: &Self) -> Self {
        let mut shared = Self {
            own: self.own && other.own,
            below: BTreeMap::new(),
        };
        for (element, inner) in &self.below {
            if let Some(other) = other.below.get(element) {
                shared.put(element.clone(), inner.shared(other));
            }
        }
        shared
    }

    pub(super) fn remove(&mut self, other: &Self) {
        self.own &= !other.own;
        for (element, other) in &other.below {
            if let Some(inner) = self.below.get_mut(element) {
                inner.remove(other);
                if inner.is_empty() {
                    self.below.remove(element);
                }
            }
        }
    }

    pub(super) fn extend(&mut self, other: Self) {
        self.own |= other.own;
        for (element, inner) in other.below {
            self.below.entry(element).or_default().extend(inner);
        }
    }

    /// The paths to values of which no other set has a part.
    pub(super) fn without_parts_of(&self, others: &[&Self]) -> Self {
        if others.is_empty() {
            return self.clone();
        }
        let mut rest = Self::default();
        for (element, inner) in &self.below {
            let others: Vec<_> = others
                .iter()
                .filter_map(|it| it.below.get(element))
                .collect();
            rest.put(element.clone(), inner.without_parts_of(&others));
        }
        rest
    }

    /// Reads `fieldsV1`. Unreadable keys are ignored.
    pub(super) fn read(value: &Value) -> Self {
        let mut fields = Self::read_below(value);
        fields.own = false;
        fields
    }

    fn read_below(value: &Value) -> Self {
        let mut fields = Self::default();
        let Some(map) = value.as_object() else {
            return fields;
        };
        fields.own = map.is_empty() || map.contains_key(".");
        for (key, value) in map {
            let element = match key.split_at_checked(2) {
                Some(("f:", name)) => Element::Field(name.to_owned()),
                Some(("k:", keys)) => Element::Item(canonical(keys)),
                Some(("v:", value)) => Element::Member(canonical(value)),
                _ => continue,
            };
            fields.put(element, Self::read_below(value));
        }
        fields
    }

    pub(super) fn write(&self) -> Value {
        let mut map = Map::new();
        if self.own && !self.below.is_empty() {
            map.insert(".".to_owned(), Map::new().into());
        }
        for (element, inner) in &self.below {
            let key = match element {
                Element::Field(name) => format!("f:{name}"),
                Element::Item(keys) => format!("k:{keys}"),
                Element::Member(value) => format!("v:{value}"),
            };
            map.insert(key, inner.write());
        }
        map.into()
    }
}

/// The differences between two versions of an object, but for its identity (`typed/compare.go` of structured-merge-diff).
#[derive(Debug, Default)]
pub(super) struct Difference {
    /// Fields of the new version that the old one lacks or has with another value, maps and lists as such included.
    pub(super) changed: Fields,
    /// Fields of the old version that the new one lacks.
    pub(super) removed: Fields,
}

impl Difference {
    pub(super) fn between(schema: &Schema, old: &Value, new: &Value) -> Self {
        let mut difference = Self::default();
        if old != new {
            difference = Self::below(Some(schema), Some(old), Some(new));
        }
        difference.changed.forget_identity();
        difference.removed.forget_identity();
        difference
    }

    fn below(schema: Option<&Schema>, old: Option<&Value>, new: Option<&Value>) -> Self {
        let mut difference = Self::default();
        let children = match children(schema, old, new) {
            Some(children) => children,
            None => {
                match (old, new) {
                    (_, None) => difference.removed = Fields::here(),
                    (old, new) if old != new => difference.changed = Fields::here(),
                    _ => {}
                }
                return difference;
            }
        };
        difference.changed.own = old.is_none();
        difference.removed.own = new.is_none();
        for (element, (schema, old, new)) in children {
            if old == new {
                continue;
            }
            let inner = Self::below(schema, old, new);
            if !inner.removed.is_empty() {
                difference.removed.put(element.clone(), inner.removed);
            }
            difference.changed.put(element, inner.changed);
        }
        difference
    }
}

/// A value that two versions may have, and its type.
type Pair<'a> = (Option<&'a Schema>, Option<&'a Value>, Option<&'a Value>);

/// The fields or items of two versions of a value; `None`: it has one owner as a whole. Of items with equal keys the first
/// counts.
fn children<'a>(
    schema: Option<&'a Schema>,
    old: Option<&'a Value>,
    new: Option<&'a Value>,
) -> Option<BTreeMap<Element, Pair<'a>>> {
    let given = |it: Option<&'a Value>| it.filter(|it| !it.is_null());
    let mut children: BTreeMap<Element, Pair<'a>> = BTreeMap::new();
    match given(new).or(given(old))? {
        Value::Object(_) if !schema.is_some_and(Schema::is_atomic) => {
            let fields = |it: Option<&'a Value>| match given(it) {
                None => Some(None),
                Some(it) => it.as_object().map(Some),
            };
            for (name, value) in fields(old)?.into_iter().flatten() {
                let schema = schema.and_then(|it| it.field(name));
                children.insert(Element::Field(name.clone()), (schema, Some(value), None));
            }
            for (name, value) in fields(new)?.into_iter().flatten() {
                let schema = schema.and_then(|it| it.field(name));
                let pair = children.entry(Element::Field(name.clone()));
                pair.or_insert((schema, None, None)).2 = Some(value);
            }
        }
        Value::Array(_) => {
            let items = |it: Option<&'a Value>| match given(it) {
                None => Some(&[][..]),
                Some(it) => it.as_array().map(Vec::as_slice),
            };
            let of_item = schema.and_then(Schema::items);
            let (old, new) = (items(old)?, items(new)?);
            for (element, item) in elements(schema, old)?.into_iter().zip(old) {
                children
                    .entry(element)
                    .or_insert((of_item, Some(item), None));
            }
            for (element, item) in elements(schema, new)?.into_iter().zip(new) {
                let pair = children.entry(element).or_insert((of_item, None, None));
                pair.2 = pair.2.or(Some(item));
            }
        }
        _ => return None,
    }
    (!children.is_empty()).then_some(children)
}

/// JSON without insignificant spaces.
fn canonical(json: &str) -> String {
    let value = serde_json::from_str::<Value>(json);
    value.map_or_else(|_| json.to_owned(), |it| it.to_string())
}

/// The path element of each item of a list; `None` when the list has one owner as a whole.
pub(super) fn elements(schema: Option<&Schema>, items: &[Value]) -> Option<Vec<Element>> {
    // An empty list has no item that tells.
    if matches!(schema?.list, ListType::Atomic) {
        return None;
    }
    items.iter().map(|it| element(schema, it)).collect()
}

/// The path element of one item of a list; `None` when the list has one owner as a whole.
pub(super) fn element(schema: Option<&Schema>, item: &Value) -> Option<Element> {
    let schema = schema?;
    let keys = match &schema.list {
        ListType::Atomic => return None,
        ListType::Set => return Some(Element::Member(item.to_string())),
        ListType::Keyed(keys) => keys,
    };
    let keys = keys.iter().map(|key| {
        let value = item.get(&**key).filter(|it| !it.is_null()).cloned();
        Some((key.to_string(), value.or_else(|| default_key(schema, key))?))
    });
    let keys: Map<String, Value> = keys.collect::<Option<_>>()?;
    Some(Element::Item(Value::Object(keys).to_string()))
}

/// The value of a key that an item of a list does not give. A text that is always there in Go is empty
/// (`kube-openapi/pkg/generators`).
pub(super) fn default_key(list: &Schema, key: &str) -> Option<Value> {
    let field = list.items()?.object()?.field(key)?;
    let is_text = matches!(field.schema.shape, Shape::Text) && field.form == Form::Always;
    let default = field.schema.default.clone();
    default.or_else(|| is_text.then(|| "".into()))
}

/// Removes the values at the paths of `gone`, and the maps and lists that become empty.
pub(super) fn remove(schema: &Schema, object: &mut Value, gone: &Fields) {
    remove_below(Some(schema), object, gone);
}

fn remove_below(schema: Option<&Schema>, value: &mut Value, gone: &Fields) {
    match value {
        Value::Object(map) => {
            for (element, gone) in &gone.below {
                if let Element::Field(name) = element
                    && let Some(value) = map.get_mut(name)
                    && !stays(schema.and_then(|it| it.field(name)), value, gone)
                {
                    map.remove(name);
                }
            }
        }
        Value::Array(items) => items.retain_mut(|item| {
            let element = element(schema, item);
            let gone = element.and_then(|it| gone.below.get(&it));
            gone.is_none_or(|gone| stays(schema.and_then(Schema::items), item, gone))
        }),
        _ => {}
    }
}

/// Whether a value stays. What is below it and gone is removed.
fn stays(schema: Option<&Schema>, value: &mut Value, gone: &Fields) -> bool {
    if gone.own {
        return false;
    }
    remove_below(schema, value, gone);
    match value {
        Value::Object(map) => !map.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => true,
    }
}

/// A path as messages show it: `.spec.ports[port=80,protocol="TCP"].name`.
pub(super) fn text(path: &[Element]) -> String {
    let elements = path.iter().map(|it| match it {
        Element::Field(name) => format!(".{name}"),
        Element::Member(value) => format!("[={value}]"),
        Element::Item(keys) => {
            let keys = serde_json::from_str::<Map<String, Value>>(keys).unwrap_or_default();
            let keys = keys.iter().map(|(key, value)| format!("{key}={value}"));
            format!("[{}]", keys.collect::<Vec<_>>().join(","))
        }
    });
    elements.collect()
}
