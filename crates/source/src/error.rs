//! The errors that keep a source from starting.

use std::io;
use std::path::PathBuf;

/// Why a source cannot be used at all.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The folder cannot be listed: it does not exist, is not a folder, or we may not read it.
    #[error("read manifests in {}: {error}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The kernel's error.
        error: io::Error,
    },
    /// The folder cannot be watched, for instance because `fs.inotify.max_user_instances` or
    /// `max_user_watches` is used up.
    #[error("watch manifests in {}: {error}", path.display())]
    Watch {
        /// The folder.
        path: PathBuf,
        /// The kernel's error.
        error: io::Error,
    },
    /// The way to the API server cannot be used: a kubeconfig, the pod's service account, an
    /// address.
    #[error("{what}: {error}")]
    Access {
        /// The file or address that cannot be used.
        what: String,
        /// The reason.
        error: String,
    },
    /// The API server cannot be followed: the machine has no thread or timer left.
    #[error("follow the API server: {0}")]
    Follow(io::Error),
}
