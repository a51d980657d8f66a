//! Selectors of labels.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use crate::selector::has_all;

type Labels = BTreeMap<String, String>;

/// Whether a selector asks for anything.
pub(super) fn is_empty(selector: &LabelSelector) -> bool {
    let has_labels = selector.match_labels.iter().flatten().next().is_some();
    let has_expressions = selector.match_expressions.iter().flatten().next().is_some();
    !has_labels && !has_expressions
}

/// Whether a selector of the API selects an object with these labels. An empty one selects everything
/// (`k8s.io/apimachinery/pkg/apis/meta/v1/helpers.go`).
pub(super) fn matches(selector: &LabelSelector, labels: Option<&Labels>) -> bool {
    let value = |key: &str| labels.and_then(|it| it.get(key)).map(String::as_str);
    let mut expressions = selector.match_expressions.iter().flatten();
    let pairs = selector.match_labels.as_ref();
    pairs.is_none_or(|it| has_all(labels, it)) && expressions.all(|it| meets(it, value(&it.key)))
}

/// Whether the selector of a controller selects an object: an empty one selects nothing.
pub(super) fn claims(selector: &LabelSelector, labels: Option<&Labels>) -> bool {
    !is_empty(selector) && matches(selector, labels)
}

fn meets(requirement: &LabelSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let is_among = |it: &str| values.iter().any(|wanted| wanted == it);
    match requirement.operator.as_str() {
        "In" => value.is_some_and(is_among),
        "NotIn" => !value.is_some_and(is_among),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        _ => false,
    }
}
