//! Random clusters and packets.

use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::Arc;

use ipnet::IpNet;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use crate::Event;
use crate::lookup::Packet;
use crate::settings::{LocalDetector, NodeDns, NodePortAddresses, Settings};
use crate::testing::{NODE, ip};
use sluice_model::{
    AddressType, Algorithm, Change, ClusterIps, Conditions, DNS_ADDRESSES, Endpoint, EndpointPort,
    EndpointSlice, Forwarding, Hints, IpMode, LoadBalancerIngress, NamespacedName, Node, Protocol,
    Service, ServiceCidr, ServiceKind, ServicePort, SessionAffinity, TrafficPolicy,
};

const SERVICES: &[&str] = &["a", "b", "c"];
const SLICES: &[&str] = &["s1", "s2", "s3", "s4", "s5"];
const NODES: &[&str] = &[NODE, "node-b"];
const ZONES: &[&str] = &["east", "west"];
const CLUSTER_IPS_V4: &[&str] = &["10.96.0.1", "10.96.0.2"];
const CLUSTER_IPS_V6: &[&str] = &["fd00:96::1", "fd00:96::2"];
/// Some are also a node's address, that of its DNS server, a ClusterIP, and in a ServiceCIDR.
const EXTERNAL_IPS: &[&str] = &[
    "192.0.2.1",
    "192.0.2.2",
    "192.168.0.1",
    "10.96.0.2",
    "2001:db8::1",
    "fd00:96::1",
    "169.254.20.10",
];
const LOAD_BALANCERS: &[&str] = &["203.0.113.1", "203.0.113.2", "192.0.2.1", "2001:db8:1::1"];
/// The last one of each family runs on the host network.
const ENDPOINTS_V4: &[&str] = &["10.244.0.1", "10.244.0.2", "10.244.1.1", "192.168.0.1"];
const ENDPOINTS_V6: &[&str] = &["fd00:244::1", "fd00:244::2", "fd00:244:1::1", "fd00:168::1"];
const CLIENTS: &[&str] = &["198.51.100.1", "10.244.1.9", "2001:db8:9::1"];
const NODE_IPS: &[&str] = &[
    "192.168.0.1",
    "192.168.5.1",
    "fd00:168::1",
    "127.0.0.1",
    "::1",
];
const STRANGERS: &[&str] = &[
    "10.96.0.200",
    "fd00:96::200",
    "198.51.100.7",
    "2001:db8:9::7",
];
const SERVICE_PORTS: &[u16] = &[80, 81];
const NODE_PORTS: &[u16] = &[30080, 30081];
/// The node itself answers there, so no packet of a client goes there.
const HEALTH_CHECK_NODE_PORT: u16 = 30082;
const RANGES: &[&str] = &[
    "198.51.100.0/24",
    "192.168.0.0/24",
    "2001:db8:9::/64",
    "0.0.0.0/0",
];

fn word(words: &'static [&'static str]) -> impl Strategy<Value = Arc<str>> {
    select(words).prop_map(Arc::from)
}

fn address(of: &'static [&'static str]) -> impl Strategy<Value = IpAddr> {
    select(of).prop_map(ip)
}

fn some_of<T: std::fmt::Debug + 'static>(
    of: &'static [&'static str],
    to: impl Fn(&str) -> T,
) -> impl Strategy<Value = Vec<T>> {
    subsequence(of, 0..=of.len()).prop_map(move |all| all.into_iter().map(&to).collect())
}

fn net(text: &str) -> IpNet {
    text.parse()
        .unwrap_or_else(|_| panic!("{text:?} is no prefix"))
}

fn protocol() -> impl Strategy<Value = Protocol> {
    prop_oneof![
        3 => Just(Protocol::Tcp),
        2 => Just(Protocol::Udp),
        1 => Just(Protocol::Sctp),
    ]
}

fn policy() -> impl Strategy<Value = TrafficPolicy> {
    select(&[TrafficPolicy::Cluster, TrafficPolicy::Local][..])
}

/// Rarely anything, else nothing.
fn rarely<T: Clone + std::fmt::Debug + 'static>(
    strategy: impl Strategy<Value = T> + 'static,
) -> impl Strategy<Value = Option<T>> {
    option::weighted(0.1, strategy)
}

fn service_name() -> impl Strategy<Value = NamespacedName> {
    word(SERVICES).prop_map(|name| NamespacedName::new("default", name))
}

