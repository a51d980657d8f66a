//! The addresses of every scenario, and the packets of a check.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::Command;
use std::sync::Arc;

use sluice_model::{IpFamily, Protocol};
use sluice_plan::lookup::Packet;
use sluice_plan::state::HostAddresses;

use super::Scenario;
use sluice_lab::address::{FIRST_CLIENT, FIRST_NODE, FIRST_POD, lan_v4, lan_v6, pod_v4, pod_v6};
use sluice_lab::{Attach, Cluster, LabError, Netns};
use sluice_route::{Hop, Route};

/// The node that Sluice runs on.
pub(super) const NODE_A: &str = "node-a";
/// The usual port of a server: in checks its name is that of its pod.
pub(super) const USUAL_PORT: u16 = 8080;

/// Nodes with their pods, both in the order of their addresses.
const NODES: [(&str, &[&str]); 2] = [
    (NODE_A, &["web-1", "web-2", "cli-a"]),
    ("node-b", &["web-3", "web-4", "cli-b"]),
];
/// A pod on node-a with the host network.
pub(super) const HOST_POD: &str = "host-a";
/// The machine outside the cluster.
const CLIENT: &str = "client";
/// The default gateway of node-a: a machine that answers for every address.
pub(super) const ROUTER: &str = "router";
/// The port of the router's server.
pub(super) const ROUTER_PORT: u16 = 9;
/// Redirects every packet to that server.
const ROUTER_RULES: &str = "table inet router {
chain divert {
    type nat hook prerouting priority dstnat
    fib daddr type != local meta l4proto { tcp, udp, sctp } redirect to :9
}
}";
/// The Services of scenarios: the position gives the virtual IPs.
const SERVICES: [&str; 5] = ["web", "api", "old", "new", "dns"];
/// Host part of the virtual IPs of the first Service.
const FIRST_SERVICE: u8 = 10;

/// Builds a new cluster for a scenario.
pub(super) fn build(scenario: &Scenario) -> Result<Cluster, LabError> {
    let mut builder = Cluster::builder().attach(scenario.attach);
    for (node, pods) in NODES {
        builder = builder.node(node);
        for pod in pods {
            builder = builder.pod(pod, node);
        }
    }
    let builder = builder.host_pod(HOST_POD, NODE_A);
    let cluster = builder.client(CLIENT).client(ROUTER).build()?;
    let node_a = cluster.node(NODE_A);
    for address in &scenario.node_addresses {
        node_a.add_address(*address)?;
    }
    for net in ROUTED_TO_NODE_A {
        let net = net.parse().expect("the constant is a prefix");
        cluster.client(CLIENT).route_via(net, node_a)?;
    }
    node_a.netns().wire(|it| {
        let eth0 = it.index("eth0")?;
        let mut routers = addresses(ROUTER).into_iter();
        routers.try_for_each(|router| it.replace(&Route::default_via(eth0, router)))
    })?;
    // The router's answers to the client return through node-a, as the requests came. Otherwise
    // node-a would see one direction of the connection only, and could drop it as invalid.
    let router = cluster.client(ROUTER);
    router.netns().wire(|it| {
        let eth0 = it.index("eth0")?;
        let mut ways = addresses(CLIENT).into_iter().zip(addresses(NODE_A));
        ways.try_for_each(|(client, node)| it.replace(&Route::new(client, Hop::via(eth0, node))))
    })?;
    redirect(router.netns()).map_err(LabError::io("load rules of", ROUTER))?;
    Ok(cluster)
}

/// Redirects every packet to the router's server; with iptables where the kernel has no nf_tables for IP.
fn redirect(router: &Netns) -> io::Result<()> {
    load(router.command("nft", &[ROUTER_RULES])).or_else(|_| {
        let programs = ["iptables-legacy", "ip6tables-legacy"];
        let all = programs.iter().flat_map(|it| ["tcp", "udp", "sctp"].map(|protocol| (it, protocol)));
        all.into_iter().try_for_each(|(program, protocol)| {
            let rule = format!(
                "-t nat -A PREROUTING -p {protocol} -m addrtype ! --dst-type LOCAL -j REDIRECT --to-ports {ROUTER_PORT}"
            );
            load(router.command(program, &rule.split(' ').collect::<Vec<_>>()))
        })
    })
}

