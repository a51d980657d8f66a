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
        line.trim_start_matches("ServiceError: ")
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A body that breaks off fails in a service of ours, which is inside one of kube's.
    #[test]
    fn layers_are_not_named() {
        let inner = kube::Error::Service("it broke off".into());
        let error = kube::Error::Service(Box::new(inner));
        assert_eq!(chain(&error), "it broke off");
    }
}
