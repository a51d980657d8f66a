//! `sluice dns` and `sluice proxy --dns`, with real packets: see each module.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../common/mod.rs"]
mod common;

mod client;
mod doctor;
mod explain;
mod local;
mod query;
mod serve;
