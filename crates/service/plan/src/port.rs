//! The plan of one service port in one family: a pure function of its objects.

use std::cell::LazyCell;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::sync::Arc;

use ipnet::IpNet;

use crate::endpoints::{Candidate, Categorized, SlicePorts, Uses, candidates, categorize};
use crate::node::of_family;
use crate::settings::Settings;
use crate::state::ClusterState;
use crate::{Direct, Frontend, NodePlan, Pool, PoolEndpoint, Role, Route, Scope, Verdict};
use sluice_model::{
    Algorithm, ClusterIps, IpFamily, IpMode, NamespacedName, Protocol, Service, ServiceKind,
    ServicePort, ServicePortName, SessionAffinity, TrafficPolicy,
};

/// Identity of a [`PortPlan`]: a service port in one family.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortKey {
    /// The service port.
    pub name: ServicePortName,
    pub family: IpFamily,
}

impl PortKey {
    /// The first key that a port of a Service may have: the keys of its ports follow one another.
    pub fn first_of(service: &NamespacedName) -> Self {
        Self {
            name: ServicePortName {
                service: service.clone(),
                port: "".into(),
                protocol: Protocol::Tcp,
            },
            family: IpFamily::V4,
        }
    }

    /// The entries of a Service's ports.
    pub fn of_service<'a, T>(
        all: &'a BTreeMap<Self, T>,
        service: &'a NamespacedName,
    ) -> impl Iterator<Item = (&'a Self, &'a T)> {
        let entries = all.range(Self::first_of(service)..);
        entries.take_while(move |(key, _)| key.name.service == *service)
    }
}

/// One frontend of a service port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedFrontend {
    pub frontend: Frontend,
    /// The field of the Service that asks for it.
    pub role: Role,
    /// The verdict for each kind of client.
    pub route: Route,
    /// Source ranges that may connect, none overlapping; `None` admits every source, an empty list none.
    pub allowed_sources: Option<Arc<[IpNet]>>,
}

impl PlannedFrontend {
    /// Whether this source may connect.
    pub fn admits(&self, source: IpAddr) -> bool {
        let allowed = self.allowed_sources.as_ref();
        allowed.is_none_or(|nets| nets.iter().any(|it| it.contains(&source)))
    }
}

/// The plan of one service port in one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortPlan {
    /// Service, port, protocol and IP family.
    pub key: PortKey,
    /// The IPVS scheduler that the Service asks for (annotation `sluice.dev/ipvs-scheduler`).
    pub scheduler: Option<Arc<str>>,
    /// How the eBPF data plane chooses an endpoint, where the Service says so (annotation
    /// `sluice.dev/lb-algorithm`).
    pub algorithm: Option<Algorithm>,
    /// Port of the node on which load balancers check the Service's health.
    pub health_check_node_port: Option<u16>,
    /// Seconds a client stays with its endpoint after its last new connection; `None` without
    /// session affinity.
    pub affinity_seconds: Option<u32>,
    /// The ClusterIP whose undefined ports are rejected: set on exactly one port of the one Service
    /// that owns the address.
    pub owned_cluster_ip: Option<IpAddr>,
    /// Endpoints of the whole cluster; `None` when empty or unused.
    pub cluster: Option<Pool>,
    /// Endpoints of this node; `None` when empty or unused.
    pub local: Option<Pool>,
    /// The frontends that this port owns.
    pub frontends: Vec<PlannedFrontend>,
    /// Every endpoint that serves, under any policy: connections to others are stale. `None`: clients notice
    /// by themselves ([`Settings::stale_tcp`](crate::settings::Settings::stale_tcp)).
    pub serving: Option<Vec<SocketAddr>>,
}

impl PortPlan {
    pub fn pool(&self, scope: Scope) -> Option<&Pool> {
        match scope {
            Scope::Cluster => self.cluster.as_ref(),
            Scope::Local => self.local.as_ref(),
        }
    }

