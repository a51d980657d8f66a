//! The elements and chains that carry out the plan of one service port.

use std::net::SocketAddr;
use std::sync::Arc;

use sluice_model::Protocol;
use sluice_plan::{Frontend, PlannedFrontend, PoolEndpoint, PortPlan, Route, Scope, Verdict};

use crate::affinity;
use crate::frontend::{Names, frontend_key, slot_key, slots_set};
use crate::name::{AffinityChain, ChainName, NO_LOCAL_ENDPOINTS, PoolKind, REJECTED, Standing};
use crate::object::{Key, Object, shared_comment};
use crate::placement::Placement;
use crate::pool::pool_chain;
use crate::set::{Element, ElementKey, ElementValue, SetName};
use crate::sources::{self, Lists};

/// The objects of one service port. Exactly one of an element in `frontends` or `no-endpoints`
/// exists for a frontend, or both when only near clients get through.
pub(crate) fn port(port: &PortPlan, placement: &Placement) -> Vec<(Key, Object)> {
    let render = Render::new(port, placement);
    let mut objects = render.shared();
    objects.reserve(port.weight() + 2 * port.frontends.len() + 1);
    let mut lists = Lists::default();
    for planned in &port.frontends {
        for scope in [Scope::Cluster, Scope::Local] {
            if let Some(map) = slots_set(&planned.frontend, planned.route, scope) {
                let slots = (0..).zip(placement.slots(scope));
                let slots = slots.map(|(it, _)| render.slot(&planned.frontend, map, scope, it));
                objects.extend(slots);
            }
        }
        objects.extend(render.frontend(planned, &mut lists));
    }
    objects.extend(render.cluster_ip());
    affinity::render(port, placement, &mut objects);
    objects
}

/// Renders what a service port has.
pub(crate) struct Render<'a> {
    port: &'a PortPlan,
    placement: &'a Placement,
    /// `namespace/name:port`: the comment of everything that belongs to the port.
    label: Arc<str>,
}

impl<'a> Render<'a> {
    pub(crate) fn new(port: &'a PortPlan, placement: &'a Placement) -> Self {
        Self::labelled(port, placement, label(port))
    }

    /// With the [`label`] of the port, made once for many calls.
    pub(crate) fn labelled(port: &'a PortPlan, placement: &'a Placement, label: Arc<str>) -> Self {
        Self {
            port,
            placement,
            label,
        }
    }

    /// What other service ports may need, too: each object once.
    pub(crate) fn shared(&self) -> Vec<(Key, Object)> {
        let family = self.port.key.family;
        let mut pools: Vec<(PoolKind, u32)> = Vec::new();
        let mut lists = Lists::default();
        let mut objects = Vec::new();
        for planned in &self.port.frontends {
            for (_, chain) in self.goals(planned) {
                if let ChainName::Pool(kind, size) = chain
                    && !pools.contains(&(kind, size))
                {
                    pools.push((kind, size));
                    objects.push(pool_chain(family, kind, size));
                }
            }
            if let Some(ranges) = &planned.allowed_sources
                && let (list, true) = lists.put(ranges)
            {
                objects.extend(sources::objects(family, list, ranges));
            }
        }
        objects.extend(self.hairpin());
        objects
    }

    /// The elements of a frontend, apart from its slots.
    pub(crate) fn frontend(
        &self,
        planned: &PlannedFrontend,
        lists: &mut Lists,
    ) -> Vec<(Key, Object)> {
        let frontend = &planned.frontend;
        let ranges = planned.allowed_sources.as_ref();
        let sources = ranges.map(|it| {
            let chain = ChainName::Sources(lists.put(it).0);
            (SetName::RestrictedFrontends, chain)
        });
        let goals = self.goals(planned).chain(sources);
        let elements = goals.map(|(set, chain)| {
            let key = Key::Element(frontend.family(), set, frontend_key(frontend));
            element(key, ElementValue::Goto(chain), Some(self.label.clone()))
        });
        elements.collect()
    }

