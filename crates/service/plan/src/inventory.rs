//! What is known of Services, for `sluice status --services` and `--service`.
//!
//! ```text
//! ClusterState, Plan ──▶ ServiceSummary: a line each
//!                  └──▶ ServiceDetail: one Service with every endpoint
//! ```

mod frontends;

use std::collections::HashSet;
use std::net::SocketAddr;
use std::num::NonZeroU16;

use serde::{Deserialize, Serialize};

pub use frontends::{FrontendDetail, Group};

use crate::endpoints::{Candidate, Categorized};
use crate::port::external_policy;
use crate::state::ServiceEntry;
use crate::{Planner, PortKey, Scope};
use sluice_model::{
    AddressType, ClusterIps, IpFamily, NamespacedName, Service, ServiceKind, ServicePort,
    SessionAffinity, TrafficPolicy,
};

/// A Service in one line. Scripts read it: fields are added, not changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceSummary {
    /// `namespace/name`.
    pub name: String,
    /// `spec.type`; `Headless` for a Service without virtual IP.
    pub kind: String,
    /// What clients dial: `10.96.0.10:80/tcp`, `IPv4 NodePort 30080/tcp`.
    pub frontends: Vec<String>,
    /// Endpoints that are ready, counted once by address and port.
    pub ready: usize,
    /// Endpoints in its slices.
    pub endpoints: usize,
    /// A Service port is served and no endpoint of it answers.
    pub is_dead: bool,
    /// Its issues, a line each.
    pub issues: Vec<String>,
}

/// One Service with every endpoint. Scripts read it: fields are added, not changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceDetail {
    /// The Service in one line.
    pub summary: ServiceSummary,
    /// `internalTrafficPolicy`.
    pub internal_policy: String,
    /// `externalTrafficPolicy`.
    pub external_policy: String,
    /// Seconds a client stays with its endpoint; `None` without session affinity.
    pub affinity_seconds: Option<u32>,
    /// The EndpointSlices of the Service.
    pub slices: Vec<SliceSummary>,
    /// Its ports in each family.
    pub ports: Vec<PortDetail>,
    /// What is wrong with its objects as the source read them, although they are served.
    #[serde(default)]
    pub problems: Vec<String>,
}

/// An EndpointSlice in one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SliceSummary {
    /// `namespace/name`.
    pub name: String,
    /// `IPv4`, `IPv6` or `FQDN`.
    pub address_type: String,
    /// Its ports: `http 8080/tcp`.
    pub ports: Vec<String>,
    pub endpoints: usize,
    /// Number of ready endpoints.
    pub ready: usize,
}

/// A port of a Service in one family.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PortDetail {
    /// Name of the port; empty when it has none.
    pub port: String,
    /// The port of a virtual IP.
    pub number: u16,
    pub node_port: Option<u16>,
    /// `tcp`, `udp` or `sctp`.
    pub protocol: String,
    /// `IPv4` or `IPv6`.
    pub family: String,
    pub frontends: Vec<String>,
    /// Why each of `frontends` exists, in their order: `ClusterIP`, `LoadBalancer`, `ExternalIP`,
    /// `NodePort`.
    #[serde(default)]
    pub roles: Vec<String>,
    /// Which endpoints each of `frontends` uses, in their order.
    #[serde(default)]
    pub ways: Vec<FrontendDetail>,
    /// Its endpoints, by address.
    pub endpoints: Vec<EndpointDetail>,
}

/// An endpoint of a Service port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointDetail {
    pub address: SocketAddr,
    /// Its pod, if known.
    pub pod: Option<String>,
    /// The node it runs on; `None` outside the cluster.
    pub node: Option<String>,
    /// Its zone, if known.
    pub zone: Option<String>,
    /// It runs on this node.
    pub local: bool,
    /// `conditions.ready`.
    pub ready: bool,
    /// `conditions.serving`.
    pub serving: bool,
    /// `conditions.terminating`.
    pub terminating: bool,
    /// Some client of this node is sent to it.
    pub included: bool,
    /// Why not, or why though it is not ready; else empty.
    pub reason: String,
    /// The EndpointSlice that names it.
    pub slice: String,
}

/// The Services whose name fits a pattern, by name. In a pattern `*` stands for any text, and the pattern is the whole of
/// `namespace/name`, or without a slash of `name`; without `*` it may be any part of `namespace/name`.
#[must_use]
pub fn services(planner: &Planner, pattern: &str) -> Vec<ServiceSummary> {
    let mut walk = ServiceWalk::new(pattern);
    while !walk.step(planner) {}
    walk.finish()
}

/// [`services`] in steps.
#[derive(Debug)]
pub struct ServiceWalk {
    pattern: String,
    found: Vec<ServiceSummary>,
    last: Option<NamespacedName>,
}

