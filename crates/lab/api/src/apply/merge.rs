//! Merges an applied configuration into an object.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::fields::{Element, element, elements};
use crate::schema::Schema;

/// Merges `config` into `target`, a value of the type `schema`.
pub(super) fn merge(schema: Option<&Schema>, target: &mut Value, config: &Value) {
    match (target, config) {
        (Value::Object(target), Value::Object(config))
            if !schema.is_some_and(Schema::is_atomic) =>
        {
            for (field, value) in config {
                match target.get_mut(field) {
                    Some(slot) => merge(schema.and_then(|it| it.field(field)), slot, value),
                    None => {
                        target.insert(field.clone(), value.clone());
                    }
                }
            }
        }
        (Value::Array(target), Value::Array(config)) => {
            let Some(elements) = elements(schema, config) else {
                target.clone_from(config);
                return;
            };
            *target = merged(schema, std::mem::take(target), &elements, config);
        }
        (target, config) => target.clone_from(config),
    }
}

/// Merges two lists whose items have keys, `wanted` those of `config` (`visitListItems` in `typed/merge.go` of
/// structured-merge-diff). The applied items come in the applied order; what stands between two of them in the object and is
/// not applied stays there. Items of the object with equal keys are replaced together.
fn merged(
    schema: Option<&Schema>,
    live: Vec<Value>,
    wanted: &[Element],
    config: &[Value],
) -> Vec<Value> {
    let keys: Vec<_> = live.iter().map(|it| element(schema, it)).collect();
    let mut live: Vec<_> = live.into_iter().map(Some).collect();
    let mut places: BTreeMap<&Element, Vec<usize>> = BTreeMap::new();
    for (place, key) in keys.iter().enumerate() {
        if let Some(key) = key {
            places.entry(key).or_default().push(place);
        }
    }
    let is_applied: BTreeSet<_> = wanted.iter().collect();
    let mut shared = wanted
        .iter()
        .filter(|it| places.contains_key(it))
        .peekable();
    let (mut out, mut done) = (Vec::new(), BTreeSet::new());
    let (mut left, mut right) = (0, 0);
    while left < live.len() || right < wanted.len() {
        let here = keys.get(left).map(Option::as_ref);
        let is_next = here
            .flatten()
            .is_some_and(|it| wanted.get(right) == Some(it));
        match here {
            // Neither applied nor met before.
            Some(key) if !key.is_some_and(|it| is_applied.contains(it)) => {
                out.extend(live[left].take());
                left += 1;
                continue;
            }
            Some(Some(key)) if !is_next => {
                let is_later = right < wanted.len() && shared.peek().is_some_and(|it| *it != key);
                if is_later || done.contains(key) {
                    left += 1;
                    if is_later {
                        continue;
                    }
                }
            }
            Some(Some(_)) => left += 1,
            _ => {}
        }
        let Some(key) = wanted.get(right) else {
            continue;
        };
        let before = match places.get(key).map(Vec::as_slice) {
            Some([one]) => live[*one].take(),
            _ => None,
        };
        out.push(match before {
            Some(mut item) => {
                merge(schema.and_then(Schema::items), &mut item, &config[right]);
                item
            }
            None => config[right].clone(),
        });
        done.insert(key);
        if shared.peek() == Some(&key) {
            shared.next();
        }
        right += 1;
    }
    out
}
