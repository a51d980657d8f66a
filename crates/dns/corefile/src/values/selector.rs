//! Label selectors.

use sluice_model::{Requirement, Selector};

use super::quoted;

/// Reads a selector as `kubectl get -l` does. One that selects everything is a mistake, and CoreDNS compares no
/// numbers (`ParseToLabelSelector`).
pub(crate) fn selector(text: &str) -> Result<Selector, String> {
    let read = if text.trim().is_empty() {
        Err("it selects everything".to_owned())
    } else {
        Selector::parse(text)
    };
    let read = read.and_then(
        |it| match it.requirements().iter().find(|it| is_number(it)) {
            Some(it) => Err(format!("{it} compares numbers, which this plugin does not")),
            None => Ok(it),
        },
    );
    read.map_err(|why| format!("label selector {}: {why}", quoted(text)))
}

fn is_number(requirement: &Requirement) -> bool {
    matches!(requirement, Requirement::Above(..) | Requirement::Below(..))
}
