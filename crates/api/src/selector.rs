//! Which objects a request is about.

mod field;

pub use field::FieldSelector;
use serde_json::Value;
use sluice_model::{Expression, Selector};

use crate::object::Object;

/// Everything that narrows a request down.
#[derive(Debug, Default)]
pub struct Filter {
    /// Of this namespace only.
    pub namespace: Option<String>,
    /// Of this name only.
    pub name: Option<String>,
    /// Selector of labels.
    pub labels: Selector,
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
            && self
                .labels
                .selects(|key| object.labels.get(key).map(String::as_str))
            && self.fields.matches(object)
    }

    /// Whether a selector was given: such lists carry no `remainingItemCount`.
    pub(crate) fn has_selector(&self) -> bool {
        !self.labels.is_empty() || !self.fields.is_empty()
    }
}

/// The text of a `LabelSelector` of an object, as kubectl takes it; empty for none and for one that cannot be read.
pub fn selector_text(selector: &Value) -> String {
    fn texts(of: &Value) -> impl Iterator<Item = &str> {
        of.as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
    }
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let labels = labels.map(|(key, value)| (&**key, value.as_str().unwrap_or_default()));
    let expressions = selector["matchExpressions"]
        .as_array()
        .into_iter()
        .flatten();
    let expressions = expressions.map(|it| Expression {
        key: it["key"].as_str().unwrap_or_default(),
        operator: it["operator"].as_str().unwrap_or_default(),
        values: texts(&it["values"]).collect(),
    });
    let selector = Selector::of(labels, expressions).unwrap_or_default();
    selector.as_str().to_owned()
}