impl ServiceWalk {
    /// The Services whose name fits this pattern.
    #[must_use]
    pub fn new(pattern: &str) -> Self {
        Self {
            pattern: pattern.to_owned(),
            found: Vec::new(),
            last: None,
        }
    }
}

impl Walk for ServiceWalk {
    type Answer = Vec<ServiceSummary>;

    fn step(&mut self, planner: &Planner) -> bool {
        for (name, entry) in next_services(planner, &mut self.last) {
            if let Some(service) = entry.service.as_deref()
                && fits(&self.pattern, &name.to_string())
            {
                self.found.push(summary(planner, service));
            }
        }
        self.last.is_none()
    }

    fn finish(self) -> Vec<ServiceSummary> {
        self.found
    }
}

/// Services that one step of a walk looks at.
const STEP: usize = 512;

/// The Services of the next step of a walk. `last` is the last one of the step before, and becomes that of this one; `None`
/// before the first step and after the last.
pub(crate) fn next_services<'a>(
    planner: &'a Planner,
    last: &mut Option<NamespacedName>,
) -> Vec<(&'a NamespacedName, &'a ServiceEntry)> {
    let after = planner.state().services_after(last.as_ref());
    let services: Vec<_> = after.take(STEP).collect();
    *last = services.last().map(|(name, _)| (*name).clone());
    services
}

/// A question about all Services that is answered in steps, so that nobody waits for the whole. What changes between two
/// steps may be in the answer or not.
pub trait Walk: Send + 'static {
    /// What comes of it.
    type Answer;

    /// Looks at some more Services. Returns whether these were the last.
    fn step(&mut self, planner: &Planner) -> bool;

    /// The answer, after the last step.
    fn finish(self) -> Self::Answer;
}

/// Up to five things, and how many more there are.
#[must_use]
pub fn listed<T: ToString>(all: impl IntoIterator<Item = T>) -> String {
    let all: Vec<String> = all.into_iter().map(|it| it.to_string()).collect();
    match all.len() {
        0 => "none".to_owned(),
        1..=5 => all.join(", "),
        count => format!("{} and {} more", all[..5].join(", "), count - 5),
    }
}

/// Whether a pattern fits a `namespace/name`.
fn fits(pattern: &str, name: &str) -> bool {
    let of_any_namespace = || {
        let (_, name) = name.split_once('/').filter(|_| !pattern.contains('/'))?;
        Some(is_like(pattern, name))
    };
    is_like(pattern, name) || of_any_namespace() == Some(true)
}

fn is_like(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else {
        return name.contains(pattern);
    };
    let Some(mut name) = name.strip_prefix(start) else {
        return false;
    };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        match name.find(part) {
            Some(at) => name = &name[at + part.len()..],
            None => return false,
        }
    }
    name.ends_with(end)
}

/// One Service; `None` when there is none of this name.
#[must_use]
pub fn service(planner: &Planner, name: &NamespacedName) -> Option<ServiceDetail> {
    let entry = planner.state().service(name)?;
    let service = entry.service.as_deref()?;
    let slices = entry.slices.values().map(|it| {
        let ports = it.ports.iter();
        let ready = it.endpoints.iter().filter(|it| it.conditions.ready);
        SliceSummary {
            name: it.name.to_string(),
            address_type: address_type(it.address_type).to_owned(),
            ports: ports
                .map(|it| {
                    format!("{} {}/{}", it.name, it.port, it.protocol)
                        .trim_start()
                        .to_owned()
                })
                .collect(),
            endpoints: it.endpoints.len(),
            ready: ready.count(),
        }
    });
    let policy = |it| match it {
        TrafficPolicy::Cluster => "Cluster".to_owned(),
        TrafficPolicy::Local => "Local".to_owned(),
    };
    Some(ServiceDetail {
        summary: summary(planner, service),
        internal_policy: policy(service.internal_policy),
        external_policy: policy(external_policy(service)),
        affinity_seconds: match service.affinity {
            SessionAffinity::None => None,
            SessionAffinity::ClientIp { timeout_seconds } => Some(timeout_seconds),
        },
        slices: slices.collect(),
        ports: ports(planner, service),
        problems: problems(planner, &service.name, entry),
    })
}

/// The problems about a Service and its slices: `Service default/web: ...` of an API server, `web.yaml:3: Service
/// default/web: ...` of a folder.
fn problems(planner: &Planner, service: &NamespacedName, entry: &ServiceEntry) -> Vec<String> {
    let slices = entry.slices.values();
    let slices = slices.map(|it| format!("EndpointSlice {}: ", it.name));
    let about: Vec<String> = [format!("Service {service}: ")]
        .into_iter()
        .chain(slices)
        .collect();
    let is_about = |text: &str| about.iter().any(|it| text.starts_with(it));
    let all = planner.problems().map(|it| it.1);
    let of_service = all.filter(|text| {
        let rest = text.split_once(": ").map(|it| it.1);
        is_about(text) || rest.is_some_and(is_about)
    });
    of_service.cloned().collect()
}

