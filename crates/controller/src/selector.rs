//! Selectors of Services.

use std::collections::BTreeMap;

/// Whether a Service's selector matches these labels. A Service without selector matches nothing: its endpoints are
/// written by somebody else.
pub(crate) fn matches(
    selector: Option<&BTreeMap<String, String>>,
    labels: Option<&BTreeMap<String, String>>,
) -> bool {
    let Some(selector) = selector.filter(|it| !it.is_empty()) else {
        return false;
    };
    let has = |(key, value)| labels.is_some_and(|it| it.get(key) == Some(value));
    selector.iter().all(has)
}
