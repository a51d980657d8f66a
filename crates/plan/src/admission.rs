//! Which addresses of Services are served.
//!
//! Whoever may write a Service may name any address in `spec.externalIPs`, and in the status of a
//! load balancer (CVE-2020-8554). kube-proxy serves them all, and so does Sluice by
//! default. An address that belongs to a node or to pods is an issue in any case.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::Role;
use crate::issue::{Issue, Shadowed};
use crate::node::is_beyond_link;
use crate::settings::{LocalDetector, Settings};
use crate::state::ClusterState;
use sluice_model::NamespacedName;

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
        }
    }

    /// Whether an address that a Service names is served.
    pub(crate) fn admits(&self, role: Role, addr: IpAddr) -> bool {
        self.allows(role, addr) && !(self.refuse_shadowing && self.shadowed(role, addr).is_some())
    }

    /// The issue with an address that a Service names, if there is one.
    pub(crate) fn issue(
        &self,
        service: &NamespacedName,
        role: Role,
        addr: IpAddr,
    ) -> Option<Issue> {
        let service = service.clone();
        if !self.allows(role, addr) {
            return Some(Issue::ExternalIpNotAllowed { service, addr });
        }
        let shadowed = self.shadowed(role, addr)?;
        Some(Issue::Shadows {
            service,
            role,
            addr,
            shadowed,
            refused: self.refuse_shadowing,
        })
    }

    fn allows(&self, role: Role, addr: IpAddr) -> bool {
        let allowed = self.external_ips.as_deref();
        role != Role::ExternalIp
            || allowed.is_none_or(|nets| nets.iter().any(|it| it.contains(&addr)))
    }

    /// Some load balancers bind their address to the machine that they chose, so such an address is
    /// no issue. The address of the Node object is.
    fn shadowed(&self, role: Role, addr: IpAddr) -> Option<Shadowed> {
        let on_machine = role != Role::LoadBalancer && self.machine.contains(&addr);
        if on_machine || self.node.contains(&addr) {
            return Some(Shadowed::Node);
        }
        let pods = self.pods.iter().find(|it| it.contains(&addr));
        pods.map(|it| Shadowed::Pods(*it))
    }
}
