//! The endpoints that a client of one service port may be sent to.
//!
//! Source of the rules: `CategorizeEndpoints` in Kubernetes' `pkg/proxy/topology.go`, KEP-1669
//! (serving and terminating), KEP-2433 and KEP-3015 (topology hints).

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::num::NonZeroU16;

use crate::Scope;
use crate::state::ServiceEntry;
use sluice_model::{Endpoint, EndpointSlice, IpFamily, NamespacedName, Protocol, ServicePortName};

/// One endpoint of a service port with its slice.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// Address and port of the endpoint.
    pub addr: SocketAddr,
    /// The entry in the slice.
    pub endpoint: &'a Endpoint,
    pub slice: &'a NamespacedName,
    /// Whether the endpoint runs on this node.
    pub local: bool,
}

impl Candidate<'_> {
    /// Whether it may run on this node: it does, or its slice does not name its node. A slice that
    /// somebody writes by hand, or that mirrors Endpoints, may lack `nodeName`.
    pub fn may_be_here(&self) -> bool {
        self.local || self.endpoint.node.is_none()
    }

    /// May get new connections.
    pub fn is_ready(&self) -> bool {
        self.endpoint.conditions.ready
    }

    /// Why it is not in the pool.
    pub(crate) fn why_not(&self, scope: Scope, topology: Topology) -> &'static str {
        let conditions = self.endpoint.conditions;
        let is_elsewhere = scope == Scope::Local && !self.local;
        match (scope, topology) {
            _ if !conditions.ready && conditions.is_fallback() && !is_elsewhere => {
                "terminating, and others are ready"
            }
            _ if !conditions.ready && !conditions.is_fallback() => {
                if conditions.terminating {
                    "terminating"
                } else {
                    "not ready"
                }
            }
            (Scope::Local, _) if self.endpoint.node.is_none() => {
                "has no nodeName, and the policy is Local"
            }
            (Scope::Local, _) => "on another node and the policy is Local",
            (Scope::Cluster, Topology::SameNode) => "hinted for another node",
            (Scope::Cluster, Topology::SameZone) => "hinted for another zone",
            (Scope::Cluster, Topology::Anywhere) => "would be chosen for another client",
        }
    }
}

/// The slices of a Service in one family by the ports that they name. A slice may name as many
/// ports as the Service has: without an index each port would search them all.
pub(crate) struct SlicePorts<'a> {
    by_port: HashMap<(&'a str, Protocol), Vec<(&'a EndpointSlice, NonZeroU16)>>,
    family: IpFamily,
    /// The first slice by name that has an endpoint.
    first: Option<&'a EndpointSlice>,
}

impl<'a> SlicePorts<'a> {
    pub(crate) fn new(entry: &'a ServiceEntry, family: IpFamily) -> Self {
        let mut by_port: HashMap<_, Vec<_>> = HashMap::new();
        let mut first = None;
        for slice in entry.slices_of(family).filter(|it| !it.headless) {
            if !slice.endpoints.is_empty() {
                first.get_or_insert(slice);
            }
            for it in &slice.ports {
                let port = by_port.entry((&*it.name, it.protocol)).or_default();
                port.push((slice, it.port));
            }
        }
        Self {
            by_port,
            family,
            first,
        }
    }

    fn of<'b>(&'b self, port: &'b ServicePortName) -> &'b [(&'a EndpointSlice, NonZeroU16)] {
        let slices = self.by_port.get(&(&*port.port, port.protocol));
        slices.map_or(&[], Vec::as_slice)
    }

    pub(crate) fn slices(&self, port: &ServicePortName) -> usize {
        self.of(port).len()
    }

    /// The slice to look at when there are endpoints and no slice names the port.
    pub(crate) fn mismatch(&self, port: &ServicePortName) -> Option<&'a EndpointSlice> {
        self.first.filter(|_| self.of(port).is_empty())
    }

    /// Endpoints of a port, with duplicates.
    pub(crate) fn endpoints(&self, port: &ServicePortName) -> usize {
        let slices = self.of(port).iter();
        slices.map(|(slice, _)| slice.endpoints.len()).sum()
    }

    /// Every endpoint of one service port, with duplicates, by slice.
    pub(crate) fn entries<'b>(
        &'b self,
        port: &'b ServicePortName,
        node_name: &'b str,
    ) -> impl Iterator<Item = Candidate<'a>> + use<'a, 'b> {
        let family = self.family;
        self.of(port).iter().flat_map(move |&(slice, number)| {
            let endpoints = slice.endpoints.iter();
            let endpoints = endpoints.filter(move |it| IpFamily::of(&it.address) == family);
            endpoints.map(move |endpoint| Candidate {
                addr: SocketAddr::new(endpoint.address, number.get()),
                endpoint,
                slice: &slice.name,
                local: endpoint.node.as_deref() == Some(node_name),
            })
        })
    }
}

