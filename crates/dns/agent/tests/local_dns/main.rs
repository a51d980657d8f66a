//! Tests the node's own DNS server with real packets: queries go to this process while it lives and takes them, and
//! to the cluster's DNS otherwise.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod answers;
mod beside;
mod hitless;
mod holder;
mod resolver;
mod vm_ipvs;
mod world;
