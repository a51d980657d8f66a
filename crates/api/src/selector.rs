//! Which objects a request is about.

mod field;
mod label;

pub use field::FieldSelector;
pub use label::LabelSelector;

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
