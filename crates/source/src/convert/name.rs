//! Checks of names, as the API server makes them: a good name can stand in a rule comment.

use super::fault::{At, Faults};
use crate::api::{AllLabels, ObjectMeta};
use sluice_model::{Labels, NamespacedName, is_label, is_label_value, is_subdomain};
use sluice_yaml::quoted;
use std::sync::Arc;

/// Checks a DNS label (RFC 1123): at most 63 of `[a-z0-9-]`, no dash at the ends.
pub(crate) fn label(text: &str) -> Result<&str, String> {
    if text.is_empty() {
        return Err("is required".to_owned());
    }
    if is_label(text) {
        return Ok(text);
    }
    Err(format!(
        "{} is not a DNS label (at most 63 of a-z, 0-9 and '-', no '-' at the ends)",
        quoted(text)
    ))
}

/// Checks a DNS subdomain (RFC 1123): labels joined by dots, at most 253 characters.
pub(crate) fn subdomain(text: &str) -> Result<&str, String> {
    if text.is_empty() {
        return Err("is required".to_owned());
    }
    if is_subdomain(text) {
        return Ok(text);
    }
    Err(format!(
        "{} is not a DNS subdomain (at most 253 of a-z, 0-9, '-' and '.')",
        quoted(text)
    ))
}

/// Checks a label value: at most 63 of `[A-Za-z0-9._-]`, the ends alphanumeric, or empty.
pub(crate) fn label_value(text: &str) -> Result<&str, String> {
    is_label_value(text).then_some(text).ok_or_else(|| {
        format!(
            "{} is not a label value (at most 63 of A-Z, a-z, 0-9, '-', '_' and '.')",
            quoted(text)
        )
    })
}

/// `metadata.labels`, as they are written: a selector never asks for one that the API server would refuse.
pub fn labels<A>(meta: &ObjectMeta<AllLabels, A>, faults: &mut Faults<'_>) -> Labels {
    let labels = meta.labels.iter();
    let labels = labels.map(|(key, value)| (&**key, value.as_deref().unwrap_or_default()));
    faults.names().labels(labels)
}

/// Whether a text can be shown as it is: any name the checks above let through.
pub(crate) fn displayable(text: &str) -> bool {
    is_subdomain(text)
}

/// Checks `metadata.name` with `check` and `metadata.namespace` (default `default`).
pub fn namespaced<L, A>(
    meta: &ObjectMeta<L, A>,
    check: fn(&str) -> Result<&str, String>,
    faults: &mut Faults<'_>,
) -> Option<NamespacedName> {
    let namespace = match meta.namespace.as_deref() {
        None | Some("") => "default",
        Some(text) => text,
    };
    let namespace = faults.text(At::top("metadata.namespace"), label(namespace));
    let name = check(meta.name.as_deref().unwrap_or_default());
    let name = faults.text(At::top("metadata.name"), name);
    Some(NamespacedName::new(namespace?, name?))
}

/// Checks `metadata.name` of a cluster-scoped object.
pub fn cluster_scoped<L, A>(meta: &ObjectMeta<L, A>, faults: &mut Faults<'_>) -> Option<Arc<str>> {
    let name = subdomain(meta.name.as_deref().unwrap_or_default());
    faults.text(At::top("metadata.name"), name)
}
