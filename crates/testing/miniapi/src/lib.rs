//! A small Kubernetes API server in memory, for tests and benchmarks.
//!
//! [`MiniApi`] speaks real HTTP/1.1 and TLS on a loopback port and behaves like kube-apiserver
//! 1.36 where a client that lists and watches can tell; and it misbehaves on purpose when told to.
//!
//! ```text
//! test ──put, delete──▶ history ──events──▶ watch ─┐
//!                          └────objects──▶ list ───┼─▶ fault ─▶ connection ─▶ client
//! test ──inject────────────────────────────────────┘
//! ```
//!
//! History, lists and watches are those of `sluice-api`.
//!
//! # Invariants
//!
//! - No sleeping on the test's side: what a test waits for wakes it.
//! - Objects are stored as given. The server does not know their meaning: it allocates no address
//!   and fills in no default.

mod answer;
mod body;
mod error;
mod fault;
mod journal;
mod mini;
mod options;
mod server;
mod store;
mod watches;
mod wire;
mod write;

pub use body::Cut;
pub use error::Error;
pub use fault::{Fault, Trouble, Verb};
pub use journal::Request;
pub use mini::MiniApi;
pub use options::Options;
pub use store::Snapshot;
