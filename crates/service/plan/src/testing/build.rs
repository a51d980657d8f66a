//! Objects written in a line of text.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::str::FromStr;
use std::sync::Arc;

use ipnet::IpNet;

use crate::Event;
use crate::Planner;
use crate::lookup::Packet;
use crate::settings::Settings;
use crate::testing::NODE;
use sluice_model::{
    AddressType, Algorithm, Change, ClusterIps, Conditions, Endpoint, EndpointPort, EndpointSlice,
    Forwarding, Hints, IpMode, LoadBalancerIngress, NamespacedName, Node, Protocol, Service,
    ServiceCidr, ServiceKind, ServicePort, SessionAffinity, TrafficPolicy,
};

fn parse<T: FromStr>(text: &str) -> T {
    text.parse()
        .unwrap_or_else(|_| panic!("{text:?} cannot be read"))
}

fn list<T: FromStr>(text: &str) -> Vec<T> {
    text.split(',').map(parse).collect()
}

/// `default/web`, or `web` in the namespace `default`.
fn name(text: &str) -> NamespacedName {
    let (namespace, name) = text.split_once('/').unwrap_or(("default", text));
    NamespacedName::new(namespace, name)
}

fn policy(text: &str) -> TrafficPolicy {
    match text {
        "cluster" => TrafficPolicy::Cluster,
        "local" => TrafficPolicy::Local,
        _ => panic!("{text:?} is no traffic policy"),
    }
}

/// A Service: its name, then in any order
/// `10.96.0.10` (a ClusterIP, repeatable; without any it is unassigned), `headless`,
/// `http:80`, `dns:53/udp`, `http:80@30080` (ports; `:80` is unnamed),
/// `NodePort`, `LoadBalancer`, `ExternalName` (type), `ext=IP,IP`, `lb=IP,IP`, `lb-proxy=IP`,
/// `ranges=CIDR,CIDR`, `itp=local`, `etp=local`, `affinity=SECONDS`, `health=PORT`,
/// `scheduler=NAME`, `algorithm=maglev`, `forwarding=dsr`, `proxy-name=NAME`, `created=SECONDS`.
///
/// # Panics
///
/// On anything else.
pub fn service(text: &str) -> Event {
    let mut words = text.split_whitespace();
    let mut service = Service {
        name: name(words.next().unwrap_or_default()),
        created: None,
        kind: ServiceKind::ClusterIp,
        cluster_ips: ClusterIps::Unassigned,
        external_ips: Vec::new(),
        load_balancer: Vec::new(),
        source_ranges: Vec::new(),
        internal_policy: TrafficPolicy::Cluster,
        external_policy: TrafficPolicy::Cluster,
        affinity: SessionAffinity::None,
        external_name: None,
        ipvs_scheduler: None,
        algorithm: None,
        forwarding: None,
        health_check_node_port: None,
        proxy_name: None,
        ports: Vec::new(),
    };
    let mut cluster_ips: Vec<IpAddr> = Vec::new();
    for word in words {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let ingress = |mode| {
            let ips = list(value).into_iter();
            ips.map(move |ip| LoadBalancerIngress { ip, mode })
        };
        match key {
            "headless" => service.cluster_ips = ClusterIps::Headless,
            "NodePort" => service.kind = ServiceKind::NodePort,
            "LoadBalancer" => service.kind = ServiceKind::LoadBalancer,
            "ExternalName" => service.kind = ServiceKind::ExternalName,
            "ext" => service.external_ips = list(value),
            "lb" => service.load_balancer.extend(ingress(IpMode::Vip)),
            "lb-proxy" => service.load_balancer.extend(ingress(IpMode::Proxy)),
            "ranges" => service.source_ranges = list(value),
            "itp" => service.internal_policy = policy(value),
            "etp" => service.external_policy = policy(value),
            "affinity" => {
                let timeout_seconds = parse(value);
                service.affinity = SessionAffinity::ClientIp { timeout_seconds };
            }
            "health" => service.health_check_node_port = Some(parse(value)),
            "scheduler" => service.ipvs_scheduler = Some(value.into()),
            "algorithm" => {
                let known = Algorithm::ALL.into_iter().find(|it| it.name() == value);
                service.algorithm = Some(known.expect("an algorithm"));
            }
            "forwarding" => {
                let known = Forwarding::ALL.into_iter().find(|it| it.name() == value);
                service.forwarding = Some(known.expect("a way of forwarding"));
            }
            "proxy-name" => service.proxy_name = Some(value.into()),
            "created" => service.created = Some(parse(value)),
            _ => match word.parse() {
                Ok(ip) => cluster_ips.push(ip),
                Err(_) => service.ports.push(port(word)),
            },
        }
    }
    if !cluster_ips.is_empty() {
        service.cluster_ips = ClusterIps::Assigned(cluster_ips);
    }
    Event::Service(Change::Set(Arc::new(service)))
}