fn slice_name() -> impl Strategy<Value = NamespacedName> {
    word(SLICES).prop_map(|name| NamespacedName::new("default", name))
}

fn cluster_ips() -> impl Strategy<Value = ClusterIps> {
    let (v4, v6) = (address(CLUSTER_IPS_V4), address(CLUSTER_IPS_V6));
    prop_oneof![
        1 => Just(ClusterIps::Headless),
        1 => Just(ClusterIps::Unassigned),
        4 => address(CLUSTER_IPS_V4).prop_map(|it| ClusterIps::Assigned(vec![it])),
        2 => address(CLUSTER_IPS_V6).prop_map(|it| ClusterIps::Assigned(vec![it])),
        4 => (v4, v6).prop_map(|(v4, v6)| ClusterIps::Assigned(vec![v4, v6])),
    ]
}

fn service_port() -> impl Strategy<Value = ServicePort> {
    let node_port = prop_oneof![9 => select(NODE_PORTS), 1 => Just(HEALTH_CHECK_NODE_PORT)];
    let node_port = option::of(node_port);
    (
        word(&["", "p"]),
        protocol(),
        select(SERVICE_PORTS),
        node_port,
    )
        .prop_map(|(name, protocol, port, node_port)| ServicePort {
            name,
            protocol,
            port: port.try_into().expect("no port is 0"),
            node_port: node_port.map(|it| it.try_into().expect("no port is 0")),
        })
}

fn load_balancer() -> impl Strategy<Value = Vec<LoadBalancerIngress>> {
    let mode = prop_oneof![4 => Just(IpMode::Vip), 1 => Just(IpMode::Proxy)];
    let ingress = (address(LOAD_BALANCERS), mode);
    vec(
        ingress.prop_map(|(ip, mode)| LoadBalancerIngress { ip, mode }),
        0..3,
    )
}

fn service() -> impl Strategy<Value = Service> {
    let kind = prop_oneof![
        3 => Just(ServiceKind::ClusterIp),
        3 => Just(ServiceKind::NodePort),
        4 => Just(ServiceKind::LoadBalancer),
        1 => Just(ServiceKind::ExternalName),
    ];
    let affinity = prop_oneof![
        2 => Just(SessionAffinity::None),
        1 => Just(SessionAffinity::ClientIp { timeout_seconds: 10_800 }),
    ];
    let identity = (service_name(), option::of(0i64..3), kind, cluster_ips());
    let reach = (
        some_of(EXTERNAL_IPS, ip),
        load_balancer(),
        prop_oneof![2 => Just(Vec::new()), 1 => some_of(RANGES, net)],
    );
    let rest = (
        policy(),
        policy(),
        affinity,
        (
            rarely(word(&["other"])),
            rarely(word(&["wrr", "sh"])),
            rarely(select(&Algorithm::ALL[..])),
            rarely(select(&Forwarding::ALL[..])),
        ),
        vec(service_port(), 0..4),
        option::of(Just(HEALTH_CHECK_NODE_PORT)),
    );
    (identity, reach, rest).prop_map(|(identity, reach, rest)| {
        let (internal_policy, external_policy, affinity, words, mut ports, health) = rest;
        let (proxy_name, ipvs_scheduler, algorithm, forwarding) = words;
        // The API server sees to it that name and protocol are an identity.
        let mut seen = std::collections::BTreeSet::new();
        ports.retain(|it| seen.insert((it.name.clone(), it.protocol)));
        Service {
            name: identity.0,
            created: identity.1,
            kind: identity.2,
            cluster_ips: identity.3,
            external_ips: reach.0,
            load_balancer: reach.1,
            source_ranges: reach.2,
            internal_policy,
            external_policy,
            external_name: None,
            affinity,
            ipvs_scheduler,
            algorithm,
            forwarding,
            health_check_node_port: health.and_then(NonZeroU16::new),
            proxy_name,
            ports,
        }
    })
}

fn conditions() -> impl Strategy<Value = Conditions> {
    let odd = (any::<bool>(), any::<bool>(), any::<bool>());
    let odd = odd.prop_map(|(ready, serving, terminating)| Conditions {
        ready,
        serving,
        terminating,
    });
    prop_oneof![1 => Just(Conditions::READY), 1 => odd]
}