fn load(mut rules: Command) -> io::Result<()> {
    let output = rules.output()?;
    if output.status.success() {
        Ok(())
    } else {
        Err(io::Error::other(String::from_utf8_lossy(&output.stderr)))
    }
}

/// Ranges of load balancer addresses and external IPs, which the client routes to node-a.
const ROUTED_TO_NODE_A: [&str; 3] = ["203.0.113.0/24", "198.51.100.0/24", "2001:db8::/32"];

/// The node of a pod; `None` when no pod has this name.
pub(super) fn node_of(pod: &str) -> Option<&'static str> {
    if pod == HOST_POD {
        return Some(NODE_A);
    }
    let found = NODES.iter().find(|(_, pods)| pods.contains(&pod));
    found.map(|(node, _)| *node)
}

/// The addresses of a machine or a virtual IP, IPv4 first; one for a literal address.
///
/// # Panics
/// For an unknown name: a scenario with a typing error must not pass.
pub(super) fn addresses(host: &str) -> Vec<IpAddr> {
    if let Ok(literal) = host.trim_matches(['[', ']']).parse() {
        return vec![literal];
    }
    for (position, (node, pods)) in (0u8..).zip(NODES) {
        if host == node {
            return on_lan(FIRST_NODE + position).to_vec();
        }
        if let Some(number) = pods.iter().position(|it| *it == host) {
            let number = FIRST_POD + u8::try_from(number).expect("a node has few pods");
            return vec![
                pod_v4(position, number).into(),
                pod_v6(position, number).into(),
            ];
        }
    }
    match host {
        HOST_POD => addresses(NODE_A),
        CLIENT => on_lan(FIRST_CLIENT).to_vec(),
        ROUTER => on_lan(FIRST_CLIENT + 1).to_vec(),
        "node-a.extra" => on_lan(200).to_vec(),
        "localhost" => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
        "unallocated" => cluster_ips(99).to_vec(),
        "outside" => vec![
            Ipv4Addr::new(10, 97, 0, 99).into(),
            Ipv6Addr::new(0xfd00, 0x10, 0x97, 0, 0, 0, 0, 0x63).into(),
        ],
        _ => virtual_ips(host)
            .unwrap_or_else(|| panic!("scenario: no machine or virtual IP is called {host}")),
    }
}

/// The address of a host in one family.
pub(super) fn address(host: &str, family: IpFamily) -> Option<IpAddr> {
    let mut all = addresses(host).into_iter();
    all.find(|ip| IpFamily::of(ip) == family)
}

fn virtual_ips(host: &str) -> Option<Vec<IpAddr>> {
    let (service, kind) = host.split_once('.').unwrap_or((host, ""));
    let position = SERVICES.iter().position(|it| *it == service)?;
    let number = FIRST_SERVICE + u8::try_from(position).ok()?;
    let v6 = |subnet| Ipv6Addr::new(0x2001, 0xdb8, subnet, 0, 0, 0, 0, number.into()).into();
    match kind {
        "" => Some(cluster_ips(number).to_vec()),
        "lb" => Some(vec![Ipv4Addr::new(203, 0, 113, number).into(), v6(1)]),
        "ext" => Some(vec![Ipv4Addr::new(198, 51, 100, number).into(), v6(2)]),
        _ => None,
    }
}

fn cluster_ips(number: u8) -> [IpAddr; 2] {
    [
        Ipv4Addr::new(10, 96, 0, number).into(),
        Ipv6Addr::new(0xfd00, 0x10, 0x96, 0, 0, 0, 0, number.into()).into(),
    ]
}

fn on_lan(host: u8) -> [IpAddr; 2] {
    [lan_v4(host).into(), lan_v6(host).into()]
}

/// The pod, or the client, with this address.
pub(super) fn machine_at(address: IpAddr) -> Option<&'static str> {
    let pods = NODES.iter().flat_map(|(_, pods)| pods.iter().copied());
    let mut all = pods.chain([HOST_POD, CLIENT]);
    all.find(|it| addresses(it).contains(&address))
}

