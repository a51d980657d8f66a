//! The node agent: receives the events of sources and keeps the kernel's rules up to date.
//!
//! One thread plans and writes ([`Agent`]); everything reaches it through one channel of
//! [`Input`]s. Sources, the machine's addresses, the watch for foreign changes, signals and status
//! requests have threads that only send. Conntrack cleanup has a thread that only receives.
//!
//! Before the first thread starts, the caller prepares the machine, in this order: [`preflight`],
//! [`oom`], [`sysctl`], [`privileges`], [`sandbox`].
//!
//! ```text
//! source ──Events──┐                              ┌─▶ kernel (Reconciler, Backend)
//! addresses ─Events┤                              │
//! watch ──Changed──┤                              ├─▶ conntrack cleanup (own thread)
//! status ──Status──┼─▶ channel ─▶ Agent::run ─────┤
//! signals ──Stop───┘    wait, drain, plan, sync   ├─▶ Health ◀───── GET /healthz, /livez
//!                                                 ├─▶ Metrics ◀──── GET /metrics
//!                                                 ├─▶ HealthChecks ─▶ health check node ports
//!                                                 └─▶ announcements
//! ```
//!
//! The data plane's counters ([`Connections`]) are read on request, on a thread of their own.
//!
//! # Invariants
//!
//! - Nothing is written before the source has delivered its first complete list.
//! - Nothing polls: without input the process sleeps until its next sync is due. Only [`takeover`]
//!   checks once a minute whether a kube-proxy runs again.
//! - A changed service port stays pending until a sync that wrote it has succeeded.
//! - Only the agent's thread writes its rules, and that thread waits for nothing but the kernel:
//!   servers and cleanup have threads of their own.
//! - Every HTTP server runs on one thread. All share one budget of connections, in which remote
//!   clients cannot take the part of local ones; heads and answers have limits of size and time.
//! - Ending the process leaves the rules where they are.

pub mod addresses;
mod agent;
pub mod client;
mod connections;
pub mod conntrack;
pub mod descriptors;
mod error;
mod events;
mod flock;
mod forwarding;
mod health;
mod health_check;
pub mod local_dns;
pub mod metrics;
pub mod node;
pub mod oom;
mod pace;
pub mod preflight;
pub mod privileges;
mod questions;
pub mod sandbox;
mod server;
pub mod status;
pub mod sysctl;
pub mod takeover;

pub use agent::{Agent, Input, Names, Outputs, SetSysctls, TakeOver, chain};
pub use connections::{Connections, EndpointConnections, ServiceConnections};
pub use error::NodeError;
pub use events::{EventQueue, EventSender};
pub use flock::{AlreadyRunning, Lock, NamespaceLock};
pub use health::{FamilyHealth, Health, HealthReport, NodeObject, NodeState, Probe};
pub use health_check::{HealthCheckServers, HealthChecks, health_checks};
pub use pace::Periods;
pub use questions::Question;
pub use server::{
    MetricsServer, NameAnswers, Page, Served, Server, SetVerbosity, Token, WebServer, guarded,
};
