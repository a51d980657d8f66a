//! The desired endpoints of a Service (`podToEndpoint`, `getEndpointPorts`).

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Container, Pod, PodStatus, Service, ServicePort};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use sluice_model::IpFamily;

use super::Zones;
use crate::meta::pod_reference;
use crate::workloads::pods;

/// A port of a slice, with an order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PortKey {
    name: String,
    protocol: String,
    port: i32,
    app_protocol: Option<String>,
}

impl PortKey {
    fn of(port: &EndpointPort) -> Self {
        Self {
            name: port.name.clone().unwrap_or_default(),
            protocol: port.protocol.clone().unwrap_or_else(tcp),
            port: port.port.unwrap_or_default(),
            app_protocol: port.app_protocol.clone(),
        }
    }

    pub(crate) fn port(&self) -> EndpointPort {
        EndpointPort {
            app_protocol: self.app_protocol.clone(),
            name: Some(self.name.clone()),
            port: Some(self.port),
            protocol: Some(self.protocol.clone()),
        }
    }
}

fn tcp() -> String {
    "TCP".to_owned()
}

/// The ports of a slice, sorted.
pub(crate) fn port_keys(slice: &EndpointSlice) -> Vec<PortKey> {
    let mut ports: Vec<_> = slice.ports.iter().flatten().map(PortKey::of).collect();
    ports.sort();
    ports
}

/// What identifies an endpoint in two versions of a slice (`hashEndpoint`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Identity {
    addresses: Vec<String>,
    hostname: Option<String>,
    target: (Option<String>, Option<String>),
}

impl Identity {
    pub(crate) fn of(endpoint: &Endpoint) -> Self {
        let mut addresses = endpoint.addresses.clone();
        addresses.sort();
        let target = endpoint.target_ref.as_ref();
        Self {
            addresses,
            hostname: endpoint.hostname.clone(),
            target: (
                target.and_then(|it| it.namespace.clone()),
                target.and_then(|it| it.name.clone()),
            ),
        }
    }
}

/// Endpoints with the same ports.
pub(crate) type Endpoints = BTreeMap<Identity, Endpoint>;

/// The endpoints of one family by their ports: pods may have different numbers for a named port.
pub(crate) fn groups(
    service: &Service,
    pods: &[&Pod],
    zones: &Zones,
    family: IpFamily,
) -> BTreeMap<Vec<PortKey>, Endpoints> {
    let mut groups: BTreeMap<Vec<PortKey>, Endpoints> = BTreeMap::new();
    for pod in pods.iter().filter(|it| has_address(it)) {
        let group = groups.entry(ports(service, pod)).or_default();
        if let Some(endpoint) = endpoint(service, pod, zones, family) {
            group.insert(Identity::of(&endpoint), endpoint);
        }
    }
    groups
}

/// Whether a pod runs and has an address (`ShouldPodBeInEndpoints`). Terminating pods count.
pub(super) fn has_address(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let phase = status.and_then(|it| it.phase.as_deref());
    !matches!(phase, Some("Failed" | "Succeeded")) && status.is_some_and(|it| !ips(it).is_empty())
}

pub(super) fn ips(status: &PodStatus) -> Vec<IpAddr> {
    let all = status.pod_ips.iter().flatten().map(|it| it.ip.as_str());
    let one = status
        .pod_ip
        .as_deref()
        .filter(|_| status.pod_ips.is_none());
    all.chain(one).filter_map(|it| it.parse().ok()).collect()
}

fn endpoint(service: &Service, pod: &Pod, zones: &Zones, family: IpFamily) -> Option<Endpoint> {
    let spec = service.spec.as_ref();
    let publishes = spec.and_then(|it| it.publish_not_ready_addresses) == Some(true);
    let node = pod.spec.as_ref().and_then(|it| it.node_name.clone());
    let zone = node.as_ref().and_then(|it| zones.get(it));
    // The node of the pod is gone, and the pod with it, unless unready addresses are published.
    if zone.is_none() && !publishes {
        return None;
    }
    let addresses = pod.status.iter().flat_map(ips);
    let addresses = addresses.filter(|it| IpFamily::of(it) == family);
    let addresses: Vec<String> = addresses.map(|it| it.to_string()).collect();
    let serving = pods::is_ready(pod);
    let terminating = pods::is_terminating(pod);
    (!addresses.is_empty()).then(|| Endpoint {
        addresses,
        conditions: Some(EndpointConditions {
            ready: Some(publishes || (serving && !terminating)),
            serving: Some(serving),
            terminating: Some(terminating),
        }),
        hostname: hostname(service, pod),
        node_name: node,
        target_ref: Some(pod_reference(pod)),
        zone: zone.cloned().flatten(),
        ..Endpoint::default()
    })
}

/// The hostname of a pod in the subdomain of this Service (`ShouldSetHostname`).
pub(super) fn hostname(service: &Service, pod: &Pod) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let hostname = spec.hostname.clone().filter(|it| !it.is_empty())?;
    (spec.subdomain == service.metadata.name).then_some(hostname)
}

/// The ports of a Service on this pod. A named port that the pod lacks is left out.
pub(super) fn ports(service: &Service, pod: &Pod) -> Vec<PortKey> {
    let ports = service.spec.iter().flat_map(|it| it.ports.iter().flatten());
    let ports = ports.filter_map(|port| {
        let protocol = port.protocol.clone().unwrap_or_else(tcp);
        Some(PortKey {
            name: port.name.clone().unwrap_or_default(),
            port: number(port, &protocol, pod)?,
            protocol,
            app_protocol: port.app_protocol.clone(),
        })
    });
    let mut ports: Vec<PortKey> = ports.collect();
    ports.sort();
    ports
}

/// The number of the target port on this pod (`FindPort`).
fn number(port: &ServicePort, protocol: &str, pod: &Pod) -> Option<i32> {
    let name = match &port.target_port {
        None => return Some(port.port),
        Some(IntOrString::Int(number)) => return Some(*number),
        Some(IntOrString::String(name)) => name,
    };
    let spec = pod.spec.as_ref()?;
    let sidecars = spec.init_containers.iter().flatten();
    let sidecars = sidecars.filter(|it| it.restart_policy.as_deref() == Some("Always"));
    let containers = spec.containers.iter().chain(sidecars);
    let ports = containers.flat_map(|it: &Container| it.ports.iter().flatten());
    let mut named = ports.filter(|it| {
        let is = it.protocol.as_deref().unwrap_or("TCP");
        it.name.as_ref() == Some(name) && is == protocol
    });
    named.next().map(|it| it.container_port)
}
