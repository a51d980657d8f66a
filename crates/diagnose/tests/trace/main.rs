//! The way of real packets through the rules of Sluice, of kube-proxy and of others. Needs root.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod losses;
mod ways;
mod world;
