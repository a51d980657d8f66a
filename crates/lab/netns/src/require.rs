//! Skips tests where namespaces cannot be created; with `CI` set they fail instead.

use std::{env, sync::OnceLock};

use crate::{LabError, Netns, sweep};

/// Ends the test with `SKIP: <reason>` where namespaces cannot be created; fails it when `CI` is set.
///
/// ```no_run
/// # use sluice_lab::require_netns;
/// # fn pods_reach_each_other() {
/// require_netns!();
/// // … build a cluster, probe, assert …
/// # }
/// ```
#[macro_export]
macro_rules! require_netns {
    () => {
        if !$crate::netns_available() {
            return;
        }
    };
}

/// Whether this process can create namespaces; prints the reason to stderr if not.
///
/// The first call of a process sweeps the namespaces of ended processes and then creates one.
///
/// # Panics
/// When it cannot and `CI` is set: in CI a skipped test must not look like a passed one.
pub fn netns_available() -> bool {
    static REASON: OnceLock<Option<String>> = OnceLock::new();
    let reason = REASON.get_or_init(|| {
        sweep()
            .errors
            .iter()
            .for_each(|error| eprintln!("lab: sweep: {error}"));
        attempt().err().map(|error| error.to_string())
    });
    match reason {
        None => true,
        Some(reason) if env::var_os("CI").is_none() => {
            eprintln!("SKIP: needs network namespaces: {reason}");
            false
        }
        Some(reason) => panic!("CI must run the tests that need network namespaces: {reason}"),
    }
}

fn attempt() -> Result<(), LabError> {
    Netns::new("attempt")?.enter().map(drop)
}