fn summary(planner: &Planner, service: &Service) -> ServiceSummary {
    let planned = PortKey::of_service(&planner.plan().ports, &service.name);
    let planned: Vec<_> = planned.map(|(_, plan)| plan).collect();
    let frontends = planned.iter().flat_map(|it| &it.frontends);
    let entry = planner.state().service(&service.name);
    let slices = || entry.into_iter().flat_map(|it| it.slices.values());
    // Slices of one Service rarely name an endpoint twice, and a line may be wrong by that.
    let endpoints = || slices().flat_map(|it| &it.endpoints);
    let is_dead = planned
        .iter()
        .any(|it| it.cluster.is_none() && it.local.is_none());
    ServiceSummary {
        name: service.name.to_string(),
        kind: kind(service).to_owned(),
        frontends: frontends.map(|it| it.frontend.to_string()).collect(),
        ready: endpoints().filter(|it| it.conditions.ready).count(),
        endpoints: endpoints().count(),
        is_dead,
        issues: planner
            .issues_of(&service.name)
            .iter()
            .map(ToString::to_string)
            .collect(),
    }
}

fn address_type(of: AddressType) -> &'static str {
    match of {
        AddressType::Ipv4 => "IPv4",
        AddressType::Ipv6 => "IPv6",
        AddressType::Fqdn => "FQDN",
    }
}

fn kind(service: &Service) -> &'static str {
    match (service.kind, &service.cluster_ips) {
        (ServiceKind::ExternalName, _) => "ExternalName",
        (_, ClusterIps::Headless) => "Headless",
        (ServiceKind::ClusterIp, _) => "ClusterIP",
        (ServiceKind::NodePort, _) => "NodePort",
        (ServiceKind::LoadBalancer, _) => "LoadBalancer",
    }
}

/// Each port in each family in which the Service asks for a frontend.
fn ports(planner: &Planner, service: &Service) -> Vec<PortDetail> {
    let keys = IpFamily::ALL
        .into_iter()
        .flat_map(|it| planner.ports(service, it));
    let ports = keys.filter_map(|(key, _)| {
        let is_port = |it: &&ServicePort| service.port_name(it) == key.name;
        let of_service = service.ports.iter().find(is_port)?;
        Some(port(planner, service, &key, of_service))
    });
    ports.collect()
}

fn port(
    planner: &Planner,
    service: &Service,
    key: &PortKey,
    of_service: &ServicePort,
) -> PortDetail {
    let plan = planner.plan().ports.get(key);
    let categorized = planner.categorized(key);
    let ways = plan.zip(categorized.as_ref());
    let frontends = || plan.into_iter().flat_map(|it| &it.frontends);
    PortDetail {
        port: key.name.port.to_string(),
        number: of_service.port.get(),
        node_port: of_service.node_port.map(NonZeroU16::get),
        protocol: key.name.protocol.to_string(),
        family: key.family.to_string(),
        frontends: frontends().map(|it| it.frontend.to_string()).collect(),
        roles: frontends().map(|it| it.role.to_string()).collect(),
        ways: ways.map_or_else(Vec::new, |(plan, (_, candidates, sorted))| {
            frontends::frontends(service, plan, candidates, sorted)
        }),
        endpoints: categorized.map_or_else(Vec::new, |(_, candidates, sorted)| {
            endpoints(&candidates, &sorted)
        }),
    }
}

fn endpoints(candidates: &[Candidate<'_>], sorted: &Categorized) -> Vec<EndpointDetail> {
    // The list of all endpoints is empty though some are ready: no client is sent to other nodes.
    let is_local_only = sorted.cluster.is_empty() && candidates.iter().any(Candidate::is_ready);
    let scope = if is_local_only {
        Scope::Local
    } else {
        Scope::Cluster
    };
    let used: HashSet<usize> = sorted
        .cluster
        .iter()
        .chain(&sorted.local)
        .copied()
        .collect();
    let all = candidates.iter().enumerate().map(|(index, it)| {
        let conditions = it.endpoint.conditions;
        let included = used.contains(&index);
        EndpointDetail {
            address: it.addr,
            pod: it.endpoint.target.as_deref().map(str::to_owned),
            node: it.endpoint.node.as_deref().map(str::to_owned),
            zone: it.endpoint.zone.as_deref().map(str::to_owned),
            local: it.local,
            ready: conditions.ready,
            serving: conditions.serving,
            terminating: conditions.terminating,
            included,
            reason: match (included, conditions.ready) {
                (true, true) => String::new(),
                (true, false) => {
                    "terminating but serving: used because nothing is ready".to_owned()
                }
                (false, _) => it.why_not(scope, sorted.topology).to_owned(),
            },
            slice: it.slice.to_string(),
        }
    });
    all.collect()
}

#[cfg(test)]
mod tests;
