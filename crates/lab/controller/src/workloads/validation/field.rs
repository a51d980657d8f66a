//! Errors of fields, in the words of the API (`k8s.io/apimachinery/pkg/util/validation/field/errors.go`).

use std::fmt;

/// The rule for names of objects.
pub(super) const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, \
    '-' or '.', and must start and end with an alphanumeric character";

/// Something that is wrong with one field. Shown as kubectl's users know it:
/// `spec.replicas: Invalid value: -1: must be greater than or equal to 0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// The path, as `spec.template.spec.containers[0].name`.
    pub field: String,
    /// The type of the error, with the value.
    pub problem: FieldProblem,
    /// What is allowed; may be empty.
    pub detail: String,
}

/// The type of an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldProblem {
    /// The field is missing or empty.
    Required,
    /// The value is not allowed.
    Invalid(String),
    /// The value is not one of the known values.
    NotSupported(String),
    /// Another element of the list has the same value.
    Duplicate(String),
    /// The field must not be set, or not be changed.
    Forbidden,
}

impl FieldProblem {
    /// The `reason` of a cause in a `Status`.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid(_) => "FieldValueInvalid",
            Self::NotSupported(_) => "FieldValueNotSupported",
            Self::Duplicate(_) => "FieldValueDuplicate",
            Self::Forbidden => "FieldValueForbidden",
        }
    }
}

impl FieldError {
    /// The error without the field: the `message` of a cause in a `Status`.
    #[must_use]
    pub fn message(&self) -> String {
        let separator = if self.detail.is_empty() { "" } else { ": " };
        format!("{}{separator}{}", self.problem, self.detail)
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message())
    }
}

impl fmt::Display for FieldProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Required => f.write_str("Required value"),
            Self::Invalid(it) => write!(f, "Invalid value: {it}"),
            Self::NotSupported(it) => write!(f, "Unsupported value: {it}"),
            Self::Duplicate(it) => write!(f, "Duplicate value: {it}"),
            Self::Forbidden => f.write_str("Forbidden"),
        }
    }
}

/// The errors found so far.
#[derive(Debug, Default)]
pub(super) struct Problems {
    pub(super) found: Vec<FieldError>,
}

impl Problems {
    pub(super) fn required(&mut self, field: impl Into<String>, detail: &str) {
        self.push(field, FieldProblem::Required, detail);
    }

    pub(super) fn invalid(
        &mut self,
        field: impl Into<String>,
        value: impl fmt::Display,
        detail: &str,
    ) {
        self.push(field, FieldProblem::Invalid(value.to_string()), detail);
    }

    pub(super) fn duplicate(&mut self, field: impl Into<String>, value: &str) {
        let value = format!("\"{value}\"");
        self.push(field, FieldProblem::Duplicate(value), "");
    }

    pub(super) fn forbidden(&mut self, field: impl Into<String>, detail: &str) {
        self.push(field, FieldProblem::Forbidden, detail);
    }

    pub(super) fn not_negative(&mut self, field: impl Into<String>, value: Option<i32>) {
        if let Some(it) = value.filter(|it| *it < 0) {
            self.invalid(field, it, "must be greater than or equal to 0");
        }
    }

    /// Checks that a value is one of `all`. A missing value gets its default.
    pub(super) fn one_of(&mut self, field: impl Into<String>, value: Option<&str>, all: &[&str]) {
        if let Some(it) = value.filter(|it| !all.contains(it)) {
            let quoted: Vec<String> = all.iter().map(|it| format!("\"{it}\"")).collect();
            let detail = format!("supported values: {}", quoted.join(", "));
            let value = format!("\"{it}\"");
            self.push(field, FieldProblem::NotSupported(value), &detail);
        }
    }

    fn push(&mut self, field: impl Into<String>, problem: FieldProblem, detail: &str) {
        self.found.push(FieldError {
            field: field.into(),
            problem,
            detail: detail.to_owned(),
        });
    }
}
