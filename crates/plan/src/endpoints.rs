//! Which endpoints a client of one service port may be sent to.
//!
//! Source of the rules: `CategorizeEndpoints` in Kubernetes' `pkg/proxy/topology.go`, KEP-1669
//! (serving and terminating), KEP-2433 and KEP-3015 (topology hints).

use std::collections::BTreeMap;
use std::net::SocketAddr;

use sluice_model::{
    AddressType, Endpoint, EndpointSlice, IpFamily, NamespacedName, ServicePortName, TrafficPolicy,
};

/// One endpoint of a service port with the slice it was taken from.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// Where it listens.
    pub addr: SocketAddr,
    /// What the slice says about it.
    pub endpoint: &'a Endpoint,
    /// The slice.
    pub slice: &'a NamespacedName,
    /// It runs on this node.
    pub local: bool,
}

impl Candidate<'_> {
    /// May get new connections.
    pub fn is_ready(&self) -> bool {
        self.endpoint.conditions.ready
    }

    fn is_fallback(&self) -> bool {
        self.endpoint.conditions.is_fallback()
    }
}

/// The endpoints of one service port in one family, without duplicates, by address.
///
/// When two slices name the same address and port, a terminating one never replaces another;
/// between two live ones the later slice by name wins.
#[must_use]
pub fn candidates<'a>(
    slices: impl Iterator<Item = &'a EndpointSlice>,
    port: &ServicePortName,
    family: IpFamily,
    node_name: &str,
) -> Vec<Candidate<'a>> {
    let wanted = match family {
        IpFamily::V4 => AddressType::Ipv4,
        IpFamily::V6 => AddressType::Ipv6,
    };
    let mut found: BTreeMap<SocketAddr, Candidate<'a>> = BTreeMap::new();
    for slice in slices.filter(|it| it.address_type == wanted && !it.headless) {
        let numbers = slice
            .ports
            .iter()
            .filter(|it| it.name == port.port && it.protocol == port.protocol);
        for number in numbers {
            let endpoints = slice.endpoints.iter();
            for endpoint in endpoints.filter(|it| IpFamily::of(&it.address) == family) {
                let addr = SocketAddr::new(endpoint.address, number.port.get());
                let candidate = Candidate {
                    addr,
                    endpoint,
                    slice: &slice.name,
                    local: endpoint.node.as_deref() == Some(node_name),
                };
                if !endpoint.conditions.terminating || !found.contains_key(&addr) {
                    found.insert(addr, candidate);
                }
            }
        }
    }
    found.into_values().collect()
}

/// Which lists a service port needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uses {
    /// Some client goes to endpoints anywhere.
    pub cluster: bool,
    /// Some client goes to endpoints of this node only.
    pub local: bool,
}

impl Uses {
    /// `externally_accessible`: the port has a NodePort, a load balancer address or an external
    /// IP. Under a Local external policy the node's own clients still use the cluster list.
    pub fn new(
        internal: TrafficPolicy,
        external: TrafficPolicy,
        externally_accessible: bool,
    ) -> Self {
        Self {
            cluster: internal == TrafficPolicy::Cluster || externally_accessible,
            local: internal == TrafficPolicy::Local
                || (external == TrafficPolicy::Local && externally_accessible),
        }
    }
}

/// How topology narrows the cluster list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// Not at all.
    Anywhere,
    /// Only endpoints hinted for this node.
    SameNode,
    /// Only endpoints hinted for this node's zone.
    SameZone,
}

impl Topology {
    /// Every ready endpoint must carry a hint for the hints to count, and one must name us.
    fn of(candidates: &[Candidate<'_>], node_name: &str, zone: Option<&str>) -> Self {
        let ready = || candidates.iter().filter(|it| it.is_ready());
        if ready().next().is_none() {
            return Self::Anywhere;
        }
        let all_name_nodes = ready().all(|it| !it.endpoint.node_hints.is_empty());
        if all_name_nodes && ready().any(|it| Self::hints_node(it, node_name)) {
            return Self::SameNode;
        }
        let all_name_zones = ready().all(|it| !it.endpoint.zone_hints.is_empty());
        if all_name_zones && ready().any(|it| Self::hints_zone(it, zone)) {
            return Self::SameZone;
        }
        Self::Anywhere
    }

    fn admits(self, candidate: &Candidate<'_>, node_name: &str, zone: Option<&str>) -> bool {
        match self {
            Self::Anywhere => true,
            Self::SameNode => Self::hints_node(candidate, node_name),
            Self::SameZone => Self::hints_zone(candidate, zone),
        }
    }

    fn hints_node(candidate: &Candidate<'_>, node_name: &str) -> bool {
        let hints = &candidate.endpoint.node_hints;
        hints.iter().any(|it| &**it == node_name)
    }

    fn hints_zone(candidate: &Candidate<'_>, zone: Option<&str>) -> bool {
        let hints = &candidate.endpoint.zone_hints;
        zone.is_some_and(|zone| hints.iter().any(|it| &**it == zone))
    }
}

/// What becomes of the endpoints of one service port.
#[derive(Clone, Debug)]
pub struct Categorized {
    /// How topology narrowed the cluster list.
    pub topology: Topology,
    /// Indices of the candidates that any client may be sent to; empty when not used.
    pub cluster: Vec<usize>,
    /// Indices of the candidates of this node; empty when not used.
    pub local: Vec<usize>,
    /// Somewhere there is an endpoint that would answer: decides between drop and reject.
    pub has_any: bool,
}

/// Sorts the candidates of one service port into the lists its clients are balanced over.
#[must_use]
pub fn categorize(
    candidates: &[Candidate<'_>],
    uses: Uses,
    node_name: &str,
    zone: Option<&str>,
) -> Categorized {
    let select = |keep: &dyn Fn(&Candidate<'_>) -> bool| -> Vec<usize> {
        let kept = candidates.iter().enumerate().filter(|(_, it)| keep(it));
        kept.map(|(index, _)| index).collect()
    };
    let or_fallback = |ready: Vec<usize>, keep: &dyn Fn(&Candidate<'_>) -> bool| {
        if ready.is_empty() {
            select(keep)
        } else {
            ready
        }
    };
    let topology = if uses.cluster {
        Topology::of(candidates, node_name, zone)
    } else {
        Topology::Anywhere
    };
    let cluster = if uses.cluster {
        let ready = select(&|it| it.is_ready() && topology.admits(it, node_name, zone));
        or_fallback(ready, &|it| it.is_fallback())
    } else {
        Vec::new()
    };
    let local = if uses.local {
        let ready = select(&|it| it.local && it.is_ready());
        or_fallback(ready, &|it| it.local && it.is_fallback())
    } else {
        Vec::new()
    };
    let answers = |it: &Candidate<'_>| it.is_ready() || it.is_fallback();
    let has_any = !cluster.is_empty() || (uses.local && candidates.iter().any(answers));
    Categorized {
        topology,
        cluster,
        local,
        has_any,
    }
}
