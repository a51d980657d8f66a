//! Objects of a made-up cluster, and Corefiles.

use std::io;
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::path::Path;
use std::sync::Arc;

use sluice_corefile::{Corefile, Sources};
use sluice_model::{
    AddressType, Change, ClusterIps, Conditions, Endpoint, EndpointPort, EndpointSlice, Hints,
    Labels, Namespace, NamespacedName, Protocol, Service, ServiceKind, ServicePort,
    SessionAffinity, TrafficPolicy,
};
use sluice_zone::Event;

/// A Corefile may refer to nothing.
struct Nothing;

impl Sources for Nothing {
    fn read(&self, _: &Path) -> io::Result<String> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn list(&self, _: &Path) -> io::Result<Vec<String>> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn variable(&self, _: &str) -> Option<String> {
        None
    }
}

/// Reads a Corefile; keys without a port get this one.
#[track_caller]
pub fn corefile(text: &str, port: u16) -> Corefile {
    let corefile = sluice_corefile::read("Corefile", text, port, &Nothing);
    corefile.unwrap_or_else(|it| panic!("{it:?}"))
}

/// Port 80 of every Service.
const HTTP: NonZeroU16 = NonZeroU16::new(80).unwrap();

/// A Namespace.
pub fn namespace(name: &str) -> Event {
    let (name, labels) = (Arc::from(name), Labels::default());
    Event::Namespace(Change::Set(Arc::new(Namespace { name, labels })))
}

/// A Service with these ClusterIPs; headless without.
pub fn service(namespace: &str, name: &str, ips: &[IpAddr]) -> Event {
    let mut service = bare(namespace, name);
    if !ips.is_empty() {
        service.cluster_ips = ClusterIps::Assigned(ips.to_vec());
    }
    Event::Service(Change::Set(Arc::new(service)))
}

/// An ExternalName Service.
pub fn external_name(namespace: &str, name: &str, target: &str) -> Event {
    let mut service = bare(namespace, name);
    service.kind = ServiceKind::ExternalName;
    service.external_name = Some(target.into());
    Event::Service(Change::Set(Arc::new(service)))
}

fn bare(namespace: &str, name: &str) -> Service {
    Service {
        name: NamespacedName::new(namespace, name),
        created: None,
        kind: ServiceKind::ClusterIp,
        cluster_ips: ClusterIps::Headless,
        external_name: None,
        external_ips: Vec::new(),
        load_balancer: Vec::new(),
        source_ranges: Vec::new(),
        internal_policy: TrafficPolicy::Cluster,
        external_policy: TrafficPolicy::Cluster,
        affinity: SessionAffinity::None,
        ipvs_scheduler: None,
        algorithm: None,
        forwarding: None,
        health_check_node_port: None,
        proxy_name: None,
        ports: vec![ServicePort {
            name: "http".into(),
            protocol: Protocol::Tcp,
            port: HTTP,
            node_port: None,
        }],
    }
}

/// The one slice of a Service, with ready IPv4 endpoints.
pub fn endpoints(namespace: &str, service: &str, addresses: &[IpAddr]) -> Event {
    let endpoint = |address: &IpAddr| Endpoint {
        address: *address,
        other_addresses: Box::default(),
        node: None,
        zone: None,
        conditions: Conditions::READY,
        hints: Hints::default(),
        weight: 1,
        target: None,
        hostname: None,
    };
    Event::EndpointSlice(Change::Set(Arc::new(EndpointSlice {
        name: NamespacedName::new(namespace, format!("{service}-a")),
        service: Some(service.into()),
        headless: false,
        address_type: AddressType::Ipv4,
        ports: vec![EndpointPort {
            name: "http".into(),
            protocol: Protocol::Tcp,
            port: HTTP,
        }],
        endpoints: addresses.iter().map(endpoint).collect(),
        triggered: None,
    })))
}
