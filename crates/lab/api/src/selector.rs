//! The objects that a list or watch selects.

mod field;

pub use field::FieldSelector;
use serde_json::Value;
use sluice_model::{Expression, Selector};

use crate::object::Object;

/// Namespace, name and selectors of a list or watch.
#[derive(Debug, Default)]
pub struct Filter {
    /// Only objects of this namespace.
    pub namespace: Option<String>,
    /// Only the object of this name.
    pub name: Option<String>,
    pub labels: Selector,
    pub fields: FieldSelector,
}

impl Filter {
    pub fn matches(&self, object: &Object) -> bool {
        let is =
            |wanted: &Option<String>, real: &str| wanted.as_deref().is_none_or(|it| it == real);
        is(&self.namespace, &object.key.namespace)
            && is(&self.name, &object.key.name)
            && self
                .labels
                .selects(|key| object.labels.get(key).map(|it| &**it))
            && self.fields.matches(object)
    }

    /// Whether there is a label or field selector: such lists have no `remainingItemCount`.
    pub(crate) fn has_selector(&self) -> bool {
        !self.labels.is_empty() || !self.fields.is_empty()
    }
}

/// The text of a `LabelSelector`, as kubectl's `-l` takes it; empty for no selector and for an
/// invalid one.
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
