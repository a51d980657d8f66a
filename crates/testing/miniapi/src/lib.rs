//! A small Kubernetes API server in memory, for tests and benchmarks.
//!
//! [`MiniApi`] speaks real HTTP/1.1 and TLS on a loopback port and behaves like kube-apiserver
//! 1.36 where a client that lists and watches can tell; and it misbehaves on purpose when told to.
//!
//! ```text
//! test ──put, delete──▶ store ──events──▶ watch ─┐
//!                         └────objects──▶ list ──┼─▶ fault ─▶ connection ─▶ client
//! test ──inject──────────────────────────────────┘
//! ```
//!
//! # Invariants
//!
//! - One lock, never held while something is sent. An object is serialised once per version, a
//!   watch event once, whoever asks.
//! - Every change has a version of its own, one greater than the last, whatever the collection.
//! - No sleeping on the test's side: what a test waits for wakes it.
//! - Objects are stored as given. The server does not know their meaning: it allocates no address
//!   and fills in no default.

mod answer;
mod body;
mod error;
mod fault;
mod identity;
mod journal;
mod list;
mod mini;
mod object;
mod options;
mod query;
mod resource;
mod route;
mod selector;
mod server;
mod status;
mod store;
mod watch;
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
