//! Which objects a request is about.

mod field;
mod label;

pub use field::FieldSelector;
pub use label::LabelSelector;
use serde_json::Value;

use crate::object::Object;

/// Everything that narrows a request down.
#[derive(Debug, Default)]
pub struct Filter {
    /// Of this namespace only.
    pub namespace: Option<String>,
    /// Of this name only.
    pub name: Option<String>,
    /// Selector of labels.
    pub labels: LabelSelector,
    /// Selector of fields.
    pub fields: FieldSelector,
}

impl Filter {
    /// Whether `object` is asked for.
    pub fn matches(&self, object: &Object) -> bool {
        let is =
            |wanted: &Option<String>, real: &str| wanted.as_deref().is_none_or(|it| it == real);
        is(&self.namespace, &object.key.namespace)
            && is(&self.name, &object.key.name)
            && self.labels.matches(&object.labels)
            && self.fields.matches(object)
    }

    /// Whether a selector was given: such lists carry no `remainingItemCount`.
    pub(crate) fn has_selector(&self) -> bool {
        !self.labels.is_empty() || !self.fields.is_empty()
    }
}

/// The text of a `LabelSelector` of an object, as kubectl takes it; empty for none.
pub(crate) fn text(selector: &Value) -> String {
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let equal = labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
    let expressions = selector["matchExpressions"]
        .as_array()
        .into_iter()
        .flatten();
    let expressions = expressions.map(|it| {
        let key = it["key"].as_str().unwrap_or_default();
        let values = it["values"].as_array().into_iter().flatten();
        let values: Vec<_> = values.filter_map(Value::as_str).collect();
        let values = values.join(",");
        match it["operator"].as_str() {
            Some("In") => format!("{key} in ({values})"),
            Some("NotIn") => format!("{key} notin ({values})"),
            Some("DoesNotExist") => format!("!{key}"),
            _ => key.to_owned(),
        }
    });
    equal.chain(expressions).collect::<Vec<_>>().join(",")
}
