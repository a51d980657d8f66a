//! One program for all tests of this crate: linking takes longer than most of them.

#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![allow(
    clippy::duplicate_mod,
    reason = "the fuzz target of `any_bytes` has `support::cluster`, too"
)]

mod any_bytes;
mod plugins;
mod running;
mod support;
mod tcp;
mod udp;
