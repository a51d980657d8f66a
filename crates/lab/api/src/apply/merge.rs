//! Merges an applied configuration into an object.

use std::collections::BTreeMap;

use serde_json::Value;

use super::fields::{element, elements};
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
            let mut places = BTreeMap::new();
            for (place, item) in target.iter().enumerate() {
                if let Some(element) = element(schema, item) {
                    places.entry(element).or_insert(place);
                }
            }
            for (element, item) in elements.into_iter().zip(config) {
                let place = *places.entry(element).or_insert(target.len());
                match target.get_mut(place) {
                    Some(slot) => merge(schema.and_then(Schema::items), slot, item),
                    None => target.push(item.clone()),
                }
            }
        }
        (target, config) => target.clone_from(config),
    }
}
