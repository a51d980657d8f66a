//! The plan of one service port in one family: a pure function of its objects.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use crate::endpoints::{Candidate, Categorized, Uses, candidates, categorize};
use crate::model::{
    ClusterIps, IpFamily, IpMode, Protocol, Service, ServiceKind, ServicePort, ServicePortName,
    SessionAffinity, TrafficPolicy,
};
use crate::plan::{NodePlan, Pool, PoolEndpoint, Scope};
use crate::state::ServiceEntry;

/// Identity of a [`PortPlan`]: a service port in one family.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortKey {
    /// The service port.
    pub name: ServicePortName,
    /// The family.
    pub family: IpFamily,
}

/// What clients dial. Protocol is part of it: DNS serves TCP and UDP on one address and port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Frontend {
    /// A virtual IP with a port.
    Address {
        /// The virtual IP.
        addr: IpAddr,
        /// The port.
        port: u16,
        /// The protocol.
        protocol: Protocol,
    },
    /// A port of every address of the node that answers on NodePorts.
    NodePort {
        /// Family of the addresses.
        family: IpFamily,
        /// The port.
        port: u16,
        /// The protocol.
        protocol: Protocol,
    },
}

impl Frontend {
    /// The protocol.
    pub fn protocol(&self) -> Protocol {
        match self {
            Self::Address { protocol, .. } | Self::NodePort { protocol, .. } => *protocol,
        }
    }

    /// The port that clients dial.
    pub fn port(&self) -> u16 {
        match self {
            Self::Address { port, .. } | Self::NodePort { port, .. } => *port,
        }
    }

    /// The family.
    pub fn family(&self) -> IpFamily {
        match self {
            Self::Address { addr, .. } => IpFamily::of(addr),
            Self::NodePort { family, .. } => *family,
        }
    }
}

impl fmt::Display for Frontend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address {
                addr,
                port,
                protocol,
            } => write!(f, "{}/{protocol}", SocketAddr::new(*addr, *port)),
            Self::NodePort {
                family,
                port,
                protocol,
            } => write!(f, "{family} NodePort {port}/{protocol}"),
        }
    }
}

/// Why a frontend exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// `spec.clusterIPs`.
    ClusterIp,
    /// `status.loadBalancer.ingress`.
    LoadBalancer,
    /// `spec.externalIPs`.
    ExternalIp,
    /// `spec.ports[].nodePort`.
    NodePort,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::ClusterIp => "ClusterIP",
            Self::LoadBalancer => "LoadBalancer",
            Self::ExternalIp => "ExternalIP",
            Self::NodePort => "NodePort",
        })
    }
}

/// What happens to a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Goes to a random endpoint of this pool, which exists in the same [`PortPlan`].
    Balance(Scope),
    /// Vanishes: a Local policy and no endpoint here. The sender may try another node.
    Drop,
    /// Is refused: no endpoint anywhere.
    Reject,
}

/// Who gets which verdict, and whether the source address is replaced on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Route {
    /// ClusterIP: one verdict for all; masqueraded as [`NodePlan`] says for ClusterIPs.
    Internal(Verdict),
    /// External with policy Cluster, or nothing to send to: one verdict for all, always
    /// masqueraded, since the reply must come back through this node.
    External(Verdict),
    /// External with policy Local. Pods of this node keep their address and go to the cluster
    /// pool, the node itself is masqueraded and goes to the cluster pool, everyone else gets
    /// `far` with the source address kept.
    ExternalLocal {
        /// Verdict for clients that are neither the node nor one of its pods.
        far: Verdict,
    },
}

/// One frontend of a service port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedFrontend {
    /// What clients dial.
    pub frontend: Frontend,
    /// Why it exists.
    pub role: Role,
    /// Where packets go.
    pub route: Route,
    /// Sources that may connect, none overlapping; `None` admits everyone, an empty list nobody.
    pub allowed_sources: Option<Vec<IpNet>>,
}

