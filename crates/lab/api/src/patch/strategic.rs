//! Strategic merge patch (`apimachinery/pkg/util/strategicpatch/patch.go`).

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::lists::{ListType, list_type};
use crate::status::Status;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const ORDER: &str = "$setElementOrder/";
const DELETE_PRIMITIVES: &str = "$deleteFromPrimitiveList/";

/// Merges `patch` into an object of `kind`.
///
/// # Errors
///
/// An item lacks its key, or a directive cannot be read.
pub(super) fn merge(kind: &str, object: &mut Value, patch: Value) -> Result<(), Status> {
    match patch {
        Value::Object(patch) => merge_map(kind, object, patch),
        other => {
            *object = other;
            Ok(())
        }
    }
}

fn merge_map(kind: &str, target: &mut Value, mut patch: Map<String, Value>) -> Result<(), Status> {
    match patch.remove(DIRECTIVE).as_ref().map(Value::as_str) {
        None | Some(Some("merge")) => {}
        Some(Some("replace")) => *target = Map::new().into(),
        Some(Some("delete")) => {
            *target = Map::new().into();
            return Ok(());
        }
        Some(_) => return Err(Status::bad_request("unknown patch directive in $patch")),
    }
    if !target.is_object() {
        *target = Map::new().into();
    }
    let Some(target) = target.as_object_mut() else {
        return Ok(());
    };
    if let Some(keys) = patch.remove(RETAIN_KEYS) {
        let keys = list(RETAIN_KEYS, keys)?;
        target.retain(|field, _| keys.iter().any(|it| it == field.as_str()));
    }
    let (directives, fields): (Map<_, _>, Map<_, _>) = patch
        .into_iter()
        .partition(|(field, _)| field.starts_with('$'));
    for (directive, value) in &directives {
        if let Some(field) = directive.strip_prefix(DELETE_PRIMITIVES) {
            let gone = list(directive, value.clone())?;
            if let Some(items) = target.get_mut(field).and_then(Value::as_array_mut) {
                items.retain(|it| !gone.contains(it));
            }
        } else if !directive.starts_with(ORDER) {
            return Err(Status::bad_request(format!(
                "unknown patch directive {directive}"
            )));
        }
    }
    for (field, value) in fields {
        match value {
            Value::Null => {
                target.remove(&field);
            }
            Value::Object(patch) => {
                let is_new = !target.contains_key(&field);
                let is_deletion = patch.get(DIRECTIVE).is_some_and(|it| it == "delete");
                let slot = target.entry(field.clone()).or_insert(Value::Null);
                merge_map(kind, slot, patch)?;
                if is_new && is_deletion {
                    target.remove(&field);
                }
            }
            Value::Array(patch) => {
                let slot = target
                    .entry(field.clone())
                    .or_insert_with(|| Value::Array(Vec::new()));
                merge_list(kind, &field, slot, patch)?;
            }
            value => {
                target.insert(field, value);
            }
        }
    }
    for (directive, order) in directives {
        if let Some(field) = directive.strip_prefix(ORDER)
            && let Some(items) = target.get_mut(field).and_then(Value::as_array_mut)
        {
            arrange(list_type(kind, field), items, &list(&directive, order)?);
        }
    }
    Ok(())
}

fn merge_list(
    kind: &str,
    field: &str,
    target: &mut Value,
    mut patch: Vec<Value>,
) -> Result<(), Status> {
    let has = |item: &Value, directive: &str| item.get(DIRECTIVE).is_some_and(|it| it == directive);
    let replaces = patch.iter().any(|it| has(it, "replace"));
    let Value::Array(items) = target else {
        *target = clean(kind, patch)?.into();
        return Ok(());
    };
    let key = match list_type(kind, field) {
        _ if replaces => {
            patch.retain(|it| !has(it, "replace"));
            *items = clean(kind, patch)?;
            return Ok(());
        }
        ListType::Atomic => {
            *items = clean(kind, patch)?;
            return Ok(());
        }
        ListType::Set => {
            for item in patch {
                if !items.contains(&item) {
                    items.push(item);
                }
            }
            return Ok(());
        }
        ListType::Keyed(keys) => keys[0],
    };
    let mut merged: Vec<Option<Value>> = std::mem::take(items).into_iter().map(Some).collect();
    let mut places: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (place, item) in merged.iter().flatten().enumerate() {
        if let Some(value) = item.get(key) {
            places.entry(value.to_string()).or_default().push(place);
        }
    }
    for item in patch {
        let Some(wanted) = item.get(key).map(Value::to_string) else {
            let message = format!("an item of {field} does not contain its merge key {key}");
            return Err(Status::bad_request(message));
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
            merge(kind, slot, item)?;
        }
    }
    items.extend(merged.into_iter().flatten());
    Ok(())
}

/// The items without directives and nulls.
fn clean(kind: &str, items: Vec<Value>) -> Result<Vec<Value>, Status> {
    let clean = items.into_iter().map(|item| {
        let mut new = Value::Null;
        merge(kind, &mut new, item)?;
        Ok(new)
    });
    clean.collect()
}

/// Sorts the items that `order` names in that order. Each other item stays before the item that
/// followed it.
fn arrange(list_type: ListType, items: &mut Vec<Value>, order: &[Value]) {
    let key = |item: &Value| match list_type {
        ListType::Keyed(keys) => item.get(keys[0]).map(Value::to_string),
        _ => Some(item.to_string()),
    };
    let mut ranks = BTreeMap::new();
    for (rank, item) in order.iter().enumerate() {
        ranks.entry(key(item)).or_insert(rank);
    }
    let rank = |item: &Value| ranks.get(&key(item)).copied();
    let mut named = Vec::new();
    let mut others = Vec::new();
    for (place, item) in items.drain(..).enumerate() {
        match rank(&item) {
            Some(rank) => named.push((rank, place, item)),
            None => others.push((place, item)),
        }
    }
    named.sort_by_key(|(rank, ..)| *rank);
    let mut others = others.into_iter().peekable();
    for (_, place, item) in named {
        while let Some((_, other)) = others.next_if(|(at, _)| *at < place) {
            items.push(other);
        }
        items.push(item);
    }
    items.extend(others.map(|(_, item)| item));
}

fn list(directive: &str, value: Value) -> Result<Vec<Value>, Status> {
    match value {
        Value::Array(items) => Ok(items),
        _ => Err(Status::bad_request(format!("{directive} is no list"))),
    }
}
