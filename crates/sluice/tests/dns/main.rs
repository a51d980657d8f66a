//! `sluice dns` and `sluice proxy --dns`, with real packets: see each module.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../common/mod.rs"]
mod common;

#[path = "../../../node/tests/local_dns/resolver.rs"]
mod resolver;

mod client;
mod hitless;
mod local;
mod query;
mod serve;
mod vm_ipvs;
mod world;
