//! Compares two versions of an object without reading the JSON of the older one.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use serde_json::{Map, Value};

/// Hashes of an object without its `resourceVersion`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    /// The hash of all but metadata and status: the generation grows when it changes.
    pub(crate) contents: u64,
    rest: u64,
}

static HASHES: LazyLock<RandomState> = LazyLock::new(RandomState::new);

impl Fingerprint {
    /// `body` has no `resourceVersion`.
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