/// The plan of one service port in one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortPlan {
    /// Which service port and family.
    pub key: PortKey,
    /// Seconds a client stays with its endpoint after its last new connection; `None` without
    /// session affinity.
    pub affinity_seconds: Option<u32>,
    /// The ClusterIP whose undefined ports are refused on behalf of this port: set on exactly one
    /// port of the one Service that owns the address.
    pub guarded_cluster_ip: Option<IpAddr>,
    /// Endpoints for clients that go anywhere; `None` when empty or unused.
    pub cluster: Option<Pool>,
    /// Endpoints for clients that stay on this node; `None` when empty or unused.
    pub local: Option<Pool>,
    /// The frontends that this port owns.
    pub frontends: Vec<PlannedFrontend>,
    /// UDP only: every endpoint that serves, whatever the policy. Flows to any other are stale.
    pub serving: Vec<SocketAddr>,
}

impl PortPlan {
    /// The pool of a scope.
    pub fn pool(&self, scope: Scope) -> Option<&Pool> {
        match scope {
            Scope::Cluster => self.cluster.as_ref(),
            Scope::Local => self.local.as_ref(),
        }
    }

    /// Every endpoint of both pools once, by address.
    pub fn reachable(&self) -> Vec<&PoolEndpoint> {
        let pools = [&self.cluster, &self.local];
        let mut all: Vec<_> = pools
            .into_iter()
            .flatten()
            .flat_map(Pool::endpoints)
            .collect();
        all.sort_by_key(|it| it.addr);
        all.dedup_by_key(|it| it.addr);
        all
    }
}

/// A frontend that a service port asks for. Whether it gets it is decided by
/// [`Claims`](crate::plan::Claims).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) frontend: Frontend,
    pub(crate) role: Role,
}

/// Whether a proxy serves this Service at all.
pub(crate) fn is_served(service: &Service) -> bool {
    service.proxy_name.is_none()
        && service.kind != ServiceKind::ExternalName
        && matches!(&service.cluster_ips, ClusterIps::Assigned(ips) if !ips.is_empty())
}

/// The first ClusterIP of a family.
pub(crate) fn cluster_ip(service: &Service, family: IpFamily) -> Option<IpAddr> {
    match &service.cluster_ips {
        ClusterIps::Assigned(ips) => ips.iter().copied().find(|ip| IpFamily::of(ip) == family),
        ClusterIps::Headless | ClusterIps::Unassigned => None,
    }
}

/// The frontends a service port asks for in one family, each once, the ClusterIP first.
pub(crate) fn wanted(service: &Service, port: &ServicePort, family: IpFamily) -> Vec<Wanted> {
    let Some(cluster_ip) = cluster_ip(service, family) else {
        return Vec::new();
    };
    let protocol = port.protocol;
    let address = |addr, role| Wanted {
        frontend: Frontend::Address {
            addr,
            port: port.port.get(),
            protocol,
        },
        role,
    };
    let of_family = |ip: &IpAddr| IpFamily::of(ip) == family;
    let load_balancer = service.load_balancer.iter();
    let load_balancer = load_balancer
        .filter(|it| it.mode == IpMode::Vip)
        .map(|it| it.ip);
    let mut all = vec![address(cluster_ip, Role::ClusterIp)];
    all.extend(
        load_balancer
            .filter(of_family)
            .map(|ip| address(ip, Role::LoadBalancer)),
    );
    all.extend(
        service
            .external_ips
            .iter()
            .copied()
            .filter(of_family)
            .map(|ip| address(ip, Role::ExternalIp)),
    );
    all.extend(port.node_port.map(|node_port| Wanted {
        frontend: Frontend::NodePort {
            family,
            port: node_port.get(),
            protocol,
        },
        role: Role::NodePort,
    }));
    let mut seen = std::collections::HashSet::new();
    all.retain(|it| seen.insert(it.frontend));
    all
}

/// Everything that the plan of a port is a function of, beside the port itself.
pub(crate) struct Inputs<'a> {
    pub(crate) entry: &'a ServiceEntry,
    pub(crate) service: &'a Service,
    pub(crate) node: &'a NodePlan,
    pub(crate) node_name: &'a str,
}