/// Whether some machine other than node-a has this address.
pub(super) fn is_elsewhere(address: IpAddr) -> bool {
    let nodes = NODES.iter().map(|(node, _)| *node);
    let pods = NODES.iter().flat_map(|(_, pods)| pods.iter().copied());
    let mut all = nodes.chain(pods).chain([CLIENT, ROUTER]);
    all.any(|it| it != NODE_A && addresses(it).contains(&address))
}

/// The name of the server at an endpoint; the address itself when no machine has it.
pub(super) fn endpoint_name(endpoint: SocketAddr) -> String {
    match machine_at(endpoint.ip()) {
        Some(machine) => server_name(machine, endpoint.port()),
        None => endpoint.to_string(),
    }
}

/// What the server of a pod answers: the pod's name, with the port when it is not 8080.
pub(super) fn server_name(pod: &str, port: u16) -> String {
    match port {
        USUAL_PORT => pod.to_owned(),
        _ => format!("{pod}:{port}"),
    }
}

/// Every address of node-a in a scenario.
pub(super) fn host_addresses(scenario: &Scenario) -> HostAddresses {
    let mut all: BTreeSet<IpAddr> = addresses(NODE_A).into_iter().collect();
    all.extend(addresses("localhost"));
    all.extend(&scenario.node_addresses);
    if scenario.attach == Attach::Bridged {
        all.extend([IpAddr::from(pod_v4(0, 1)), pod_v6(0, 1).into()]);
    }
    all
}

/// A client, and the first packet of its request as node-a sees it.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) from: &'static str,
    pub(super) packet: Packet,
}

impl Flow {
    /// The destination of the request.
    pub(super) fn target(&self) -> SocketAddr {
        SocketAddr::new(self.packet.destination, self.packet.port)
    }
}

/// The flows of a pair of `from` and `to`: one for each client, protocol and family.
///
/// # Panics
/// When `from` or `to` is malformed.
pub(super) fn flows(scenario: &Scenario, from: &'static str, to: &str) -> Vec<Flow> {
    let (host, protocols) = to.split_once('/').unwrap_or_else(|| malformed(to));
    let (host, port) = host.rsplit_once(':').unwrap_or_else(|| malformed(to));
    let port: u16 = port.parse().unwrap_or_else(|_| malformed(to));
    let destinations = addresses(host);
    let mut flows = Vec::new();
    for word in protocols.split('+') {
        let (protocol, family) = match word.as_bytes().last() {
            Some(b'4') => (&word[..word.len() - 1], Some(IpFamily::V4)),
            Some(b'6') => (&word[..word.len() - 1], Some(IpFamily::V6)),
            _ => (word, None),
        };
        let protocol: Protocol = protocol.parse().unwrap_or_else(|_| malformed(to));
        let wanted = |it: &&IpAddr| family.is_none_or(|family| IpFamily::of(it) == family);
        for destination in destinations.iter().filter(wanted) {
            let flow = |from| Flow {
                from,
                packet: Packet {
                    source: source(scenario, from, *destination),
                    destination: *destination,
                    protocol,
                    port,
                    interface: interface(scenario.attach, from),
                },
            };
            flows.extend(from.split_whitespace().map(flow));
        }
    }
    assert!(!flows.is_empty(), "scenario: {from} -> {to} has no flow");
    flows
}

fn malformed<T>(to: &str) -> T {
    panic!("scenario: {to:?} is not like web:80/tcp")
}

/// The source address that the kernel of `from` chooses: for one of its own addresses, that
/// address.
fn source(scenario: &Scenario, from: &str, destination: IpAddr) -> IpAddr {
    if from == NODE_A && host_addresses(scenario).contains(&destination) {
        return destination;
    }
    address(from, IpFamily::of(&destination)).expect("every machine has both families")
}

/// The interface of node-a where packets of `from` arrive; `None` when node-a itself sends them.
fn interface(attach: Attach, from: &str) -> Option<Arc<str>> {
    match (node_of(from), attach) {
        _ if from == NODE_A || from == HOST_POD => None,
        (Some(NODE_A), Attach::Routed) => Some(format!("veth{from}").into()),
        (Some(NODE_A), Attach::Bridged) => Some("cni0".into()),
        _ => Some("eth0".into()),
    }
}
