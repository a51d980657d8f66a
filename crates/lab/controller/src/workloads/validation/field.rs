//! Errors of fields, in the words of the API (`k8s.io/apimachinery/pkg/util/validation/field/errors.go`).

use std::fmt;

use crate::FieldError;

/// The rule for names of objects.
pub(super) const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, \
    '-' or '.', and must start and end with an alphanumeric character";

/// The errors found so far.
#[derive(Debug, Default)]
pub(super) struct Problems {
    pub(super) found: Vec<FieldError>,
}

impl Problems {
    pub(super) fn required(&mut self, field: impl Into<String>, detail: &str) {
        self.push(field, "Required value", detail);
    }

    pub(super) fn invalid(
        &mut self,
        field: impl Into<String>,
        value: impl fmt::Display,
        detail: &str,
    ) {
        self.push(field, &format!("Invalid value: {value}"), detail);
    }

    pub(super) fn duplicate(&mut self, field: impl Into<String>, value: &str) {
        self.push(field, &format!("Duplicate value: \"{value}\""), "");
    }

    pub(super) fn forbidden(&mut self, field: impl Into<String>, detail: &str) {
        self.push(field, "Forbidden", detail);
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
            self.push(field, &format!("Unsupported value: \"{it}\""), &detail);
        }
    }

    fn push(&mut self, field: impl Into<String>, problem: &str, detail: &str) {
        let separator = if detail.is_empty() { "" } else { ": " };
        let why = format!("{problem}{separator}{detail}");
        self.found.push(FieldError::new(field, why));
    }
}
