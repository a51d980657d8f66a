//! Kubernetes' Service semantics: the verdict of this node on every packet to a Service.
//!
//! ```text
//! Event ─▶ ClusterState ─▶ Planner ─▶ Plan ─▶ a data plane's objects
//!            state.rs     planner.rs    └──▶ lookup.rs, explain.rs: one packet
//! ```
//!
//! A [`Plan`] has frontends, verdicts and pools; it has no chain, no mark handling and no map.
//! [`Planner`] updates it at a cost proportional to the change.
//!
//! # Invariants
//!
//! - No I/O, no clock, no randomness, no async, no Kubernetes client types: time, node identity
//!   and choices of the operator are arguments.
//! - All Kubernetes semantics end in [`Plan`]. A data plane that needs an `if` about Kubernetes
//!   shows a gap in the plan.
//! - Planning cannot fail: bad input becomes an [`issue::Issue`], everything else is planned.
//! - The plan is a function of the objects, never of the order in which they arrived.

mod admission;
mod claims;
pub mod endpoints;
mod event;
pub mod explain;
mod frontend;
mod health_check;
pub mod inventory;
pub mod issue;
mod limit;
pub mod lookup;
mod node;
mod planner;
mod pool;
mod port;
#[cfg(test)]
mod properties;
pub mod settings;
pub mod stale;
pub mod state;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
pub mod topology;

use std::collections::BTreeMap;
use std::sync::Arc;

use sluice_model::NamespacedName;

pub use claims::Claims;
pub use event::Event;
pub use frontend::{Frontend, Role, Route, Verdict};
pub use health_check::HealthCheck;
pub use node::{ClusterIpMasquerade, FamilyPlan, NodePlan, NodePortMatch, is_beyond_link};
pub use planner::{Changes, IssueChange, Planner, PortChange};
pub use pool::{Direct, Pool, PoolEndpoint, Scope};
pub use port::{PlannedFrontend, PortKey, PortPlan};

/// The plan of a node: per service port and family, and for the node as a whole.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The part that no Service changes.
    pub node: NodePlan,
    /// Every service port that owns a frontend or a ClusterIP, by key.
    pub ports: BTreeMap<PortKey, Arc<PortPlan>>,
    /// The health checks of Services, each on a port of its own.
    pub health_checks: BTreeMap<NamespacedName, HealthCheck>,
    /// The owners of frontends and ClusterIPs.
    pub claims: Claims,
    /// The size of the plan: endpoints of all service ports, once per frontend that leads to them.
    pub endpoints: usize,
}
