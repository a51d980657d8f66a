//! Direct server return with two nodes: the endpoint's node answers the client itself.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../common/mod.rs"]
mod common;
mod pieces;
mod restart;
mod tcp;
mod udp;
mod world;
