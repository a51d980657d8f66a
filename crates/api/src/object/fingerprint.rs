//! Whether two versions of an object say the same, without reading the older one's JSON again.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use serde_json::{Map, Value};

/// Hashes of an object without its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    /// Of what makes a new generation when it changes: all but metadata and status.
    pub(crate) contents: u64,
    rest: u64,
}

static HASHES: LazyLock<RandomState> = LazyLock::new(RandomState::new);

impl Fingerprint {
    /// `body` must not have a `resourceVersion`.
    pub(crate) fn of(body: &Map<String, Value>) -> Self {
        let (rest, contents): (Vec<_>, Vec<_>) = body
            .iter()
            .partition(|(field, _)| ["metadata", "status"].contains(&field.as_str()));
        Self {
            contents: HASHES.hash_one(contents),
            rest: HASHES.hash_one(rest),
        }
    }
}