    /// Whether an endpoint replies to clients by direct server return.
    pub fn has_direct_return(&self) -> bool {
        let pools = [&self.cluster, &self.local].into_iter().flatten();
        let mut endpoints = pools.flat_map(|it| it.endpoints());
        endpoints.any(|it| it.direct.is_some())
    }

    /// No endpoint anywhere answers, so clients are rejected.
    pub fn is_without_endpoints(&self) -> bool {
        let mut routes = self.frontends.iter().map(|it| it.route);
        routes.any(|it| {
            matches!(
                it,
                Route::Internal(Verdict::Reject) | Route::External(Verdict::Reject)
            )
        })
    }

    /// Endpoints of both pools.
    pub fn members(&self) -> usize {
        let pools = [&self.cluster, &self.local].into_iter().flatten();
        pools.map(|it| it.endpoints().len()).sum()
    }

    /// Endpoints of both pools, once per frontend that may lead to them.
    pub fn weight(&self) -> usize {
        self.members() * self.frontends.len()
    }

    /// Members of the longest list of sources that may connect.
    pub fn sources(&self) -> usize {
        let lists = self
            .frontends
            .iter()
            .filter_map(|it| it.allowed_sources.as_ref());
        lists.map(|it| it.len()).max().unwrap_or_default()
    }

    /// Every endpoint of both pools once, by address.
    pub fn reachable(&self) -> Vec<&PoolEndpoint> {
        let pools = [&self.cluster, &self.local].into_iter().flatten();
        let mut all: Vec<_> = pools.flat_map(Pool::endpoints).collect();
        all.sort_by_key(|it| it.addr);
        all.dedup_by_key(|it| it.addr);
        all
    }
}

/// A frontend that a service port asks for. [`Claims`](crate::Claims) decides who owns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) frontend: Frontend,
    pub(crate) role: Role,
}

/// Whether Sluice serves this Service at all.
pub(crate) fn is_served(service: &Service) -> bool {
    service.proxy_name.is_none()
        && service.kind != ServiceKind::ExternalName
        && matches!(&service.cluster_ips, ClusterIps::Assigned(ips) if !ips.is_empty())
}

/// The policy for external traffic: Cluster for a Service without external traffic, whose field may
/// be left from an earlier type (`ExternalPolicyLocal` in Kubernetes' `pkg/api/v1/service`).
pub(crate) fn external_policy(service: &Service) -> TrafficPolicy {
    let reachable = match service.kind {
        ServiceKind::NodePort | ServiceKind::LoadBalancer => true,
        ServiceKind::ClusterIp => !service.external_ips.is_empty(),
        ServiceKind::ExternalName => false,
    };
    if reachable {
        service.external_policy
    } else {
        TrafficPolicy::Cluster
    }
}

/// The first ClusterIP of a family.
pub(crate) fn cluster_ip(service: &Service, family: IpFamily) -> Option<IpAddr> {
    match &service.cluster_ips {
        ClusterIps::Assigned(ips) => ips.iter().copied().find(|ip| IpFamily::of(ip) == family),
        ClusterIps::Headless | ClusterIps::Unassigned => None,
    }
}

/// The addresses that a Service names in one family, the ClusterIP first; none without one.
pub(crate) fn addresses(
    service: &Service,
    family: IpFamily,
) -> impl Iterator<Item = (IpAddr, Role)> {
    let cluster_ip = cluster_ip(service, family);
    let load_balancer = virtual_ips(service).map(|ip| (ip, Role::LoadBalancer));
    let external = service.external_ips.iter();
    let external = external.map(|ip| (*ip, Role::ExternalIp));
    let others = load_balancer.chain(external);
    let others = others.filter(move |(ip, _)| cluster_ip.is_some() && IpFamily::of(ip) == family);
    let cluster_ip = cluster_ip.map(|ip| (ip, Role::ClusterIp));
    cluster_ip.into_iter().chain(others)
}

