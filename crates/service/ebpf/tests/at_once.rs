//! All kinds of clients at once, whose ports are the same few: nobody gets another one's answers.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use sluice_bpf_abi::PortRange;
use sluice_ebpf::{Facts, Patterns, Sizes};
use sluice_lab::{Cluster, Netns, Probe, Protocol, Server, Spread, probe_many, require_netns};
use sluice_plan::testing::{node, service, slices};
use sluice_plane::Proxy;
use sluice_scenarios::{Drive as _, golden};

const PORT: u16 = 8080;
const NODE_PORTS: [u16; 2] = [30080, 30081];
/// Requests of each client to each address, of TCP and of UDP. A connection of UDP has its port for much longer than this
/// test takes.
const REQUESTS: [(Protocol, u32); 2] = [(Protocol::Tcp, 1500), (Protocol::Udp, 300)];
/// A lost SYN is sent again after a second; a datagram is not.
const PATIENT: Duration = Duration::from_secs(4);

/// Source ports: those that sockets get by themselves, and those that the programs give to others.
#[derive(Clone, Copy, Debug)]
struct Ports {
    sockets: [u16; 2],
    others: [u16; 2],
}

/// Sockets get other ports than the programs give.
#[test]
fn ports_of_their_own() {
    everybody(Ports {
        sockets: [22_000, 23_999],
        others: [20_000, 21_999],
    });
}

/// Sockets get the ports that the programs give as well, as on servers with many connections.
#[test]
fn the_same_ports() {
    everybody(Ports {
        sockets: [20_000, 23_999],
        others: [20_000, 23_999],
    });
}

fn everybody(ports: Ports) {
    require_netns!();
    let cluster = Cluster::builder()
        .node("node-a")
        .node("node-b")
        .pod("cli", "node-a")
        .pod("near", "node-a")
        .pod("far", "node-b")
        .client("outside")
        .build()
        .unwrap();
    let pods = ["near", "far"].map(|it| cluster.pod(it));
    let servers = pods.iter().flat_map(|pod| {
        let serve = |protocol| Server::start(pod.netns(), pod.name(), PORT, protocol).unwrap();
        [Protocol::Tcp, Protocol::Udp].map(serve)
    });
    let _servers: Vec<Server> = servers.collect();
    let home = cluster.node("node-a");
    let mut events = vec![node(&format!("node-a {}", home.ipv4()))];
    for (pod, (number, node_port)) in pods.iter().zip((10..).zip(NODE_PORTS)) {
        let (name, addr) = (pod.name(), format!("{}:{PORT}@", pod.ipv4()));
        events.push(service(&format!(
            "{name} NodePort 10.96.0.{number} tcp:80@{node_port} udp:80/udp@{node_port}"
        )));
        for port in ["tcp", "udp/udp"] {
            let slice = format!("{name}-{}", &port[..3]);
            events.extend(slices(&slice, &format!("{name}:{port}"), &addr));
        }
    }
    let [first, last] = ports.others;
    let facts = Facts {
        masquerade_ports: [PortRange { first, last }, PortRange { first: 1, last: 0 }],
        ..Facts::default()
    };
    let range = ports.sockets.map(|it| it.to_string()).join(" ");
    home.netns()
        .sysctl("net.ipv4.ip_local_port_range", &range)
        .unwrap();
    let _proxy = home.netns().run(|| {
        let plane = crate::common::open(Patterns::none(), Sizes::default(), facts);
        let mut proxy = Proxy::new(golden::settings(), plane);
        proxy.change(events);
        proxy
    });
    let outside = cluster.client("outside");
    outside.route_via(home.pod_cidr_v4().into(), home).unwrap();
    let near = SocketAddr::new(cluster.pod("near").ipv4().into(), PORT);
    let mut tasks = vec![(outside.netns(), near)];
    for (pod, (number, node_port)) in pods.iter().zip((10_u8..).zip(NODE_PORTS)) {
        let direct = SocketAddr::new(pod.ipv4().into(), PORT);
        let virtual_ip = SocketAddr::new([10, 96, 0, number].into(), 80);
        let node_port = SocketAddr::new(home.ipv4().into(), node_port);
        tasks.extend([direct, virtual_ip, node_port].map(|it| (home.netns(), it)));
        let client = cluster.pod("cli").netns();
        tasks.extend([direct, virtual_ip, node_port].map(|it| (client, it)));
        tasks.push((outside.netns(), node_port));
        // A socket whose own port is the NodePort that it dials.
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            let probe = Probe::new(node_port, protocol).source_port(node_port.port());
            let outcome = probe.timeout(PATIENT).from(home.netns());
            assert_eq!(outcome.name(), Some(pod.name()), "{outcome:?}");
        }
    }
    for (name, target, protocol, spread) in ask_all(&tasks) {
        let what = format!("{name} to {target}, {protocol:?}");
        assert!(spread.failed.is_empty(), "{what}: {spread:?}");
    }
}

/// All requests, at once.
fn ask_all<'a>(tasks: &[(&'a Netns, SocketAddr)]) -> Vec<(&'a str, SocketAddr, Protocol, Spread)> {
    thread::scope(|scope| {
        let tasks = tasks.iter().flat_map(|task| REQUESTS.map(|it| (task, it)));
        let ask = |((netns, target), (protocol, requests)): (&(&'a Netns, SocketAddr), _)| {
            let probe = Probe::new(*target, protocol).timeout(PATIENT);
            let spread = probe_many(netns, probe, requests);
            (netns.name(), *target, protocol, spread)
        };
        let started: Vec<_> = tasks.map(|task| scope.spawn(move || ask(task))).collect();
        let ended = started.into_iter().map(|it| it.join().unwrap());
        ended.collect()
    })
}
