//! The DNS server: sockets, and the plugins of a server block in CoreDNS's order.
//!
//! ```text
//! Corefile ─Server::start─▶ Running ─┬─ UDP: a thread for each socket (udp)
//!                                    ├─ TCP: tasks of the runtime (tcp)
//!                                    └─ HTTP: /health, /ready, /metrics (http)
//! query ─▶ Engine of the address ─▶ Block of the longest zone ─▶ response
//!                 └─ sluice-zone: the cluster's objects; sluice-upstream: other servers
//! ```
//!
//! Invariants:
//! - An answer of the cluster's zone is that of the objects at its time: what is kept of it is forgotten
//!   with the next change ([`sluice_zone::Objects::revision`]).
//! - A response has the query's id, question and letter case, and is never larger than the client takes.
//! - Bytes of a client cause no panic. What the server holds for clients is bounded ([`Limits`]).
//! - A Corefile is served whole or not at all.

mod engine;
mod http;
mod limits;
mod listen;
mod metrics;
mod options;
mod plugins;
mod request;
mod server;
mod slot;
mod tcp;
mod udp;
mod wire;

pub use engine::{caught, is_caught};
pub use listen::ListenError;
pub use metrics::ClusterMetrics;
pub use options::{Limits, Options, SearchPaths};
#[cfg(feature = "testing")]
pub use server::Responder;
pub use server::{Running, Server, StartError};
pub use sluice_upstream::Transport;
