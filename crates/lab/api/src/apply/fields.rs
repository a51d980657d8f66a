//! Sets of fields, and their form `FieldsV1` in `metadata.managedFields`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::is_identity;
use crate::schema::{ListType, Schema};

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

/// A set of field paths. A path leads to a value that has one owner, or to an item of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields(BTreeSet<Path>);

impl Fields {
    /// The fields that `object` sets, but for its identity.
    pub(super) fn of(schema: &Schema, object: &Value) -> Self {
        Self(values(schema, object).into_keys().collect())
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.iter()
    }

    /// Whether a path leads to a value. The others lead to an item of a list whose fields are in the set.
    pub(super) fn is_leaf(&self, path: &Path) -> bool {
        let mut after = self.0.range(path.clone()..).filter(|it| *it != path);
        after.next().is_none_or(|it| !it.starts_with(path))
    }

    pub(super) fn without(&self, other: &Self) -> Self {
        Self(self.0.difference(&other.0).cloned().collect())
    }

    pub(super) fn contains(&self, path: &Path) -> bool {
        self.0.contains(path)
    }

    /// Whether the set has the path or one below it.
    pub(super) fn contains_below(&self, path: &Path) -> bool {
        let next = self.0.range(path.clone()..).next();
        next.is_some_and(|it| it.starts_with(path))
    }

    pub(super) fn extend(&mut self, paths: Self) {
        self.0.extend(paths.0);
    }

    pub(super) fn only(&self, keep: impl Fn(&Path) -> bool) -> Self {
        Self(self.0.iter().filter(|it| keep(it)).cloned().collect())
    }

    pub(super) fn retain(&mut self, keep: impl Fn(&Path) -> bool) {
        self.0.retain(|it| keep(it));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads `fieldsV1`. Unreadable keys are ignored.
    pub(super) fn read(value: &Value) -> Self {
        let mut fields = Self::default();
        fields.read_below(value, &mut Vec::new());
        fields
    }

    fn read_below(&mut self, value: &Value, path: &mut Path) {
        let Some(map) = value.as_object() else {
            return;
        };
        if (map.is_empty() || map.contains_key(".")) && !path.is_empty() {
            self.0.insert(path.clone());
        }
        for (key, value) in map {
            let element = match key.split_at_checked(2) {
                Some(("f:", name)) => Element::Field(name.to_owned()),
                Some(("k:", keys)) => Element::Item(canonical(keys)),
                Some(("v:", value)) => Element::Member(canonical(value)),
                _ => continue,
            };
            path.push(element);
            self.read_below(value, path);
            path.pop();
        }
    }

    pub(super) fn write(&self) -> Value {
        let mut root = Map::new();
        for path in &self.0 {
            write_path(&mut root, path, self.is_leaf(path));
        }
        root.into()
    }
}

/// The fields that `object` sets, but for its identity, each with its value. Of items with equal keys the first counts.
pub(super) fn values<'a>(schema: &Schema, object: &'a Value) -> BTreeMap<Path, &'a Value> {
    let mut values = BTreeMap::new();
    walk(Some(schema), object, &mut Vec::new(), &mut values);
    values
}

fn walk<'a>(
    schema: Option<&Schema>,
    value: &'a Value,
    path: &mut Path,
    found: &mut BTreeMap<Path, &'a Value>,
) {
    if is_identity(path) {
        return;
    }
    match value {
        Value::Object(map) if !map.is_empty() && !schema.is_some_and(Schema::is_atomic) => {
            for (field, value) in map {
                path.push(Element::Field(field.clone()));
                walk(schema.and_then(|it| it.field(field)), value, path, found);
                path.pop();
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let Some(elements) = elements(schema, items) else {
                found.insert(path.clone(), value);
                return;
            };
            for (element, item) in elements.into_iter().zip(items) {
                path.push(element);
                if !found.contains_key(path) {
                    found.insert(path.clone(), item);
                }
                if item.is_object() {
                    walk(schema.and_then(Schema::items), item, path, found);
                }
                path.pop();
            }
        }
        _ if path.is_empty() => {}
        _ => {
            found.entry(path.clone()).or_insert(value);
        }
    }
}

fn write_path(map: &mut Map<String, Value>, path: &[Element], is_leaf: bool) {
    let [element, rest @ ..] = path else {
        if !is_leaf {
            map.insert(".".to_owned(), Map::new().into());
        }
        return;
    };
    let key = match element {
        Element::Field(name) => format!("f:{name}"),
        Element::Item(keys) => format!("k:{keys}"),
        Element::Member(value) => format!("v:{value}"),
    };
    let slot = map.entry(key).or_insert_with(|| Map::new().into());
    if let Some(map) = slot.as_object_mut() {
        write_path(map, rest, is_leaf);
    }
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
        let default = || schema.items()?.field(key)?.default.as_ref();
        let value = item.get(&**key).filter(|it| !it.is_null());
        Some((key.to_string(), value.or_else(default)?.clone()))
    });
    let keys: Map<String, Value> = keys.collect::<Option<_>>()?;
    Some(Element::Item(Value::Object(keys).to_string()))
}

/// Removes the values at the paths of `gone`, and the maps and lists that become empty. One walk over the object: a
/// large list costs no more than its length.
pub(super) fn remove(schema: &Schema, object: &mut Value, gone: &Fields) {
    remove_below(Some(schema), object, &mut Vec::new(), gone);
}

fn remove_below(schema: Option<&Schema>, value: &mut Value, path: &mut Path, gone: &Fields) {
    match value {
        Value::Object(map) => map.retain(|field, value| {
            path.push(Element::Field(field.clone()));
            let schema = schema.and_then(|it| it.field(field));
            let stays = stays(schema, value, path, gone);
            path.pop();
            stays
        }),
        Value::Array(items) => items.retain_mut(|item| {
            let Some(element) = element(schema, item) else {
                return true;
            };
            path.push(element);
            let stays = stays(schema.and_then(Schema::items), item, path, gone);
            path.pop();
            stays
        }),
        _ => {}
    }
}

/// Whether the value at `path` stays. What is below it and gone is removed.
fn stays(schema: Option<&Schema>, value: &mut Value, path: &mut Path, gone: &Fields) -> bool {
    if gone.contains(path) {
        return false;
    }
    if !gone.contains_below(path) {
        return true;
    }
    remove_below(schema, value, path, gone);
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
