//! What keeps a source from starting.

use std::io;
use std::path::PathBuf;

/// Why a folder of manifests cannot be used at all.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The folder cannot be listed: it does not exist, is none, or is not ours to read.
    #[error("read manifests in {}: {error}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the kernel said.
        error: io::Error,
    },
    /// The folder cannot be watched, for instance because `fs.inotify.max_user_instances` or
    /// `max_user_watches` is used up.
    #[error("watch manifests in {}: {error}", path.display())]
    Watch {
        /// The folder.
        path: PathBuf,
        /// What the kernel said.
        error: io::Error,
    },
}
