//! The node's own DNS server with real packets: its queries come to this process while it lives and wants
//! them, and to the cluster's DNS otherwise.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod answers;
mod beside;
mod hitless;
mod holder;
mod resolver;
mod vm_ipvs;
mod world;