    /// The chains that a frontend leads to, and the maps in which it does.
    fn goals(&self, planned: &PlannedFrontend) -> impl Iterator<Item = (SetName, ChainName)> {
        let names = Names::of(&planned.frontend);
        let to = |set, kind, chain, scope| Some((set, self.balance(kind, chain, scope)?));
        let nowhere = |chain: Standing| Some((names.nowhere, ChainName::Standing(chain)));
        let goals = match planned.route {
            Route::Internal(Verdict::Balance(scope)) => {
                let (kind, chain) = (PoolKind::ClusterIp, AffinityChain::ClusterIp);
                [to(names.frontends, kind, chain, scope), None, None]
            }
            Route::External(Verdict::Balance(scope)) => {
                let (kind, chain) = (names.external, AffinityChain::External);
                [to(names.frontends, kind, chain, scope), None, None]
            }
            Route::Internal(Verdict::Drop) | Route::External(Verdict::Drop) => {
                [nowhere(NO_LOCAL_ENDPOINTS), None, None]
            }
            Route::Internal(Verdict::Reject) | Route::External(Verdict::Reject) => {
                [nowhere(REJECTED), None, None]
            }
            Route::ExternalLocal { far } => {
                let (near, chain) = (names.near, AffinityChain::Cluster);
                let near = to(names.near_frontends, near, chain, Scope::Cluster);
                match far {
                    Verdict::Balance(scope) => {
                        let (kind, chain) = (names.local, names.outside);
                        [near, to(names.frontends, kind, chain, scope), None]
                    }
                    Verdict::Drop | Verdict::Reject => {
                        let nobody = ChainName::Pool(names.local, 0);
                        let far = Some((names.frontends, nobody));
                        [near, far, nowhere(NO_LOCAL_ENDPOINTS)]
                    }
                }
            }
        };
        goals.into_iter().flatten()
    }

    /// A pool chain, or with session affinity the port's own chain.
    fn balance(&self, kind: PoolKind, chain: AffinityChain, scope: Scope) -> Option<ChainName> {
        if self.port.affinity_seconds.is_some() {
            return Some(chain.of(&self.port.key.name));
        }
        self.port.pool(scope)?;
        let size = self.placement.slots(scope).len();
        let size = u32::try_from(size).expect("slots are numbered by u32");
        Some(ChainName::Pool(kind, size))
    }

    /// The element of a slot of this scope.
    pub(crate) fn slot(
        &self,
        frontend: &Frontend,
        map: SetName,
        scope: Scope,
        slot: u32,
    ) -> (Key, Object) {
        let endpoint = self.endpoint(scope, slot);
        let key = Key::Element(frontend.family(), map, slot_key(frontend, slot));
        let comment = match &endpoint.target {
            Some(target) => shared_comment(target),
            None => self.label.clone(),
        };
        element(key, ElementValue::Endpoint(endpoint.addr), Some(comment))
    }

    /// The endpoint in a slot of this scope.
    fn endpoint(&self, scope: Scope, slot: u32) -> &'a PoolEndpoint {
        let pool = self.port.pool(scope).expect("only a pool has slots");
        let index = self.placement.slots(scope)[slot as usize];
        &pool.endpoints()[index as usize]
    }

    /// Endpoint and comment of a slot.
    pub(crate) fn content(&self, scope: Scope, slot: u32) -> (SocketAddr, &str) {
        let endpoint = self.endpoint(scope, slot);
        (
            endpoint.addr,
            endpoint.target.as_ref().unwrap_or(&self.label),
        )
    }

    /// The ClusterIP whose other ports are refused.
    pub(crate) fn cluster_ip(&self) -> Option<(Key, Object)> {
        let addr = self.port.owned_cluster_ip?;
        let service = self.port.key.name.service.to_string();
        let comment = shared_comment(&service.into());
        let set = SetName::ClusterIps;
        let key = Key::Element(self.port.key.family, set, ElementKey::Address(addr));
        Some(element(key, ElementValue::Member, Some(comment)))
    }

    /// Several Services may share an endpoint, so these elements carry no comment of one.
    fn hairpin(&self) -> impl Iterator<Item = (Key, Object)> {
        let protocol: Protocol = self.port.key.name.protocol;
        let family = self.port.key.family;
        let here = self.port.reachable().into_iter();
        let here = here.filter(|it| it.may_be_here).map(|it| it.addr);
        here.map(move |addr| {
            let key = ElementKey::Hairpin(addr.ip(), protocol, addr.port());
            let key = Key::Element(family, SetName::Hairpin, key);
            element(key, ElementValue::Member, None)
        })
    }
}

/// `namespace/name:port`, as a comment.
pub(crate) fn label(port: &PortPlan) -> Arc<str> {
    shared_comment(&port.key.name.to_string().into())
}

fn element(key: Key, value: ElementValue, comment: Option<Arc<str>>) -> (Key, Object) {
    (key, Object::Element(Element { value, comment }))
}
