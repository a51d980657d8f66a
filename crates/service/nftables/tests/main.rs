//! One program for all tests of this crate: linking takes longer than most of them.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;
mod counters;
mod equivalence;
mod fake;
mod golden;
mod kernel;
mod live;
mod packets;
mod parts;
mod restart;
