//! Strategic merge patch (`apimachinery/pkg/util/strategicpatch/patch.go`).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::go;
use crate::schema::{Patch, Schema};
use crate::status::Status;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const ORDER: &str = "$setElementOrder/";
const DELETE_PRIMITIVES: &str = "$deleteFromPrimitiveList/";

/// Merges `patch` into a value of the type `schema`; a value without a type has no keys.
///
/// # Errors
///
/// An item lacks its key, or a directive cannot be read.
pub(super) fn merge(
    schema: Option<&Schema>,
    object: &mut Value,
    patch: Value,
) -> Result<(), Status> {
    match patch {
        Value::Object(patch) => merge_map(schema, object, patch),
        other => {
            *object = other;
            Ok(())
        }
    }
}

fn merge_map(
    schema: Option<&Schema>,
    target: &mut Value,
    mut patch: Map<String, Value>,
) -> Result<(), Status> {
    let directive = patch.get(DIRECTIVE).cloned();
    match directive.as_ref().map(Value::as_str) {
        None | Some(Some("merge")) => {}
        Some(Some("replace")) => *target = Map::new().into(),
        Some(Some("delete")) => {
            *target = Map::new().into();
            return Ok(());
        }
        Some(_) => {
            let given = directive.as_ref().map(go).unwrap_or_default();
            let map = go(&patch.into());
            return Err(broken(format!("unknown patch type: {given} in map: {map}")));
        }
    }
    patch.remove(DIRECTIVE);
    if !target.is_object() {
        *target = Map::new().into();
    }
    let Some(target) = target.as_object_mut() else {
        return Ok(());
    };
    if let Some(keys) = patch.remove(RETAIN_KEYS) {
        let keys = list(RETAIN_KEYS, keys)?;
        let keys: BTreeSet<_> = keys.iter().filter_map(Value::as_str).collect();
        target.retain(|field, _| keys.contains(field.as_str()));
    }
    let (directives, fields): (Map<_, _>, Map<_, _>) = patch
        .into_iter()
        .partition(|(field, _)| field.starts_with('$'));
    for (directive, value) in &directives {
        if let Some(field) = directive.strip_prefix(DELETE_PRIMITIVES) {
            let gone = ranks(None, &list(directive, value.clone())?);
            if let Some(items) = target.get_mut(field).and_then(Value::as_array_mut) {
                items.retain(|it| !gone.contains_key(&identity(None, it)));
            }
        } else if !directive.starts_with(ORDER) {
            return Err(Status::bad_request(format!(
                "unknown patch directive {directive}"
            )));
        }
    }
    let merged: BTreeSet<String> = fields.keys().cloned().collect();
    for (field, value) in fields {
        match value {
            Value::Null => {
                target.remove(&field);
            }
            Value::Object(patch) => {
                let is_new = !target.contains_key(&field);
                let is_deletion = patch.get(DIRECTIVE).is_some_and(|it| it == "delete");
                let slot = target.entry(field.clone()).or_insert(Value::Null);
                let schema = schema.and_then(|it| it.field(&field));
                if schema.is_some_and(|it| it.patch.replaces) {
                    *slot = Value::Null;
                }
                merge_map(schema, slot, patch)?;
                if is_new && is_deletion {
                    target.remove(&field);
                }
            }
            Value::Array(patch) => {
                let slot = target
                    .entry(field.clone())
                    .or_insert_with(|| Value::Array(Vec::new()));
                let schema = schema.and_then(|it| it.field(&field));
                let order = directives.get(&format!("{ORDER}{field}")).cloned();
                let order = order.map(|it| list(ORDER, it)).transpose()?;
                merge_list(schema, slot, patch, order.as_deref())?;
            }
            value => {
                target.insert(field, value);
            }
        }
    }
    for (directive, order) in directives {
        if let Some(field) = directive.strip_prefix(ORDER)
            && !merged.contains(field)
            && let Some(items) = target.get_mut(field).and_then(Value::as_array_mut)
        {
            let patch = schema.and_then(|it| it.field(field)).map(|it| &it.patch);
            let key = patch.and_then(|it| it.key.as_deref());
            let (order, before) = (list(&directive, order)?, ranks(key, items));
            arrange(key, items, &ranks(key, &order), &before);
        }
    }
    Ok(())
}

fn has(item: &Value, directive: &str) -> bool {
    item.get(DIRECTIVE).is_some_and(|it| it == directive)
}

