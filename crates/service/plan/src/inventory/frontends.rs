//! Which endpoints the clients of each frontend are sent to, and why not to the others.

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::endpoints::{Candidate, Categorized, Topology};
use crate::port::external_policy;
use crate::{PlannedFrontend, PortPlan, Role, Route, Scope, Verdict};
use sluice_model::{Service, TrafficPolicy};

/// Addresses of a group that are listed.
const LISTED: usize = 5;

/// A frontend of a port and the endpoints behind it, as a client outside the node finds them. Scripts read it: fields are
/// added, not changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FrontendDetail {
    /// What clients dial: `10.96.0.10:80/tcp`.
    pub frontend: String,
    /// Why it exists: `ClusterIP`, `LoadBalancer`, `ExternalIP`, `NodePort`.
    pub role: String,
    /// The traffic policy that applies, and for whom.
    pub policy: String,
    /// The endpoints that clients are sent to.
    pub used: Group,
    /// The others, by reason.
    pub unused: Vec<Group>,
}

/// Endpoints that have something in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Group {
    /// Why they get no connection; empty for those that do.
    pub reason: String,
    pub count: usize,
    /// The first five.
    pub first: Vec<SocketAddr>,
}

impl Group {
    fn add(&mut self, address: SocketAddr) {
        self.count += 1;
        if self.first.len() < LISTED {
            self.first.push(address);
        }
    }
}

/// The frontends of a port in the order of its plan.
pub(super) fn frontends(
    service: &Service,
    plan: &PortPlan,
    candidates: &[Candidate<'_>],
    sorted: &Categorized,
) -> Vec<FrontendDetail> {
    let detail = |it: &PlannedFrontend| {
        let (used, unused) = groups(it.route, candidates, sorted);
        FrontendDetail {
            frontend: it.frontend.to_string(),
            role: it.role.to_string(),
            policy: policy(service, it).to_owned(),
            used,
            unused,
        }
    };
    plan.frontends.iter().map(detail).collect()
}

fn policy(service: &Service, frontend: &PlannedFrontend) -> &'static str {
    let policy = match frontend.role {
        Role::NodeDns | Role::ClusterIp => service.internal_policy,
        _ => external_policy(service),
    };
    match (policy, frontend.route) {
        (TrafficPolicy::Local, Route::ExternalLocal { .. }) => {
            "Local; this node and its pods reach any ready endpoint"
        }
        (TrafficPolicy::Local, _) => "Local",
        (TrafficPolicy::Cluster, _) => "Cluster",
    }
}

fn groups(route: Route, candidates: &[Candidate<'_>], sorted: &Categorized) -> (Group, Vec<Group>) {
    let verdict = match route {
        Route::Internal(it) | Route::External(it) | Route::ExternalLocal { far: it } => it,
    };
    let none = Vec::new();
    let (scope, topology, chosen) = match verdict {
        Verdict::Balance(Scope::Cluster) => (Scope::Cluster, sorted.topology, &sorted.cluster),
        Verdict::Balance(Scope::Local) => (Scope::Local, Topology::Anywhere, &sorted.local),
        Verdict::Drop => (Scope::Local, Topology::Anywhere, &none),
        Verdict::Reject => (Scope::Cluster, sorted.topology, &none),
    };
    let chosen: HashSet<usize> = chosen.iter().copied().collect();
    let mut used = Group::default();
    let mut unused: BTreeMap<&str, Group> = BTreeMap::new();
    for (index, it) in candidates.iter().enumerate() {
        if chosen.contains(&index) {
            used.add(it.addr);
        } else {
            let reason = it.why_not(scope, topology);
            unused.entry(reason).or_default().add(it.addr);
        }
    }
    let unused = unused.into_iter().map(|(reason, group)| Group {
        reason: reason.to_owned(),
        ..group
    });
    (used, unused.collect())
}
