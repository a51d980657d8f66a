//! Merges an applied configuration into an object.

use serde_json::Value;

use super::fields::{Element, elements, is_item};

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
            for (element, item) in elements.iter().zip(config) {
                match target.iter_mut().find(|it| is_item(element, it)) {
                    Some(slot) => merge(kind, "", slot, item),
                    None => target.push(item.clone()),
                }
            }
        }
        (target, config) => target.clone_from(config),
    }
}
