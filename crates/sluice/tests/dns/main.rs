//! `sluice dns` and `sluice proxy --dns`, with real packets: see each module.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../common/mod.rs"]
mod common;

#[path = "../../../node/tests/local_dns/resolver.rs"]
mod resolver;

mod apiserver;
mod client;
mod cluster;
mod doctor;
mod e2e;
mod explain;
mod hitless;
mod local;
mod query;
mod search;
mod serve;
mod server;
mod vm_ipvs;
mod world;
