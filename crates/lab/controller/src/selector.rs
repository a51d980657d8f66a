//! Selectors of Services.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Service;

/// The selector of a Service; `None` for an empty one: its Endpoints are written by someone else.
pub(crate) fn of(service: &Service) -> Option<&BTreeMap<String, String>> {
    let selector = service.spec.as_ref().and_then(|it| it.selector.as_ref());
    selector.filter(|it| !it.is_empty())
}

/// One pair that every pod of a Service has.
pub(crate) fn first_pair(service: &Service) -> Option<(&String, &String)> {
    of(service).and_then(|it| it.iter().next())
}

/// Whether a Service selects pods with these labels.
pub(crate) fn selects(service: &Service, labels: Option<&BTreeMap<String, String>>) -> bool {
    of(service).is_some_and(|it| has_all(labels, it))
}

/// Whether `labels` has every pair of `wanted`.
pub(crate) fn has_all(
    labels: Option<&BTreeMap<String, String>>,
    wanted: &BTreeMap<String, String>,
) -> bool {
    let mut pairs = wanted.iter();
    pairs.all(|(key, value)| labels.is_some_and(|it| it.get(key) == Some(value)))
}
