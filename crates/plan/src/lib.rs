//! Kubernetes' Service semantics: what this node does with every packet addressed to a Service.
//!
//! ```text
//! Event ─▶ ClusterState ─▶ Planner ─▶ Plan ─▶ a data plane's objects
//!            state.rs     planner.rs    └──▶ lookup.rs, explain.rs: one packet
//! ```
//!
//! A [`Plan`] knows frontends, verdicts and pools; it knows no chain, no mark handling and no map.
//! [`Planner`] keeps one up to date at the cost of what changed.
//!
//! # Invariants
//!
//! - No I/O, no clock, no randomness, no async, no Kubernetes client types: time, node identity
//!   and choices of the operator are arguments.
//! - All Kubernetes semantics end in [`Plan`]. A data plane that needs an `if` about Kubernetes
//!   shows a gap in the plan.
//! - Planning cannot fail: bad input becomes an [`issue::Issue`], and everything else stands.
//! - The plan is a function of the objects, never of the order in which they arrived.

mod admission;
mod claims;
pub mod endpoints;
pub mod explain;
mod frontend;
mod health_check;
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

use std::collections::BTreeMap;
use std::sync::Arc;

use sluice_model::NamespacedName;

pub use claims::Claims;
pub use frontend::{Frontend, Role, Route, Verdict};
pub use health_check::HealthCheck;
pub use node::{ClusterIpMasquerade, FamilyPlan, LocalTraffic, NodePlan, NodePortMatch};
pub use planner::{Changes, Planner, PortChange};
pub use pool::{Pool, PoolEndpoint, Scope};
pub(crate) use port::external_policy;
pub use port::{PlannedFrontend, PortKey, PortPlan};

/// What a node does: per service port and family, and for the node as a whole.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// What does not depend on any Service.
    pub node: NodePlan,
    /// Every service port that has something to do, by key.
    pub ports: BTreeMap<PortKey, Arc<PortPlan>>,
    /// Load balancers ask about these Services, each on a port of its own.
    pub health_checks: BTreeMap<NamespacedName, HealthCheck>,
    /// Who owns which frontend and ClusterIP.
    pub claims: Claims,
    /// Endpoints of all service ports, once per frontend that leads to them: how large the plan is.
    pub endpoints: usize,
}
