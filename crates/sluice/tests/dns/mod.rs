//! `sluice dns` and `sluice proxy --dns`, with real packets: see each module.

#[path = "../../../dns/agent/tests/local_dns/resolver.rs"]
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