/// The endpoints of one service port in one family, without duplicates, by address.
///
/// When two slices name the same address and port, a terminating one never replaces another;
/// between two live ones the later slice by name wins.
#[must_use]
pub(crate) fn candidates<'a>(
    slices: &SlicePorts<'a>,
    port: &ServicePortName,
    node_name: &str,
) -> Vec<Candidate<'a>> {
    let mut found: BTreeMap<SocketAddr, Candidate<'a>> = BTreeMap::new();
    for candidate in slices.entries(port, node_name) {
        if !candidate.endpoint.conditions.terminating || !found.contains_key(&candidate.addr) {
            found.insert(candidate.addr, candidate);
        }
    }
    found.into_values().collect()
}

/// The lists of endpoints that a service port needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uses {
    /// Whether some clients use endpoints of every node.
    pub cluster: bool,
    /// Whether some clients use endpoints of this node only.
    pub local: bool,
}

/// How topology narrows the cluster list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Topology {
    /// Every endpoint.
    #[default]
    Anywhere,
    /// Endpoints with a hint for this node.
    SameNode,
    /// Endpoints with a hint for this node's zone.
    SameZone,
}

impl Topology {
    /// Hints apply only if every ready endpoint has one, and at least one names this node or zone.
    fn of(candidates: &[Candidate<'_>], node_name: &str, zone: Option<&str>) -> Self {
        let ready = || candidates.iter().filter(|it| it.is_ready());
        let any_admitted = |by: Self| ready().any(|it| by.admits(it, node_name, zone));
        let all_name_nodes = ready().all(|it| !it.endpoint.hints.nodes().is_empty());
        let all_name_zones = ready().all(|it| !it.endpoint.hints.zones().is_empty());
        if all_name_nodes && any_admitted(Self::SameNode) {
            Self::SameNode
        } else if all_name_zones && any_admitted(Self::SameZone) {
            Self::SameZone
        } else {
            Self::Anywhere
        }
    }

    fn admits(self, candidate: &Candidate<'_>, node_name: &str, zone: Option<&str>) -> bool {
        let endpoint = candidate.endpoint;
        match self {
            Self::Anywhere => true,
            Self::SameNode => endpoint.hints.nodes().iter().any(|it| &**it == node_name),
            Self::SameZone => endpoint.hints.zones().iter().any(|it| Some(&**it) == zone),
        }
    }
}

/// The lists of endpoints that the clients of one service port are balanced over.
#[derive(Clone, Debug, Default)]
pub struct Categorized {
    /// How topology narrowed the cluster list.
    pub topology: Topology,
    /// Indices of the candidates that any client may be sent to; empty when not used.
    pub cluster: Vec<usize>,
    /// Indices of the candidates of this node; empty when not used.
    pub local: Vec<usize>,
    /// Some endpoint in the cluster would answer. Decides between drop and reject.
    pub has_any: bool,
}

/// Sorts the candidates of one service port into the lists.
#[must_use]
pub fn categorize(
    candidates: &[Candidate<'_>],
    uses: Uses,
    node_name: &str,
    zone: Option<&str>,
) -> Categorized {
    let select = |is_used: bool, admits: &dyn Fn(&Candidate<'_>) -> bool| -> Vec<usize> {
        let all = candidates.iter().enumerate().filter(|_| is_used);
        let admitted = all.filter(|(_, it)| admits(it));
        admitted.map(|(index, _)| index).collect()
    };
    let is_fallback = |it: &Candidate<'_>| it.endpoint.conditions.is_fallback();
    let topology = if uses.cluster {
        Topology::of(candidates, node_name, zone)
    } else {
        Topology::Anywhere
    };
    let is_near = |it: &Candidate<'_>| it.is_ready() && topology.admits(it, node_name, zone);
    let mut cluster = select(uses.cluster, &is_near);
    if cluster.is_empty() {
        cluster = select(uses.cluster, &is_fallback);
    }
    let mut local = select(uses.local, &|it| it.local && it.is_ready());
    if local.is_empty() {
        local = select(uses.local, &|it| it.local && is_fallback(it));
    }
    let answers = |it: &Candidate<'_>| it.is_ready() || is_fallback(it);
    let has_any = !cluster.is_empty() || (uses.local && candidates.iter().any(answers));
    Categorized {
        topology,
        cluster,
        local,
        has_any,
    }
}
