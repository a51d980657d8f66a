//! The server as the real kubectl sees it: that of Debian 12 (1.20), and the one on PATH.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod apply;
mod cluster;
mod read;
mod write;
