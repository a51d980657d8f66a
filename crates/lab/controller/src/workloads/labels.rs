//! Label selectors.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use sluice_model::{Expression, Selector};

type Labels = BTreeMap<String, String>;

/// Whether a selector is empty.
pub(super) fn is_empty(selector: &LabelSelector) -> bool {
    let has_labels = selector.match_labels.iter().flatten().next().is_some();
    let has_expressions = selector.match_expressions.iter().flatten().next().is_some();
    !has_labels && !has_expressions
}

/// Whether a selector matches these labels. The empty selector matches everything
/// (`k8s.io/apimachinery/pkg/apis/meta/v1/helpers.go`), an invalid one nothing.
pub(super) fn matches(selector: &LabelSelector, labels: Option<&Labels>) -> bool {
    let pairs = selector.match_labels.iter().flatten();
    let pairs = pairs.map(|(key, value)| (&**key, &**value));
    let expressions = selector.match_expressions.iter().flatten();
    let expressions = expressions.map(|it| Expression {
        key: &it.key,
        operator: &it.operator,
        values: it.values.iter().flatten().map(String::as_str).collect(),
    });
    let value = |key: &str| labels.and_then(|it| it.get(key)).map(String::as_str);
    Selector::of(pairs, expressions).is_ok_and(|it| it.selects(value))
}

/// Whether a controller's selector matches these labels. Here the empty selector matches nothing.
pub(super) fn claims(selector: &LabelSelector, labels: Option<&Labels>) -> bool {
    !is_empty(selector) && matches(selector, labels)
}
