//! `sluice dns` and `sluice proxy --dns`, with real packets: see each module.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../common/mod.rs"]
mod common;

mod apiserver;
mod client;
mod cluster;
mod e2e;
mod local;
mod query;
mod search;
mod serve;
mod server;
mod world;
