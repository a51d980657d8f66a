//! Which addresses of Services are served.
//!
//! Whoever may write a Service may name any address in `spec.externalIPs`, and in the status of a
//! load balancer (CVE-2020-8554). kube-proxy serves them all, and so does Sluice by default. What is
//! some Service's ClusterIP stays that Service's alone (`claims.rs`), from the moment it is one; an
//! address that merely lies in a ServiceCIDR, or that belongs to a node or to pods, is served with an issue.
//!
//! A manifest may also name any NodePort. The API server gives out those of one range.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use ipnet::IpNet;

use crate::issue::{self, Issue, NodePortProblem, Shadowed};
use crate::node::is_beyond_link;
use crate::port::Wanted;
use crate::settings::{LocalDetector, Settings};
use crate::state::ClusterState;
use crate::{Frontend, Role};
use sluice_model::{NamespacedName, Protocol};

/// The operator's settings, and the addresses of the node and of pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Admission {
    external_ips: Option<Vec<IpNet>>,
    refuse_shadowing: bool,
    /// The addresses of the Node object, or else of the default route.
    node: BTreeSet<IpAddr>,
    /// Every other address of the machine that a Service could name.
    machine: BTreeSet<IpAddr>,
    pods: Vec<IpNet>,
    service_cidrs: Vec<IpNet>,
    node_port_range: Option<RangeInclusive<u16>>,
    own_ports: BTreeSet<u16>,
    /// The addresses of the node's DNS server, without ClusterIPs.
    dns: BTreeSet<IpAddr>,
}

impl Admission {
    pub(crate) fn new(settings: &Settings, state: &ClusterState) -> Self {
        let node = state.node(&settings.node_name);
        let local = state.local_addresses();
        let known = match node {
            Some(node) if !node.addresses.is_empty() => &node.addresses,
            _ => &local.default_route,
        };
        let known: BTreeSet<IpAddr> = settings.node_ip.iter().chain(known).copied().collect();
        // No Service can have a link-local address, and each interface has its own.
        let machine = local.all.iter().copied().filter(is_beyond_link);
        let dns = settings.dns.iter();
        let mut pods = node.map(|it| it.pod_cidrs.clone()).unwrap_or_default();
        if let LocalDetector::ClusterCidrs(cidrs) = &settings.local_detector {
            pods.extend(cidrs);
        }
        Self {
            external_ips: settings.external_ips.clone(),
            refuse_shadowing: settings.refuse_shadowing,
            machine: machine.filter(|it| !known.contains(it)).collect(),
            node: known,
            pods,
            service_cidrs: IpNet::aggregate(
                &state
                    .service_cidrs()
                    .flat_map(|it| it.cidrs.clone())
                    .collect(),
            ),
            node_port_range: settings.node_port_range.clone(),
            own_ports: settings.own_ports.clone(),
            dns: dns.flat_map(|it| it.addresses.iter().copied()).collect(),
        }
    }

    /// Whether an address that a Service names is served.
    pub(crate) fn admits(&self, role: Role, addr: IpAddr) -> bool {
        let shadowed = self.shadowed(role, addr);
        self.allows(role, addr) && !shadowed.is_some_and(|it| self.refuses(it))
    }

    /// Whether an address belongs to the node's DNS server. No Service can name it.
    pub(crate) fn is_node_dns(&self, addr: IpAddr) -> bool {
        self.dns.contains(&addr)
    }

    /// Whether a frontend is served whose address is: a node's address may not take the ports of
    /// this process with it.
    pub(crate) fn admits_frontend(&self, wanted: &Wanted) -> bool {
        match wanted.frontend {
            Frontend::NodePort { port, protocol, .. } => {
                self.node_port_problem(port, protocol).is_none()
            }
            Frontend::Address {
                addr,
                port,
                protocol,
            } => {
                let is_own = !wanted.role.is_internal()
                    && (self.node.contains(&addr) || self.machine.contains(&addr));
                !(is_own && self.is_own_port(port, protocol))
            }
        }
    }

    /// Why a port of the node cannot be a NodePort or a health check node port.
    pub(crate) fn node_port_problem(
        &self,
        port: u16,
        protocol: Protocol,
    ) -> Option<NodePortProblem> {
        if self.is_own_port(port, protocol) {
            return Some(NodePortProblem::OwnPort);
        }
        let range = self.node_port_range.as_ref();
        let range = range.filter(|it| !it.contains(&port))?;
        Some(NodePortProblem::OutOfRange(*range.start(), *range.end()))
    }

    /// Whether this process listens there: all its servers speak TCP.
    fn is_own_port(&self, port: u16, protocol: Protocol) -> bool {
        protocol == Protocol::Tcp && self.own_ports.contains(&port)
    }

    /// The issue with an address that a Service names, if there is one.
    pub(crate) fn issue(
        &self,
        service: &NamespacedName,
        role: Role,
        addr: IpAddr,
    ) -> Option<Issue> {
        if !self.allows(role, addr) {
            return Some(issue::external_ip_not_allowed(service, addr));
        }
        let shadowed = self.shadowed(role, addr)?;
        let refused = self.refuses(shadowed);
        Some(issue::shadows(service, role, addr, shadowed, refused))
    }

    fn refuses(&self, shadowed: Shadowed) -> bool {
        self.refuse_shadowing || shadowed == Shadowed::NodeDns
    }

    fn allows(&self, role: Role, addr: IpAddr) -> bool {
        let allowed = self.external_ips.as_deref();
        role != Role::ExternalIp
            || allowed.is_none_or(|nets| nets.iter().any(|it| it.contains(&addr)))
    }

    /// Some load balancers bind their address to the machine that they chose, so such an address is
    /// no issue. The address of the Node object is.
    fn shadowed(&self, role: Role, addr: IpAddr) -> Option<Shadowed> {
        if role == Role::NodeDns {
            return None;
        }
        if self.is_node_dns(addr) {
            return Some(Shadowed::NodeDns);
        }
        let mut cidrs = self.service_cidrs.iter();
        if role != Role::ClusterIp
            && let Some(net) = cidrs.find(|it| it.contains(&addr))
        {
            return Some(Shadowed::ServiceCidr(*net));
        }
        let on_machine = role != Role::LoadBalancer && self.machine.contains(&addr);
        if on_machine || self.node.contains(&addr) {
            return Some(Shadowed::Node);
        }
        let pods = self.pods.iter().find(|it| it.contains(&addr));
        pods.map(|it| Shadowed::Pods(*it))
    }
}