impl<'a> Inputs<'a> {
    /// The endpoints of one of the Service's ports.
    pub(crate) fn candidates(&self, key: &PortKey) -> Vec<Candidate<'a>> {
        let slices = self.entry.slices.values().map(AsRef::as_ref);
        candidates(slices, &key.name, key.family, self.node_name)
    }

    /// Which of them its clients may be sent to.
    pub(crate) fn categorize(
        &self,
        candidates: &[Candidate<'_>],
        wanted: &[Wanted],
    ) -> Categorized {
        let external = wanted.iter().any(|it| it.role != Role::ClusterIp);
        let service = self.service;
        let uses = Uses::new(service.internal_policy, service.external_policy, external);
        categorize(candidates, uses, self.node_name, self.node.zone.as_deref())
    }
}

/// Decides the fate of every packet to the frontends that the port owns.
///
/// `owned` are the wanted frontends that no senior Service holds; `wanted` all of them, since a
/// port that lost its NodePort to another Service is still planned as externally accessible.
pub(crate) fn plan_port(
    inputs: &Inputs<'_>,
    key: PortKey,
    wanted: &[Wanted],
    owned: &[Wanted],
    guarded_cluster_ip: Option<IpAddr>,
) -> PortPlan {
    let service = inputs.service;
    let candidates = inputs.candidates(&key);
    let sorted = inputs.categorize(&candidates, wanted);
    let pool = |indices: &[usize]| {
        let members = indices.iter().map(|&index| PoolEndpoint {
            addr: candidates[index].addr,
            local: candidates[index].local,
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
    let external = verdict(service.external_policy);
    let route = |role| match (role, service.external_policy) {
        (Role::ClusterIp, _) => Route::Internal(verdict(service.internal_policy)),
        (_, TrafficPolicy::Local) if external != Verdict::Reject => {
            Route::ExternalLocal { far: external }
        }
        _ => Route::External(external),
    };
    let frontends = owned.iter().map(|it| PlannedFrontend {
        frontend: it.frontend,
        role: it.role,
        route: route(it.role),
        allowed_sources: match (it.role, it.frontend) {
            (Role::LoadBalancer, Frontend::Address { addr, .. }) => {
                allowed_sources(&service.source_ranges, addr, inputs.node)
            }
            _ => None,
        },
    });
    let serves =
        |it: &&Candidate<'_>| it.endpoint.conditions.ready || it.endpoint.conditions.serving;
    PortPlan {
        affinity_seconds: match service.affinity {
            SessionAffinity::None => None,
            SessionAffinity::ClientIp { timeout_seconds } => Some(timeout_seconds),
        },
        guarded_cluster_ip,
        cluster: pool(&sorted.cluster),
        local: pool(&sorted.local),
        frontends: frontends.collect(),
        serving: match key.name.protocol {
            Protocol::Udp => candidates.iter().filter(serves).map(|it| it.addr).collect(),
            Protocol::Tcp | Protocol::Sctp => Vec::new(),
        },
        key,
    }
}

/// Who may connect to a load balancer address. A node that talks to an address bound to itself
/// has that address as its source, so it is admitted when the node's own address would be.
fn allowed_sources(ranges: &[IpNet], vip: IpAddr, node: &NodePlan) -> Option<Vec<IpNet>> {
    let family = IpFamily::of(&vip);
    let mut allowed: Vec<IpNet> = ranges
        .iter()
        .filter(|net| IpFamily::of_net(net) == family)
        .map(IpNet::trunc)
        .collect();
    if allowed.is_empty() || allowed.iter().any(|net| net.prefix_len() == 0) {
        return None;
    }
    let node_ip = node.family(family).node_ip;
    if node_ip.is_some_and(|ip| allowed.iter().any(|net| net.contains(&ip))) {
        allowed.push(IpNet::from(vip));
    }
    Some(IpNet::aggregate(&allowed))
}
