//! What is wrong with a field.

/// Something that is wrong with one field of an object. Shown as users of kubectl know it:
/// `spec.replicas: Invalid value: -1: must be greater than or equal to 0`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct FieldError {
    /// The path: `spec.ports[0].nodePort`.
    pub field: String,
    /// What is wrong, and what is allowed.
    pub why: String,
}

impl FieldError {
    pub(crate) fn new(field: impl Into<String>, why: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            why: why.into(),
        }
    }
}