/// `http:80/tcp@30080`
fn port(word: &str) -> ServicePort {
    let (name, rest) = word
        .split_once(':')
        .unwrap_or_else(|| panic!("{word:?} says nothing about a Service"));
    let (rest, node_port) = match rest.split_once('@') {
        Some((rest, node_port)) => (rest, Some(parse(node_port))),
        None => (rest, None),
    };
    let (number, protocol) = rest.split_once('/').unwrap_or((rest, "tcp"));
    ServicePort {
        name: name.into(),
        protocol: parse(protocol),
        port: parse(number),
        node_port,
    }
}

/// The slices of a Service's port (`web`, `web:http`, `dns:dns/udp`) with these endpoints, one
/// slice per family and port number. `10.0.1.5:80` is a ready endpoint elsewhere; marks behind it,
/// in any order:
/// `@` on [`NODE`], `@NAME` on another node, `!` not ready (behind `~`: not serving either),
/// `~` terminating but serving, `+` ready though it terminates (publishNotReadyAddresses),
/// `=ZONE` hinted for a zone, `#NODE` hinted for a node, `%WEIGHT` its
/// share of connections, `*POD` its pod.
///
/// # Panics
///
/// On anything else.
pub fn endpoints(port: &str, endpoints: &str) -> Vec<Event> {
    let service = port.split_once(':').map_or(port, |(service, _)| service);
    slices(&format!("{service}-slice"), port, endpoints)
}

/// As [`endpoints`], the slices named after `slice`.
///
/// # Panics
///
/// As [`endpoints`].
pub fn slices(slice: &str, port: &str, endpoints: &str) -> Vec<Event> {
    let (service, port) = port.split_once(':').unwrap_or((port, ""));
    let (port, protocol) = port.split_once('/').unwrap_or((port, "tcp"));
    let protocol: Protocol = parse(protocol);
    let service = name(service);
    let mut groups: BTreeMap<(bool, u16), Vec<Endpoint>> = BTreeMap::new();
    for word in endpoints.split_whitespace() {
        let (addr, endpoint) = endpoint(word);
        let group = groups.entry((addr.is_ipv6(), addr.port())).or_default();
        group.push(endpoint);
    }
    let slices = groups.into_iter().map(|((is_v6, number), endpoints)| {
        let family = if is_v6 { "v6" } else { "v4" };
        let slice = EndpointSlice {
            name: NamespacedName::new(
                service.namespace.clone(),
                format!("{slice}-{family}-{number}"),
            ),
            service: Some(service.name.clone()),
            headless: false,
            address_type: if is_v6 {
                AddressType::Ipv6
            } else {
                AddressType::Ipv4
            },
            ports: vec![EndpointPort {
                name: port.into(),
                protocol,
                port: NonZeroU16::new(number).expect("endpoints of tests have a port"),
            }],
            endpoints,
            triggered: None,
        };
        Event::EndpointSlice(Change::Set(Arc::new(slice)))
    });
    slices.collect()
}