/// The frontends that a service port asks for at these addresses, the ClusterIP first and the
/// NodePort last.
pub(crate) fn wanted(
    addresses: &[(IpAddr, Role)],
    port: &ServicePort,
    family: IpFamily,
) -> impl Iterator<Item = Wanted> {
    let (number, protocol) = (port.port.get(), port.protocol);
    let node_port = port.node_port.map(|node_port| Wanted {
        frontend: Frontend::NodePort {
            family,
            port: node_port.get(),
            protocol,
        },
        role: Role::NodePort,
    });
    let address = move |&(addr, role): &(IpAddr, Role)| Wanted {
        frontend: Frontend::Address {
            addr,
            port: number,
            protocol,
        },
        role,
    };
    addresses.iter().map(address).chain(node_port)
}

/// The input of a port's plan, apart from the port itself.
pub(crate) struct Inputs<'a> {
    pub(crate) service: &'a Service,
    /// IPv4 and IPv6, in this order.
    pub(crate) slices: [SlicePorts<'a>; 2],
    /// The health check node port, where the Service owns it; IPv4 and IPv6.
    pub(crate) health_check_node_port: [Option<u16>; 2],
    pub(crate) node: &'a NodePlan,
    pub(crate) settings: &'a Settings,
    pub(crate) state: &'a ClusterState,
}

impl<'a> Inputs<'a> {
    pub(crate) fn slices(&self, family: IpFamily) -> &SlicePorts<'a> {
        &self.slices[family as usize]
    }

    /// The endpoints of one of the Service's ports, sorted into the lists that clients are balanced
    /// over.
    pub(crate) fn categorize(
        &self,
        key: &PortKey,
        wanted: &[Wanted],
    ) -> (Vec<Candidate<'a>>, Categorized) {
        let candidates = candidates(self.slices(key.family), &key.name, &self.settings.node_name);
        let internal = self.service.internal_policy;
        let external = external_policy(self.service);
        let is_external = wanted.iter().any(|it| !it.role.is_internal());
        // Other nodes send to endpoints of this node, which has to know them whatever their zone.
        let has_direct_return = self.settings.direct_return.is_of(self.service.forwarding);
        // The node and its pods reach even a Local external frontend through the cluster list.
        let uses = Uses {
            cluster: internal == TrafficPolicy::Cluster || is_external,
            local: internal == TrafficPolicy::Local
                || (is_external && (external == TrafficPolicy::Local || has_direct_return)),
        };
        let zone = self.node.zone.as_deref();
        let categorized = categorize(&candidates, uses, &self.settings.node_name, zone);
        (candidates, categorized)
    }
}