/// Hints for all endpoints of a slice or for none, mostly: single ones have no effect.
fn endpoints(of: &'static [&'static str]) -> impl Strategy<Value = Vec<Endpoint>> {
    let endpoint = (
        address(of),
        option::weighted(0.9, word(NODES)),
        conditions(),
        word(ZONES),
        word(NODES),
        option::of(word(&["pod-1", "pod-2"])),
        option::weighted(0.1, 0u16..4),
    );
    let hinted = (
        option::weighted(0.4, Just(())),
        option::weighted(0.2, Just(())),
    );
    (vec(endpoint, 0..4), hinted).prop_map(|(endpoints, (zones, nodes))| {
        let endpoints = endpoints.into_iter();
        let endpoints = endpoints.map(
            |(address, node, conditions, zone, node_hint, target, weight)| Endpoint {
                address,
                other_addresses: Box::default(),
                node,
                zone: None,
                conditions,
                hints: Hints::new(
                    zones.iter().map(|()| zone.clone()).collect(),
                    nodes.iter().map(|()| node_hint.clone()).collect(),
                ),
                weight: weight.unwrap_or(1),
                target,
                hostname: None,
            },
        );
        endpoints.collect()
    })
}

fn slice() -> impl Strategy<Value = EndpointSlice> {
    let port = (word(&["", "p"]), protocol(), select(&[8080u16, 8081][..]));
    let port = port.prop_map(|(name, protocol, port)| EndpointPort {
        name,
        protocol,
        port: port.try_into().expect("no port is 0"),
    });
    let members = prop_oneof![
        6 => endpoints(ENDPOINTS_V4).prop_map(|it| (AddressType::Ipv4, it)),
        4 => endpoints(ENDPOINTS_V6).prop_map(|it| (AddressType::Ipv6, it)),
        1 => endpoints(ENDPOINTS_V4).prop_map(|it| (AddressType::Fqdn, it)),
    ];
    let service = option::weighted(0.9, word(SERVICES));
    let headless = proptest::bool::weighted(0.1);
    (slice_name(), service, headless, vec(port, 0..4), members).prop_map(
        |(name, service, headless, ports, (address_type, endpoints))| EndpointSlice {
            name,
            service,
            headless,
            address_type,
            ports,
            endpoints,
            triggered: None,
        },
    )
}

fn node() -> impl Strategy<Value = Node> {
    let cidrs = prop_oneof![
        Just(&["10.244.0.0/24"][..]),
        Just(&["10.244.0.0/24", "fd00:244::/64"][..])
    ];
    let addresses = some_of(&["192.168.0.1", "192.168.5.1", "fd00:168::1"], ip);
    (word(NODES), addresses, option::of(word(ZONES)), cidrs).prop_map(
        |(name, addresses, zone, cidrs)| Node {
            name,
            addresses,
            zone,
            pod_cidrs: cidrs.iter().copied().map(net).collect(),
            leaving: false,
        },
    )
}

fn service_cidr() -> impl Strategy<Value = ServiceCidr> {
    let cidrs = some_of(&["10.96.0.0/24", "10.96.0.0/16", "fd00:96::/112"], net);
    (word(&["kubernetes", "more"]), cidrs).prop_map(|(name, cidrs)| ServiceCidr { name, cidrs })
}

fn event() -> impl Strategy<Value = Event> {
    fn change<M>(object: M) -> Change<M> {
        Change::Set(Arc::new(object))
    }
    let set = prop_oneof![
        6 => service().prop_map(|it| Event::Service(change(it))),
        6 => slice().prop_map(|it| Event::EndpointSlice(change(it))),
        1 => node().prop_map(|it| Event::Node(change(it))),
        1 => service_cidr().prop_map(|it| Event::ServiceCidr(change(it))),
    ];
    let scoped = |it| NamespacedName::new("", it);
    let delete = prop_oneof![
        3 => service_name().prop_map(|it| Event::Service(Change::Delete(it))),
        3 => slice_name().prop_map(|it| Event::EndpointSlice(Change::Delete(it))),
        1 => word(NODES).prop_map(move |it| Event::Node(Change::Delete(scoped(it)))),
        1 => word(&["kubernetes", "more"])
            .prop_map(move |it| Event::ServiceCidr(Change::Delete(scoped(it)))),
    ];
    prop_oneof![5 => set, 1 => delete]
}

