//! The Service proxy as a consumer of the node agent ([`Services`]): plans, writes through a data plane, and
//! publishes the results.
//!
//! ```text
//! events ─▶ Services: plan, sync ──┬─▶ kernel (Reconciler, Backend)
//!                                  ├─▶ conntrack cleanup (own thread)
//!                                  ├─▶ health check node ports
//!                                  ├─▶ status, metrics, log
//!                                  └─▶ announcements
//! ```
//!
//! The data plane's counters ([`Connections`]) are read on request, on a thread of their own.
//!
//! # Invariants
//!
//! - Nothing is written before the source has delivered its first complete list.
//! - Nothing polls: only [`takeover`] checks once a minute whether a kube-proxy runs again.
//! - A changed service port stays pending until a sync that wrote it has succeeded.
//! - Only the runtime's thread writes rules, and it waits for nothing but the kernel: cleanup has a thread of
//!   its own.

mod change;
mod connections;
pub mod conntrack;
mod health_check;
pub mod limits;
pub mod metrics;
mod pace;
mod questions;
mod services;
pub mod status;
pub mod takeover;
#[cfg(test)]
mod testing;
mod web;

pub use change::TimedEvent;
pub use connections::{Connections, EndpointConnections, ServiceConnections};
pub use health_check::{HealthCheckServers, HealthChecks, Links, health_checks};
pub use metrics::ServiceMetrics;
pub use pace::Periods;
pub use questions::Plans;
pub use services::{Outputs, Services, SetSysctls, TakeOver};
pub use web::{data, page, questions};
