//! The runtime of the node agent: runs consumers of the cluster's objects, and has the parts that they share.
//!
//! A [`Consumer`] takes in events, does something on this machine, and says when it is due again; the Service
//! proxy and the DNS server are two. All work on one thread, one after the other ([`Runtime`]). Sources, the
//! machine's addresses, watches, signals and servers have threads that only send.
//!
//! Before the first thread starts, the caller prepares the machine, in this order: [`preflight`],
//! [`oom`], [`sysctl`], [`privileges`], [`sandbox`].
//!
//! ```text
//! sources ───events──┐                               ┌─▶ kernel
//! addresses ─events──┤                               ├─▶ threads of consumers
//! watches ───tasks───┼─▶ channel ─▶ Runtime::run ────┤
//! servers ─questions─┤    wait, drain, step each ────┼─▶ Health ◀───── GET /healthz, /livez
//! signals ───stop────┘    consumer                   └─▶ Metrics ◀──── GET /metrics
//! ```
//!
//! # Invariants
//!
//! - The runtime knows no consumer by type, and no consumer knows another one. One may ask that its events
//!   wait until another has settled their objects ([`Runtime::add_after`]).
//! - Nothing polls: without input the process sleeps until a consumer is due.
//! - Only the runtime's thread calls consumers, and they wait for nothing but the kernel: servers have a thread
//!   of their own, and their questions are answered between two steps.
//! - Every HTTP server runs on one thread. All share one budget of connections, in which remote
//!   clients cannot take the part of local ones; heads and answers have limits of size and time.
//! - Ending the process leaves what consumers wrote where it is.

pub mod addresses;
pub mod client;
mod consumer;
pub mod descriptors;
mod error;
mod events;
mod flock;
pub mod forwarding;
mod health;
mod hold;
mod memory;
pub mod metrics;
pub mod node;
pub mod oom;
pub mod output;
mod per_family;
pub mod preflight;
pub mod privileges;
mod runtime;
pub mod sandbox;
pub mod server;
mod status;
pub mod sysctl;

pub use consumer::{Consumer, Section};
pub use error::{NodeError, failed};
pub use events::{Keyed, Latest};
pub use flock::{AlreadyRunning, Lock, NamespaceLock};
pub use health::{FamilyHealth, Health, HealthReport, NodeObject, NodeState, Probe, StepClock};
pub use hold::{Hold, Settled, Wait};
pub use per_family::PerFamily;
pub use runtime::{Control, Handle, Inbox, Runtime};
pub use server::{
    MetricsServer, OwnServer, Page, Programs, ReportProblem, Served, Server, SetVerbosity, Shown,
    Token, WebServer, guarded,
};
pub use sluice_reconcile::chain;
pub use status::{AgentStatus, StatusAnswer};
