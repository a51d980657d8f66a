//! Label selectors.

use sluice_model::Selector;

use super::quoted;

/// Reads a selector as `kubectl get -l` does. One that selects everything is a mistake.
pub(crate) fn selector(text: &str) -> Result<Selector, String> {
    let selector = if text.trim().is_empty() {
        Err("\"\" is no key of a label".to_owned())
    } else {
        Selector::parse(text).map_err(|it| it.why)
    };
    selector.map_err(|why| format!("label selector {}: {why}", quoted(text)))
}
