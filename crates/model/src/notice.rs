//! What a source says that is about no object.

use std::sync::Arc;

/// A message of a source to a consumer of its objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The problems of one origin (a file, an object, the API server). Replaces the problems of this origin; an empty
    /// list clears them. Each problem is one line for a person.
    Problems {
        /// File name, object, or name of a watch.
        origin: Arc<str>,
        /// Every problem, with object and field.
        problems: Vec<String>,
    },
    /// The first complete list of every kind that the consumer waits for was delivered. Half a cluster would delete
    /// the other half's rules, so nothing should be applied before. Comes once.
    Synced,
}

impl Notice {
    /// The origin of problems with the connection to the API server: one line for each kind that is not up to date,
    /// with [`STALE_SINCE`](Self::STALE_SINCE).
    pub const API_SERVER: &str = "API server";

    /// The words before the time since when a kind is not up to date, in RFC 3339.
    pub const STALE_SINCE: &str = ": stale since ";
}
