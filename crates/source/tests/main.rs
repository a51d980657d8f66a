//! One program for all tests of this crate: linking takes longer than most of them.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod apiserver;
mod corpus;
mod examples;
mod fuzz_corpus;
mod memory;
mod property;
mod support;
mod toy;
mod watch;
mod worlds;
