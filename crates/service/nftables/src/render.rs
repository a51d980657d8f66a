//! The elements and chains that carry out the plan of one service port.

use std::sync::Arc;

use ipnet::IpNet;
use sluice_model::Protocol;
use sluice_plan::{Frontend, PlannedFrontend, PortPlan, Route, Scope, Verdict};

use crate::affinity;
use crate::frontend::{Names, frontend_key, slot_key};
use crate::name::{AffinityChain, ChainName, NO_LOCAL_ENDPOINTS, PoolKind, REJECTED, Standing};
use crate::object::{Key, Object, shared_comment};
use crate::placement::Placement;
use crate::pool::{endpoints_of, pool_chain};
use crate::set::{Element, ElementKey, ElementValue, SetName};
use crate::source_list::SourceList;
use crate::sources;

/// The objects of one service port. Exactly one of an element in `frontends` or `no-endpoints`
/// exists for a frontend, or both when only near clients get through.
pub(crate) fn port(port: &PortPlan, placement: &Placement) -> Vec<(Key, Object)> {
    let mut out = Render {
        port,
        placement,
        label: shared_comment(&port.key.name.to_string().into()),
        objects: Vec::with_capacity(port.frontends.len() * 12 + 2),
    };
    for planned in &port.frontends {
        out.frontend(planned);
    }
    out.source_ranges();
    out.cluster_ip();
    out.hairpin();
    affinity::render(port, placement, &mut out.objects);
    out.objects
}

fn to_standing(chain: Standing) -> ElementValue {
    ElementValue::Goto(ChainName::Standing(chain))
}

struct Render<'a> {
    port: &'a PortPlan,
    placement: &'a Placement,
    /// `namespace/name:port`: the comment of everything that belongs to the port.
    label: Arc<str>,
    objects: Vec<(Key, Object)>,
}

impl Render<'_> {
    fn frontend(&mut self, planned: &PlannedFrontend) {
        let frontend = &planned.frontend;
        let names = Names::of(frontend);
        match planned.route {
            Route::Internal(Verdict::Balance(scope)) => {
                let to = (PoolKind::ClusterIp, AffinityChain::ClusterIp);
                self.balance(frontend, names.frontends, to, scope);
            }
            Route::External(Verdict::Balance(scope)) => {
                let to = (names.external, AffinityChain::External);
                self.balance(frontend, names.frontends, to, scope);
            }
            Route::Internal(Verdict::Drop) | Route::External(Verdict::Drop) => {
                self.element(frontend, names.nowhere, to_standing(NO_LOCAL_ENDPOINTS));
            }
            Route::Internal(Verdict::Reject) | Route::External(Verdict::Reject) => {
                self.element(frontend, names.nowhere, to_standing(REJECTED));
            }
            Route::ExternalLocal { far } => {
                let to = (names.near, AffinityChain::Cluster);
                self.balance(frontend, names.near_frontends, to, Scope::Cluster);
                match far {
                    Verdict::Balance(scope) => {
                        let to = (names.local, names.outside);
                        self.balance(frontend, names.frontends, to, scope);
                    }
                    Verdict::Drop | Verdict::Reject => {
                        self.pool(frontend, names.frontends, names.local, 0);
                        self.element(frontend, names.nowhere, to_standing(NO_LOCAL_ENDPOINTS));
                    }
                }
            }
        }
    }

    /// Leads `frontend` in `set` to a pool chain, or with session affinity to the port's own chain.
    fn balance(
        &mut self,
        frontend: &Frontend,
        set: SetName,
        (kind, chain): (PoolKind, AffinityChain),
        scope: Scope,
    ) {
        if self.port.affinity_seconds.is_some() {
            let chain = chain.of(&self.port.key.name);
            return self.element(frontend, set, ElementValue::Goto(chain));
        }
        let Some(pool) = self.port.pool(scope) else {
            return;
        };
        let slots = self.placement.slots(scope);
        let family = frontend.family();
        let endpoints = endpoints_of(kind);
        for (slot, &index) in (0..).zip(slots) {
            let endpoint = &pool.endpoints()[index as usize];
            let comment = match &endpoint.target {
                Some(target) => shared_comment(target),
                None => self.label.clone(),
            };
            let key = Key::Element(family, endpoints, slot_key(frontend, slot));
            self.push(key, ElementValue::Endpoint(endpoint.addr), Some(comment));
        }
        let size = u32::try_from(slots.len()).expect("slots are numbered by u32");
        self.pool(frontend, set, kind, size);
    }

    fn pool(&mut self, frontend: &Frontend, set: SetName, kind: PoolKind, size: u32) {
        self.objects.push(pool_chain(frontend.family(), kind, size));
        let chain = ChainName::Pool(kind, size);
        self.element(frontend, set, ElementValue::Goto(chain));
    }

    fn element(&mut self, frontend: &Frontend, set: SetName, value: ElementValue) {
        let key = Key::Element(frontend.family(), set, frontend_key(frontend));
        self.labelled(key, value);
    }

    fn labelled(&mut self, key: Key, value: ElementValue) {
        let label = self.label.clone();
        self.push(key, value, Some(label));
    }

    fn push(&mut self, key: Key, value: ElementValue, comment: Option<Arc<str>>) {
        let element = Element { value, comment };
        self.objects.push((key, Object::Element(element)));
    }

    fn source_ranges(&mut self) {
        let family = self.port.key.family;
        let mut last: Option<(&Arc<[IpNet]>, SourceList)> = None;
        for planned in &self.port.frontends {
            let Some(ranges) = &planned.allowed_sources else {
                continue;
            };
            // All frontends of a port share one list.
            let list = match last {
                Some((known, list)) if Arc::ptr_eq(known, ranges) => list,
                _ => {
                    let (list, objects) = sources::objects(family, ranges);
                    self.objects.extend(objects);
                    list
                }
            };
            last = Some((ranges, list));
            let chain = ElementValue::Goto(ChainName::Sources(list));
            self.element(&planned.frontend, SetName::RestrictedFrontends, chain);
        }
    }

    fn cluster_ip(&mut self) {
        let Some(addr) = self.port.owned_cluster_ip else {
            return;
        };
        let service = self.port.key.name.service.to_string();
        let comment = shared_comment(&service.into());
        let set = SetName::ClusterIps;
        let key = Key::Element(self.port.key.family, set, ElementKey::Address(addr));
        self.push(key, ElementValue::Member, Some(comment));
    }

    /// Several Services may share an endpoint, so these elements carry no comment of one.
    fn hairpin(&mut self) {
        let protocol: Protocol = self.port.key.name.protocol;
        let family = self.port.key.family;
        for endpoint in self.port.reachable() {
            if endpoint.may_be_here {
                let key = ElementKey::Hairpin(endpoint.addr.ip(), protocol, endpoint.addr.port());
                let key = Key::Element(family, SetName::Hairpin, key);
                self.push(key, ElementValue::Member, None);
            }
        }
    }
}
