//! The objects of a delta that the kernel refused.

use std::collections::BTreeMap;

use sluice_netlink::{Failure, RequestError};
use sluice_reconcile::BackendError;

use crate::object::Key;

/// How many objects an error names; the next sync finds the others.
const SHOWN: usize = 3;

/// Refused objects, with the kernel's reasons.
#[derive(Debug, Default)]
pub(super) struct Refused(BTreeMap<Key, String>);

impl Refused {
    /// Adds failures of changes. `keys` are the objects of all these changes, in their order.
    pub(super) fn add(&mut self, keys: &[Key], failures: &[Failure]) {
        let reason = |error: &RequestError| format!("kernel said: {}", error.reason());
        let named = failures.iter().filter_map(|Failure { index, error }| {
            let key = keys.get(*index)?;
            Some((key.clone(), reason(error)))
        });
        self.0.extend(named);
    }

    pub(super) fn contains(&self, key: &Key) -> bool {
        self.0.contains_key(key)
    }

    /// # Errors
    ///
    /// The kernel refused an object.
    pub(super) fn into_result(self) -> Result<(), BackendError> {
        let named = self.0.iter().take(SHOWN);
        let named: Vec<String> = named
            .map(|(key, reason)| format!("{key}: {reason}"))
            .collect();
        let more = match self.0.len() {
            0 => return Ok(()),
            count if count > SHOWN => format!("; and {} more", count - SHOWN),
            _ => String::new(),
        };
        Err(BackendError {
            operation: "write virtual servers, ipsets and addresses".into(),
            reason: named.join("; ") + &more,
            source: None,
        })
    }
}

/// The error of an object that another program deleted, and that a delta depends on.
pub(super) fn missing(key: &Key) -> BackendError {
    BackendError {
        operation: format!("write {key}"),
        reason: "it does not exist any more".into(),
        source: None,
    }
}
