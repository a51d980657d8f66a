//! What is wrong with a field, in the words of the API (`k8s.io/apimachinery/pkg/util/validation/field/errors.go`).

use std::fmt;

use crate::Format;

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

/// The errors found so far.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    pub(crate) found: Vec<FieldError>,
}

impl Problems {
    pub(crate) fn required(&mut self, field: impl Into<String>, detail: &str) {
        self.push(field, "Required value", detail);
    }

    pub(crate) fn invalid(
        &mut self,
        field: impl Into<String>,
        value: impl fmt::Display,
        detail: &str,
    ) {
        self.push(field, &format!("Invalid value: {value}"), detail);
    }

    /// Checks what a text looks like.
    pub(crate) fn format(&mut self, field: impl Into<String>, text: &str, format: Format) {
        let field = field.into();
        for why in format.problems(text) {
            self.invalid(&*field, format!("{text:?}"), &why);
        }
    }

    pub(crate) fn duplicate(&mut self, field: impl Into<String>, value: &str) {
        self.duplicate_of(field, format!("\"{value}\""));
    }

    /// As [`duplicate`](Self::duplicate), for a value in JSON.
    pub(crate) fn duplicate_of(&mut self, field: impl Into<String>, value: impl fmt::Display) {
        self.push(field, &format!("Duplicate value: {value}"), "");
    }

    pub(crate) fn forbidden(&mut self, field: impl Into<String>, detail: &str) {
        self.push(field, "Forbidden", detail);
    }

    pub(crate) fn too_many(&mut self, field: impl Into<String>, count: usize, most: usize) {
        let detail = format!("must have at most {most} items");
        self.push(field, &format!("Too many: {count}"), &detail);
    }

    pub(crate) fn not_negative(&mut self, field: impl Into<String>, value: Option<i32>) {
        if let Some(it) = value.filter(|it| *it < 0) {
            self.invalid(field, it, "must be greater than or equal to 0");
        }
    }

    /// Checks the number of a port.
    pub(crate) fn port(&mut self, field: impl Into<String>, number: i32) {
        if !(1..=65_535).contains(&number) {
            self.invalid(field, number, "must be between 1 and 65535, inclusive");
        }
    }

    /// Checks that a value is one of `all`. A missing value gets its default.
    pub(crate) fn one_of(&mut self, field: impl Into<String>, value: Option<&str>, all: &[&str]) {
        if let Some(it) = value.filter(|it| !all.contains(it)) {
            let quoted: Vec<String> = all.iter().map(|it| format!("\"{it}\"")).collect();
            let detail = format!("supported values: {}", quoted.join(", "));
            self.push(field, &format!("Unsupported value: \"{it}\""), &detail);
        }
    }

    fn push(&mut self, field: impl Into<String>, problem: &str, detail: &str) {
        let separator = if detail.is_empty() { "" } else { ": " };
        let why = format!("{problem}{separator}{detail}");
        self.found.push(FieldError::new(field, why));
    }
}
