//! One program for all tests of this crate: linking takes longer than most of them.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod at_once;
mod beside;
mod common;
mod direct;
mod equivalence;
mod golden;
mod kernel;
mod loaded;
mod netfilter;
mod packets;
mod parts;
mod pods;
mod scale;
mod sockets;
mod test_run;
mod upgrade;