fn merge_list(
    schema: Option<&Schema>,
    target: &mut Value,
    mut patch: Vec<Value>,
    order: Option<&[Value]>,
) -> Result<(), Status> {
    if let Some(order) = order {
        let key = schema.and_then(|it| it.patch.key.as_deref());
        follows(key, &patch, order)?;
    }
    let replaces = patch.iter().any(|it| has(it, "replace"));
    let item_schema = schema.and_then(Schema::items);
    patch.retain(|it| !has(it, "replace"));
    let (key, items) = match (schema.map(|it| &it.patch), target) {
        (Some(Patch { key: Some(key), .. }), Value::Array(items)) if !replaces => (&**key, items),
        (Some(Patch { merges: true, .. }), Value::Array(items)) if !replaces => {
            let (order, before) = (ranks(None, order.unwrap_or(&patch)), ranks(None, items));
            let mut known: BTreeSet<_> = before.keys().cloned().collect();
            items.extend(
                patch
                    .into_iter()
                    .filter(|it| known.insert(identity(None, it))),
            );
            arrange(None, items, &order, &before);
            return Ok(());
        }
        (_, target) => {
            *target = clean(item_schema, patch)?.into();
            return Ok(());
        }
    };
    let key_of = Some(key);
    let (order, before) = (ranks(key_of, order.unwrap_or(&patch)), ranks(key_of, items));
    let mut merged: Vec<Option<Value>> = std::mem::take(items).into_iter().map(Some).collect();
    let mut places: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (place, item) in merged.iter().flatten().enumerate() {
        if let Some(value) = item.get(key) {
            places.entry(value.to_string()).or_default().push(place);
        }
    }
    for item in patch {
        let Some(wanted) = item.get(key).map(Value::to_string) else {
            let map = go(&item);
            return Err(broken(format!(
                "map: {map} does not contain declared merge key: {key}"
            )));
        };
        if has(&item, "delete") {
            for place in places.remove(&wanted).unwrap_or_default() {
                merged[place] = None;
            }
            continue;
        }
        let same = places.entry(wanted).or_insert_with(|| vec![merged.len()]);
        if merged.len() == same[0] {
            merged.push(Some(Value::Null));
        }
        if let Some(slot) = &mut merged[same[0]] {
            merge(item_schema, slot, item)?;
        }
    }
    items.extend(merged.into_iter().flatten());
    arrange(key_of, items, &order, &before);
    Ok(())
}

/// Refuses items of a patch that the directive about their order does not name, or names in another order; items that the
/// patch deletes are not asked for (`validatePatchWithSetOrderList`).
fn follows(key: Option<&str>, patch: &[Value], order: &[Value]) -> Result<(), Status> {
    let mut rest = order.iter().map(|it| identity(key, it));
    let mut stay = patch.iter().filter(|it| !has(it, "delete"));
    if order.is_empty() || stay.all(|it| rest.any(|named| named == identity(key, it))) {
        return Ok(());
    }
    let of = |items: &[Value]| go(&items.into());
    let (patch, order) = (of(patch), of(order));
    Err(broken(format!(
        "The order in patch list:\n{patch}\n doesn't match $setElementOrder list:\n{order}\n"
    )))
}

/// The items without directives and nulls.
fn clean(schema: Option<&Schema>, items: Vec<Value>) -> Result<Vec<Value>, Status> {
    let clean = items.into_iter().map(|item| {
        let mut new = Value::Null;
        merge(schema, &mut new, item)?;
        Ok(new)
    });
    clean.collect()
}

/// The places of items in a list, by their keys.
type Ranks = BTreeMap<Option<String>, usize>;

/// What identifies an item of a list.
fn identity(key: Option<&str>, item: &Value) -> Option<String> {
    match key {
        Some(key) => item.get(key).map(Value::to_string),
        None => Some(item.to_string()),
    }
}

fn ranks(key: Option<&str>, items: &[Value]) -> Ranks {
    let mut ranks = Ranks::new();
    for (rank, item) in items.iter().enumerate() {
        ranks.entry(identity(key, item)).or_insert(rank);
    }
    ranks
}

/// Sorts the items that `order` names in that order: that of the directive, or else that of the patch. Each other item
/// stays before those that followed it in the list as it was, `before`, so a new item comes first
/// (`normalizeElementOrder`).
fn arrange(key: Option<&str>, items: &mut Vec<Value>, order: &Ranks, before: &Ranks) {
    let rank = |ranks: &Ranks, item: &Value| ranks.get(&identity(key, item)).copied();
    let all = std::mem::take(items).into_iter();
    let (mut named, others): (Vec<_>, Vec<_>) = all.partition(|it| rank(order, it).is_some());
    named.sort_by_cached_key(|it| rank(order, it));
    let mut others = others.into_iter().peekable();
    for item in named {
        let place = rank(before, &item);
        while let Some(other) = others.next_if(|it| {
            let other = rank(before, it);
            other.is_some() && other < place
        }) {
            items.push(other);
        }
        items.push(item);
    }
    items.extend(others);
}

fn list(directive: &str, value: Value) -> Result<Vec<Value>, Status> {
    match value {
        Value::Array(items) => Ok(items),
        _ => {
            let what = if directive == RETAIN_KEYS {
                "retainKeys"
            } else if directive.starts_with(ORDER) {
                "setElementOrder list"
            } else {
                "primitive list"
            };
            Err(Status::bad_request(format!(
                "invalid patch format of {what}"
            )))
        }
    }
}

/// 500, which is what kube-apiserver makes of these errors (`interpretStrategicMergePatchError` in `handlers/patch.go`).
fn broken(message: String) -> Status {
    Status::failed(message)
}
