//! The plan: what this node does with every packet addressed to a Service.
//!
//! All Kubernetes semantics end here. A [`Plan`] knows frontends, verdicts and pools; it knows
//! no chain, no mark handling and no map. [`Planner`] keeps one up to date at the cost of what
//! changed.

mod admission;
mod claims;
mod frontend;
mod health_check;
mod limit;
mod node;
mod planner;
mod pool;
mod port;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::NamespacedName;

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
}