fn endpoint(word: &str) -> (SocketAddr, Endpoint) {
    const MARKS: [char; 8] = ['@', '!', '~', '+', '=', '#', '%', '*'];
    let end = word.find(MARKS).unwrap_or(word.len());
    let (addr, mut marks) = word.split_at(end);
    let addr: SocketAddr = parse(addr);
    let mut endpoint = Endpoint {
        address: addr.ip(),
        other_addresses: Box::default(),
        node: Some("elsewhere".into()),
        zone: None,
        conditions: Conditions::READY,
        hints: Hints::default(),
        weight: 1,
        target: None,
        hostname: None,
    };
    let (mut zones, mut nodes) = (Vec::new(), Vec::new());
    while let Some(mark) = marks.chars().next() {
        let rest = &marks[1..];
        let end = rest.find(MARKS).unwrap_or(rest.len());
        let (value, after) = rest.split_at(end);
        marks = after;
        let conditions = &mut endpoint.conditions;
        match mark {
            '@' if value.is_empty() => endpoint.node = Some(NODE.into()),
            '@' => endpoint.node = Some(value.into()),
            '!' => (conditions.ready, conditions.serving) = (false, false),
            '~' => (conditions.ready, conditions.terminating) = (false, true),
            '+' => (conditions.ready, conditions.terminating) = (true, true),
            '=' => zones.push(value.into()),
            '#' => nodes.push(value.into()),
            '%' => endpoint.weight = parse(value),
            _ => endpoint.target = Some(value.into()),
        }
    }
    endpoint.hints = Hints::new(zones, nodes);
    (addr, endpoint)
}

/// A Node: its name, then addresses, `zone=ZONE` and pod CIDRs in any order.
///
/// # Panics
///
/// On anything else.
pub fn node(text: &str) -> Event {
    let mut words = text.split_whitespace();
    let mut node = Node {
        name: words.next().unwrap_or_default().into(),
        addresses: Vec::new(),
        zone: None,
        pod_cidrs: Vec::new(),
        leaving: false,
    };
    for word in words {
        match (word.strip_prefix("zone="), word.contains('/')) {
            (Some(zone), _) => node.zone = Some(zone.into()),
            (None, true) => node.pod_cidrs.push(parse(word)),
            (None, false) => node.addresses.push(parse(word)),
        }
    }
    Event::Node(Change::Set(Arc::new(node)))
}

/// A ServiceCIDR with these prefixes, separated by commas.
///
/// # Panics
///
/// On anything else.
pub fn cidr(text: &str) -> Event {
    Event::ServiceCidr(Change::Set(Arc::new(ServiceCidr {
        name: "kubernetes".into(),
        cidrs: list::<IpNet>(text),
    })))
}

/// A packet: `10.244.0.5 > 10.96.0.10:80/udp via cni0`. Without an interface the node sends it.
///
/// # Panics
///
/// On anything else.
pub fn packet(text: &str) -> Packet {
    let (source, rest) = text.split_once(" > ").expect("a packet has a ` > `");
    let (rest, interface) = match rest.split_once(" via ") {
        Some((rest, interface)) => (rest, Some(interface.into())),
        None => (rest, None),
    };
    let (destination, protocol) = rest.split_once('/').unwrap_or((rest, "tcp"));
    let destination: SocketAddr = parse(destination);
    Packet {
        source: parse(source),
        destination: destination.ip(),
        protocol: parse(protocol),
        port: destination.port(),
        interface,
    }
}

/// A planner that has planned all of this.
pub fn planner(settings: Settings, events: impl IntoIterator<Item = Event>) -> Planner {
    let mut planner = Planner::new(settings);
    for event in events {
        planner.absorb(event);
    }
    let _ = planner.replan();
    planner
}

/// The event that deletes the object of an event.
///
/// # Panics
/// When the event is about no object.
pub fn deletion(event: &Event) -> Event {
    match event {
        Event::Service(it) => Event::Service(Change::Delete(it.name())),
        Event::EndpointSlice(it) => Event::EndpointSlice(Change::Delete(it.name())),
        Event::Node(it) => Event::Node(Change::Delete(it.name())),
        Event::ServiceCidr(it) => Event::ServiceCidr(Change::Delete(it.name())),
        Event::LocalAddresses(_) | Event::Notice(_) => panic!("{event:?} is about no object"),
    }
}
