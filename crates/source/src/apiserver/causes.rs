//! Errors of the client as text.

use std::error::Error;

use sluice_reconcile::chain_of;
use sluice_yaml::message;

/// An error with its causes, only the first line of each: the next lines may show the file with its
/// token.
pub(super) fn chain(error: &(dyn Error + 'static)) -> String {
    message(&chain_of(error, |text| {
        let line = text.lines().next().unwrap_or_default();
        // Links to manuals and names of layers are for developers.
        let line = line.split(": https://").next().unwrap_or_default();
        line.strip_prefix("ServiceError: ").unwrap_or(line)
    }))
}