/// Decides the verdict on every packet to the frontends that the port owns.
///
/// `owned` are the wanted frontends that no senior Service holds. The endpoints are those of
/// [`Inputs::categorize`] for all wanted ones, since a port that lost its NodePort to another Service is
/// still planned as externally accessible.
pub(crate) fn plan_port(
    inputs: &Inputs<'_>,
    key: PortKey,
    endpoints: (&[Candidate<'_>], &Categorized),
    owned: &[Wanted],
    owned_cluster_ip: Option<IpAddr>,
) -> PortPlan {
    let service = inputs.service;
    let (candidates, sorted) = endpoints;
    let has_direct_return = inputs.settings.direct_return.is_of(service.forwarding);
    let pool = |indices: &[usize]| {
        let members = indices.iter().map(|&index| PoolEndpoint {
            addr: candidates[index].addr,
            may_be_here: candidates[index].may_be_here(),
            weight: candidates[index].endpoint.weight,
            direct: has_direct_return
                .then(|| direct(inputs, &candidates[index]))
                .flatten(),
            target: candidates[index].endpoint.target.clone(),
        });
        Pool::new(members.collect())
    };
    let verdict = |policy| match policy {
        _ if !sorted.has_any => Verdict::Reject,
        TrafficPolicy::Cluster => Verdict::Balance(Scope::Cluster),
        TrafficPolicy::Local if sorted.local.is_empty() => Verdict::Drop,
        TrafficPolicy::Local => Verdict::Balance(Scope::Local),
    };
    let external = verdict(external_policy(service));
    let route = |role| match (role, external_policy(service)) {
        (Role::NodeDns | Role::ClusterIp, _) => Route::Internal(verdict(service.internal_policy)),
        (_, TrafficPolicy::Local) if external != Verdict::Reject => {
            Route::ExternalLocal { far: external }
        }
        _ => Route::External(external),
    };
    let allowed = LazyCell::new(|| allowed_sources(service, key.family, inputs.node));
    let frontends = owned.iter().map(|it| PlannedFrontend {
        frontend: it.frontend,
        role: it.role,
        route: route(it.role),
        allowed_sources: match it.role {
            Role::LoadBalancer => allowed.clone(),
            Role::NodeDns | Role::ClusterIp | Role::ExternalIp | Role::NodePort => None,
        },
    });
    let serves =
        |it: &&Candidate<'_>| it.endpoint.conditions.ready || it.endpoint.conditions.serving;
    let serving = || candidates.iter().filter(serves).map(|it| it.addr).collect();
    PortPlan {
        scheduler: service.ipvs_scheduler.clone(),
        algorithm: service.algorithm,
        health_check_node_port: inputs.health_check_node_port[key.family as usize],
        affinity_seconds: match service.affinity {
            SessionAffinity::None => None,
            SessionAffinity::ClientIp { timeout_seconds } => Some(timeout_seconds),
        },
        owned_cluster_ip,
        cluster: pool(&sorted.cluster),
        local: pool(&sorted.local),
        frontends: frontends.collect(),
        serving: match key.name.protocol {
            Protocol::Udp => Some(serving()),
            Protocol::Tcp if inputs.settings.stale_tcp => Some(serving()),
            Protocol::Tcp | Protocol::Sctp => None,
        },
        key,
    }
}

/// How an endpoint replies to clients by direct server return.
fn direct(inputs: &Inputs<'_>, candidate: &Candidate<'_>) -> Option<Direct> {
    if candidate.local {
        return Some(Direct::Here);
    }
    let node = inputs.state.node(candidate.endpoint.node.as_deref()?)?;
    let family = IpFamily::of(&candidate.addr.ip());
    // The tunnel carries both families in either.
    let own = node.addresses.iter().find(|it| IpFamily::of(it) == family);
    own.or(node.addresses.first()).map(|it| Direct::Node(*it))
}

/// The health-check node port of a Service, if its type and policy use one
/// (`ServiceNeedsHealthCheck` in Kubernetes' `pkg/api/v1/service`).
pub(crate) fn health_check_node_port(service: &Service) -> Option<NonZeroU16> {
    let asked = service.kind == ServiceKind::LoadBalancer
        && external_policy(service) == TrafficPolicy::Local;
    service.health_check_node_port.filter(|_| asked)
}

/// The sources that may connect to the load balancer's addresses. Where such an address is bound to
/// the node, it is the source of the node's own packets; it is admitted if the node's address is.
fn allowed_sources(service: &Service, family: IpFamily, node: &NodePlan) -> Option<Arc<[IpNet]>> {
    let mut allowed = of_family(&service.source_ranges, family);
    if allowed.is_empty() || allowed.iter().any(|net| net.prefix_len() == 0) {
        return None;
    }
    let node_ip = node.family(family).node_ip;
    if node_ip.is_some_and(|ip| allowed.iter().any(|net| net.contains(&ip))) {
        let vips = virtual_ips(service).filter(|ip| IpFamily::of(ip) == family);
        allowed.extend(vips.map(IpNet::from));
    }
    Some(IpNet::aggregate(&allowed).into())
}

/// The load balancer addresses that nodes answer to.
pub(crate) fn virtual_ips(service: &Service) -> impl Iterator<Item = IpAddr> {
    let ingress = service.load_balancer.iter();
    ingress.filter(|it| it.mode == IpMode::Vip).map(|it| it.ip)
}
