//! The node agent: takes in what sources say and keeps the kernel in line with it.
//!
//! One thread owns everything that decides ([`Agent`]) and hears of the world through one
//! channel of [`Input`]s. Sources, the machine's addresses, the watch for foreign changes, signals
//! and questions about the status are threads that only send; conntrack cleanup is one that only
//! receives.
//!
//! Before the first of these threads starts, the caller has the machine set up, in this order:
//! [`preflight`], [`oom`], [`sysctl`], [`privileges`].
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
//! What the data plane counts ([`Connections`]) is read when somebody asks, on a thread of its own.
//!
//! # Invariants
//!
//! - Nothing is written before the source has delivered its first complete list.
//! - Nothing polls: without input the process sleeps until its next sync is due. Only [`takeover`]
//!   looks once a minute whether a kube-proxy has come back.
//! - Service ports that changed are remembered until a sync that contained them succeeded.
//! - No thread but the agent's touches its rules, and nothing can make that thread wait except
//!   the kernel: servers, cleanup and logs are elsewhere.
//! - Every HTTP server runs on one thread, with limits on connections, heads and their time.
//! - Ending the process leaves the rules where they are.

pub mod addresses;
mod agent;
pub mod client;
mod connections;
pub mod conntrack;
mod flock;
mod health;
mod health_check;
pub mod metrics;
pub mod node;
pub mod oom;
mod pace;
pub mod preflight;
pub mod privileges;
mod reports;
mod server;
pub mod status;
pub mod sysctl;
pub mod takeover;

pub use agent::{Agent, Input, Outputs, TakeOver};
pub use connections::{Connections, EndpointConnections, ServiceConnections};
pub use flock::{AlreadyRunning, Lock, NamespaceLock};
pub use health::{FamilyHealth, Health, HealthReport, NodeObject, NodeState, Probe};
pub use health_check::{HealthCheckServers, HealthChecks, health_checks};
pub use pace::Periods;
pub use server::{
    MetricsServer, PortTaken, Profiling, Served, Server, ServerError, SetVerbosity, Wires,
};
