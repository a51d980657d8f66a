//! The source on a real HTTP server that misbehaves on purpose. No sleeps: what the source says
//! is waited for.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod access;
mod cluster;
mod events;
mod first;
mod garbage;
mod names;
mod outage;
mod pod;
mod reconnect;
#[path = "../support/mod.rs"]
mod support;
