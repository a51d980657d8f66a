//! What a container sees of its own, as data.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What a container sees of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub mounts: Vec<Mount>,
    /// Names and values of its environment.
    pub variables: Vec<(String, String)>,
    #[serde(default)]
    pub confined: Option<Confined>,
}

/// A folder or file that a container sees at another place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    pub source: PathBuf,
    /// The path in the container.
    pub target: PathBuf,
    pub read_only: bool,
}

/// What a container has instead of the machine's own, and as whom it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confined {
    pub user: u32,
    pub group: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// The capabilities that its programs may get, as Kubernetes writes them: `NET_RAW`; `None` for all that its user
    /// namespace has.
    pub capabilities: Option<Vec<String>>,
    pub no_new_privileges: bool,
    pub read_only: bool,
    /// Where its programs start; made if it is missing.
    pub directory: Option<PathBuf>,
    /// The text of `/etc/hosts`.
    pub hosts: String,
    /// What is mounted for the last words of the container, and where.
    pub termination_log: Option<(PathBuf, PathBuf)>,
}
