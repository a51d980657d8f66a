//! One program for all tests of this crate: linking takes longer than most of them.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;
mod equivalence;
mod kernel;
mod packets;
