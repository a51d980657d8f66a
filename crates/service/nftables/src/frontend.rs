//! How a kind of frontend is served: its sets, its chains, its keys.

use sluice_plan::{Frontend, Route, Scope, Verdict};

use crate::name::{AffinityChain, PoolKind};
use crate::pool::endpoints_of;
use crate::set::{ElementKey, SetName};

/// The map that holds the endpoints of a scope for a frontend; `None` when the frontend sends no packets to
/// this scope.
pub(crate) fn slots_set(frontend: &Frontend, route: Route, scope: Scope) -> Option<SetName> {
    let names = Names::of(frontend);
    let sends = |verdict, kind| (verdict == Verdict::Balance(scope)).then_some(kind);
    let pool = match (route, scope) {
        (Route::Internal(verdict), _) => sends(verdict, PoolKind::ClusterIp),
        (Route::External(verdict), _) => sends(verdict, names.external),
        (Route::ExternalLocal { .. }, Scope::Cluster) => Some(names.near),
        (Route::ExternalLocal { .. }, Scope::Local) => Some(names.local),
    };
    pool.map(endpoints_of)
}

/// All maps that [`slots_set`] names for a kind of frontend.
pub(crate) fn slot_sets(frontend: &Frontend) -> [SetName; 2] {
    let names = Names::of(frontend);
    [names.near, names.local].map(endpoints_of)
}

/// The key of an endpoint in the maps that [`slots_set`] names.
pub(crate) fn slot_key(frontend: &Frontend, slot: u32) -> ElementKey {
    match *frontend {
        Frontend::Address {
            addr,
            port,
            protocol,
        } => ElementKey::FrontendSlot(addr, protocol, port, slot),
        Frontend::NodePort { port, protocol, .. } => ElementKey::NodePortSlot(protocol, port, slot),
    }
}

pub(crate) fn frontend_key(frontend: &Frontend) -> ElementKey {
    match *frontend {
        Frontend::Address {
            addr,
            port,
            protocol,
        } => ElementKey::Frontend(addr, protocol, port),
        Frontend::NodePort { port, protocol, .. } => ElementKey::NodePort(protocol, port),
    }
}

/// The sets and chains that serve a kind of frontend.
pub(crate) struct Names {
    pub(crate) frontends: SetName,
    pub(crate) near_frontends: SetName,
    pub(crate) nowhere: SetName,
    pub(crate) external: PoolKind,
    pub(crate) near: PoolKind,
    pub(crate) local: PoolKind,
    pub(crate) outside: AffinityChain,
}

impl Names {
    pub(crate) const fn of(frontend: &Frontend) -> Self {
        match frontend {
            Frontend::Address { .. } => Self {
                frontends: SetName::Frontends,
                near_frontends: SetName::NearFrontends,
                nowhere: SetName::NoEndpoints,
                external: PoolKind::External,
                near: PoolKind::Near,
                local: PoolKind::Local,
                outside: AffinityChain::Outside,
            },
            Frontend::NodePort { .. } => Self {
                frontends: SetName::NodePorts,
                near_frontends: SetName::NearNodePorts,
                nowhere: SetName::NoEndpointNodePorts,
                external: PoolKind::NodePort,
                near: PoolKind::NearNodePort,
                local: PoolKind::LocalNodePort,
                outside: AffinityChain::OutsideNodePort,
            },
        }
    }
}
