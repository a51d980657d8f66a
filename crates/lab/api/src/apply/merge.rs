//! Merges an applied configuration into an object.

use std::collections::BTreeMap;

use serde_json::Value;

use super::fields::{Element, element, elements};

/// Merges `config` into `target`, the value of `field` in an object of `kind`.
pub(super) fn merge(kind: &str, field: &str, target: &mut Value, config: &Value) {
    match (target, config) {
        (Value::Object(target), Value::Object(config)) => {
            for (field, value) in config {
                match target.get_mut(field) {
                    Some(slot) => merge(kind, field, slot, value),
                    None => {
                        target.insert(field.clone(), value.clone());
                    }
                }
            }
        }
        (Value::Array(target), Value::Array(config)) => {
            let path = [Element::Field(field.to_owned())];
            let Some(elements) = elements(kind, &path, config) else {
                target.clone_from(config);
                return;
            };
            let mut places = BTreeMap::new();
            for (place, item) in target.iter().enumerate() {
                if let Some(element) = element(kind, &path, item) {
                    places.entry(element).or_insert(place);
                }
            }
            for (element, item) in elements.into_iter().zip(config) {
                let place = *places.entry(element).or_insert(target.len());
                match target.get_mut(place) {
                    Some(slot) => merge(kind, "", slot, item),
                    None => target.push(item.clone()),
                }
            }
        }
        (target, config) => target.clone_from(config),
    }
}
