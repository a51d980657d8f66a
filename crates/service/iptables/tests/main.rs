//! One program for all tests of this crate: linking takes longer than most of them.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[macro_use]
mod common;

mod accounts;
mod equivalence;
mod first_sync;
mod golden;
mod kernel;
mod packets;
mod programs;
mod refusals;