/// Up to two dozen events about few objects with few addresses: Services that share ClusterIPs,
/// frontends and NodePorts, slices that move between Services, dual stack, every policy, hints,
/// terminating endpoints, Services that are none of ours.
pub fn arbitrary_events() -> impl Strategy<Value = Vec<Event>> {
    vec(event(), 0..24)
}

/// A DNS server of the node in front of one of the Services, also at an address that one of them may have as
/// its ClusterIP, and no other as any address.
fn dns() -> impl Strategy<Value = NodeDns> {
    (service_name(), option::of(Just(ip("10.96.0.1")))).prop_map(|(service, cluster_ip)| NodeDns {
        service,
        addresses: DNS_ADDRESSES.to_vec(),
        cluster_ips: cluster_ip.into_iter().collect(),
    })
}

/// The settings of [`NODE`] with each detector and each choice of NodePort addresses.
pub fn arbitrary_settings() -> impl Strategy<Value = Settings> {
    let cidrs = || vec![net("10.244.0.0/24"), net("fd00:244::/64")];
    let detector = prop_oneof![
        Just(LocalDetector::None),
        Just(LocalDetector::ClusterCidrs(cidrs())),
        Just(LocalDetector::NodeCidr),
        Just(LocalDetector::Bridge("cni0".into())),
        Just(LocalDetector::InterfacePrefix("veth".into())),
    ];
    let node_ports = prop_oneof![
        Just(NodePortAddresses::Primary),
        Just(NodePortAddresses::Within(Vec::new())),
        Just(NodePortAddresses::Within(vec![
            net("192.168.5.0/24"),
            net("127.0.0.0/8")
        ])),
    ];
    let masquerade_all = proptest::bool::weighted(0.2);
    let range = rarely(Just(30_080..=30_080));
    let own_ports = rarely(Just(std::collections::BTreeSet::from([80, 30_081])));
    let rare = (range, own_ports, option::weighted(0.3, dns()));
    (detector, node_ports, masquerade_all, rare).prop_map(
        |(local_detector, node_ports, masquerade_all, (node_port_range, own_ports, dns))| {
            Settings {
                dns,
                local_detector,
                node_ports,
                masquerade_all,
                node_port_range,
                own_ports: own_ports.unwrap_or_default(),
                fallback_node_ips: vec![ip("192.168.0.1"), ip("fd00:168::1")],
                ..Settings::for_node(NODE)
            }
        },
    )
}

/// A packet between addresses of the universe, mostly to one that a Service may have, with source
/// and destination of one family.
pub fn arbitrary_packet() -> impl Strategy<Value = Packet> {
    prop_oneof![9 => packet_between(), 1 => packet_to_dns()]
}

/// A packet to the node's DNS server: of a client, or of the node itself, whose source is the address.
fn packet_to_dns() -> impl Strategy<Value = Packet> {
    let port = select(SERVICE_PORTS);
    let client = option::of((address(ENDPOINTS_V4), word(&["cni0", "veth1", "eth0"])));
    (select(&DNS_ADDRESSES[..]), client, protocol(), port).prop_map(
        |(destination, client, protocol, port)| {
            let client = client.filter(|_| destination.is_ipv4());
            Packet {
                source: client.as_ref().map_or(destination, |it| it.0),
                destination,
                protocol,
                port,
                interface: client.map(|it| it.1),
            }
        },
    )
}

fn packet_between() -> impl Strategy<Value = Packet> {
    let source = prop_oneof![
        3 => address(ENDPOINTS_V4),
        3 => address(ENDPOINTS_V6),
        2 => address(CLIENTS),
        2 => address(NODE_IPS),
        1 => address(LOAD_BALANCERS),
    ];
    let destination = prop_oneof![
        3 => address(CLUSTER_IPS_V4),
        3 => address(CLUSTER_IPS_V6),
        2 => address(EXTERNAL_IPS),
        2 => address(LOAD_BALANCERS),
        4 => address(NODE_IPS),
        1 => address(STRANGERS),
    ];
    let port = prop_oneof![
        3 => select(SERVICE_PORTS),
        2 => select(NODE_PORTS),
        1 => Just(8080u16),
    ];
    let interface = option::of(word(&["cni0", "veth1", "eth0"]));
    (source, destination, protocol(), port, interface)
        .prop_filter("one family", |(source, destination, ..)| {
            source.is_ipv4() == destination.is_ipv4()
        })
        .prop_map(|(source, destination, protocol, port, interface)| Packet {
            source,
            destination,
            protocol,
            port,
            interface,
        })
}
