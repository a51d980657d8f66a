//! Assertions about the objects of any manifest, for the fuzzer and the tests.

use std::collections::BTreeSet;
use std::net::IpAddr;

use sluice_model::{
    AddressType, Change, ClusterIps, EndpointSlice, IpFamily, Model, Namespace, NamespacedName,
    Node, Pod, Reference, Service, ServiceCidr, SessionAffinity,
};
use sluice_source::{Wants, kinds};

/// Reads the bytes as YAML and as JSON.
///
/// # Panics
/// When the reader returns an object that a backend cannot handle.
pub fn check(bytes: &[u8]) {
    // Every good object is checked; what remains is its name.
    let wants = Wants::new(|_| None)
        .want_all::<kinds::Service>(|it| checked(&it, service))
        .want_all::<kinds::EndpointSlice>(|it| checked(&it, slice))
        .want_all::<kinds::Node>(|it| checked(&it, node))
        .want_all::<kinds::ServiceCidr>(|it| checked(&it, service_cidr))
        .want_all::<kinds::Namespace>(|it| checked(&it, namespace))
        .want_all::<kinds::Pod>(|it| checked(&it, pod));
    for file in ["f.yaml", "f.json"] {
        let loaded = sluice_source::parse(file, bytes, &wants);
        let keys: BTreeSet<_> = loaded.events.iter().collect();
        assert_eq!(keys.len(), loaded.events.len(), "one object per key");
        for problem in &loaded.problems {
            assert!(!problem.to_string().contains(char::is_control));
            assert!(!problem.message.is_empty());
        }
    }
}

fn checked<M: Model>(change: &Change<M>, check: fn(&M)) -> Option<Reference> {
    change.object().into_iter().for_each(|it| check(it));
    Some(change.reference())
}

fn node(it: &Node) {
    subdomain(&it.name);
    it.zone.iter().for_each(|it| word(it));
    it.addresses.iter().for_each(routable);
}

fn service_cidr(it: &ServiceCidr) {
    subdomain(&it.name);
    assert!((1..=2).contains(&it.cidrs.len()));
    assert!(it.cidrs.iter().all(|it| *it == it.trunc()));
}

fn namespace(it: &Namespace) {
    label(&it.name);
}

fn pod(it: &Pod) {
    namespaced(&it.name);
    it.node.iter().for_each(|it| subdomain(it));
    it.addresses.iter().for_each(routable);
    let families: BTreeSet<_> = it.addresses.iter().map(IpFamily::of).collect();
    assert_eq!(families.len(), it.addresses.len(), "one address per family");
    assert!(it.dns.searches.len() <= 32);
    for search in it.dns.searches.iter().filter(|it| &***it != ".") {
        subdomain(&search.replace('_', "a"));
    }
    assert!(it.dns.ndots.is_none_or(|it| it <= 15));
}

fn service(it: &Service) {
    namespaced(&it.name);
    label(&it.name.name);
    if let ClusterIps::Assigned(ips) = &it.cluster_ips {
        assert!((1..=2).contains(&ips.len()));
        ips.iter().for_each(routable);
        let families: BTreeSet<_> = ips.iter().map(IpFamily::of).collect();
        assert_eq!(families.len(), ips.len(), "one address per family");
    }
    it.external_name.iter().for_each(|it| subdomain(it));
    it.external_ips.iter().for_each(routable);
    it.load_balancer.iter().for_each(|it| routable(&it.ip));
    assert!(it.source_ranges.iter().all(|it| it.prefix_len() > 0));
    it.proxy_name.iter().for_each(|it| word(it));
    if let SessionAffinity::ClientIp { timeout_seconds } = it.affinity {
        assert!((1..=86_400).contains(&timeout_seconds));
    }
    let mut seen = BTreeSet::new();
    for port in &it.ports {
        assert!(!port.name.is_empty() || it.ports.len() == 1);
        port_name(&port.name);
        assert!(seen.insert((port.protocol, port.port)), "a port twice");
    }
}

fn slice(it: &EndpointSlice) {
    namespaced(&it.name);
    it.service.iter().for_each(|it| label(it));
    it.ports.iter().for_each(|it| port_name(&it.name));
    assert!(it.endpoints.len() <= 1_000);
    let family = match it.address_type {
        AddressType::Ipv4 => Some(IpFamily::V4),
        AddressType::Ipv6 => Some(IpFamily::V6),
        AddressType::Fqdn => None,
    };
    for endpoint in &it.endpoints {
        routable(&endpoint.address);
        assert_eq!(Some(IpFamily::of(&endpoint.address)), family);
        endpoint.node.iter().for_each(|it| subdomain(it));
        endpoint.target.iter().for_each(|it| subdomain(it));
        endpoint.hostname.iter().for_each(|it| label(it));
        endpoint.hints.zones().iter().for_each(|it| word(it));
        endpoint.hints.nodes().iter().for_each(|it| subdomain(it));
    }
}

fn namespaced(name: &NamespacedName) {
    label(&name.namespace);
    subdomain(&name.name);
}

fn label(text: &str) {
    assert!(text.len() <= 63 && !text.contains('.'), "{text:?}");
    subdomain(text);
}

fn port_name(text: &str) {
    if !text.is_empty() {
        label(text);
    }
}

fn subdomain(text: &str) {
    let inside = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || "-.".contains(it);
    assert!((1..=253).contains(&text.len()), "{text:?}");
    assert!(text.chars().all(inside), "{text:?}");
    assert!(
        !text.starts_with(['-', '.']) && !text.ends_with(['-', '.']),
        "{text:?}"
    );
}

/// A label value.
fn word(text: &str) {
    let inside = |it: char| it.is_ascii_alphanumeric() || "-_.".contains(it);
    assert!(text.len() <= 63 && text.chars().all(inside), "{text:?}");
}

fn routable(ip: &IpAddr) {
    assert!(
        !ip.is_unspecified() && !ip.is_loopback() && !ip.is_multicast(),
        "{ip}"
    );
    assert!(
        !matches!(ip, IpAddr::V6(it) if it.to_ipv4_mapped().is_some()),
        "{ip}"
    );
}
