//! Connection-tracking entries that outlived the endpoint they lead to.
//!
//! The kernel keeps sending the packets of a known UDP flow where its entry says, whatever the
//! rules say now. A client that never changes its source port would talk to a dead endpoint for
//! ever (Kubernetes issues 125467, 139628).

use std::net::SocketAddr;

use crate::model::Protocol;
use crate::plan::{Frontend, PortPlan};

/// Entries to delete: flows that clients opened to `frontend` and that do not lead to one of
/// `keep`. Flows that lead nowhere (no endpoint when they began) are among them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaleFlows {
    /// What the client dialled; always UDP.
    pub frontend: Frontend,
    /// The endpoints that still serve it.
    pub keep: Vec<SocketAddr>,
}

/// What became stale when a service port's plan changed. Only UDP: TCP and SCTP notice by
/// themselves.
pub fn stale_flows(old: Option<&PortPlan>, new: Option<&PortPlan>) -> Vec<StaleFlows> {
    let udp = [old, new].into_iter().flatten();
    if udp.clone().any(|it| it.key.name.protocol != Protocol::Udp) {
        return Vec::new();
    }
    let frontends = |plan: Option<&PortPlan>| -> Vec<Frontend> {
        let all = plan.into_iter().flat_map(|it| &it.frontends);
        all.map(|it| it.frontend).collect()
    };
    let serving = |plan: Option<&PortPlan>| plan.map(|it| it.serving.clone()).unwrap_or_default();
    let (before, after) = (serving(old), serving(new));
    let (had, has) = (frontends(old), frontends(new));
    let lost_endpoint = before.iter().any(|it| !after.contains(it));
    let first_endpoint = before.is_empty() && !after.is_empty();
    let gone = had.iter().filter(|it| !has.contains(it));
    let gone = gone.map(|frontend| StaleFlows {
        frontend: *frontend,
        keep: Vec::new(),
    });
    let kept = has.iter().filter(|it| {
        let is_new = !had.contains(it);
        lost_endpoint || first_endpoint || is_new
    });
    let kept = kept.map(|frontend| StaleFlows {
        frontend: *frontend,
        keep: after.clone(),
    });
    gone.chain(kept).collect()
}
