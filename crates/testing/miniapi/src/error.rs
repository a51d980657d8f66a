//! What can go wrong in the hands of a test.

use std::io;
use std::net::SocketAddr;

use sluice_api::{CertificateError, Misplaced};

/// Why the server could not do what the test asked of it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address could not be bound.
    #[error("listen on {address}: {cause}")]
    Listen {
        /// The address wanted.
        address: SocketAddr,
        /// The kernel's answer.
        cause: io::Error,
    },
    /// The certificates could not be made.
    #[error("make certificates: {0}")]
    Certificates(#[from] CertificateError),
    /// The server's thread or runtime could not be started, or is gone.
    #[error("server thread: {0}")]
    Thread(String),
    /// A file could not be written.
    #[error("write {path}: {cause}")]
    Write {
        /// The file.
        path: String,
        /// The kernel's answer.
        cause: io::Error,
    },
    /// An object that the store has no place for.
    #[error(transparent)]
    Object(#[from] Misplaced),
}
