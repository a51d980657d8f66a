//! Many Services, many connections, and more of these than the table holds.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use sluice_bpf_abi::Counter;
use sluice_ebpf::{Ebpf, Facts, Patterns, Sizes, Timeouts};
use sluice_lab::{Cluster, Netns, Probe, Protocol, Server, Session, eventually, require_netns};
use sluice_model::{Change, NamespacedName};
use sluice_plan::Event;
use sluice_plan::testing::{endpoints, service};
use sluice_plane::{DataPlane as _, Proxy};
use sluice_scenarios::{Drive as _, golden};

const PORT: u16 = 8080;
const SOON: Duration = Duration::from_secs(30);
const VIP: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 96, 0, 10)), 80);

fn open(sizes: Sizes) -> Proxy<Ebpf> {
    // Nothing ends by itself here, however slow the machine is.
    let long = Duration::from_secs(3600);
    let timeouts = Timeouts {
        udp: long,
        udp_stream: long,
        ..Timeouts::default()
    };
    let plane = crate::common::open(Patterns::none(), sizes, Facts::default());
    Proxy::new(golden::settings(), plane.with_timeouts(timeouts))
}

fn cluster(pods: &[String]) -> Cluster {
    let builder = Cluster::builder().node("node-a").pod("cli", "node-a");
    let pods = pods.iter();
    pods.fold(builder, |builder, pod| builder.pod(pod, "node-a"))
        .build()
        .unwrap()
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|it| format!("web-{it}")).collect()
}

/// The endpoints that these pods are, for [`endpoints`].
fn addresses(cluster: &Cluster, pods: &[String]) -> String {
    let of = |it: &String| format!("{}:{PORT}@", cluster.pod(it).ipv4());
    pods.iter().map(of).collect::<Vec<_>>().join(" ")
}

/// Each Service answers with its own endpoints among 10,000 others; one change is in force at once; afterwards the
/// maps are empty.
#[test]
fn ten_thousand_services() {
    const SERVICES: u16 = 10_000;
    require_netns!();
    let pods = names(20);
    let cluster = cluster(&pods);
    let servers = pods
        .iter()
        .map(|it| Server::start(cluster.pod(it).netns(), it, PORT, Protocol::Tcp).unwrap());
    let _servers: Vec<Server> = servers.collect();
    // Services of even numbers have the first ten, the others the last ten.
    let halves = [&pods[..10], &pods[10..]];
    let name = |number: u16| format!("default/web-{number}");
    let ip = |number: u16| {
        let [high, low] = number.to_be_bytes();
        Ipv4Addr::new(10, 97, high, low)
    };
    let lists = halves.map(|it| addresses(&cluster, it));
    let events = (0..SERVICES).flat_map(|number| {
        let mut events = vec![service(&format!("{} {} :80", name(number), ip(number)))];
        events.extend(endpoints(&name(number), &lists[usize::from(number % 2)]));
        events
    });
    let node = cluster.node("node-a").netns();
    let mut proxy = node.run(|| {
        let mut proxy = open(Sizes::default());
        proxy.change(events.collect());
        proxy
    });
    let answer = |number: u16| {
        let probe = Probe::tcp(SocketAddr::new(ip(number).into(), 80)).timeout(SOON);
        let outcome = probe.from(cluster.pod("cli").netns());
        outcome
            .name()
            .unwrap_or_else(|| panic!("{outcome}"))
            .to_owned()
    };
    for number in (0..SERVICES).step_by(101) {
        let seen = answer(number);
        assert!(
            halves[usize::from(number % 2)].contains(&seen),
            "{number}: {seen}"
        );
    }
    let only = addresses(&cluster, &pods[..1]);
    node.run(|| proxy.change(endpoints(&name(5001), &only)));
    assert_eq!(answer(5001), pods[0]);
    let gone = (0..SERVICES).map(|number| {
        let name = NamespacedName::new("default", format!("web-{number}"));
        Event::Service(Change::Delete(name))
    });
    node.run(|| {
        proxy.change(gone.collect());
        // A large change is planned and written in parts.
        while proxy.is_any_left() {
            proxy.replan();
            proxy.sync().unwrap();
        }
    });
    let maps = proxy.reconciler().backend().programs().maps();
    assert_eq!(maps.frontends.entries().unwrap().len(), 0);
    assert_eq!(maps.endpoints.entries().unwrap().len(), 0);
    assert_eq!(maps.addresses.entries().unwrap().len(), 0);
}

/// Pods that take datagrams and tell who sent them.
struct Sinks {
    /// The number of the pod and the sender.
    taken: Receiver<(usize, SocketAddr)>,
}

impl Sinks {
    fn start(cluster: &Cluster, pods: &[String]) -> Self {
        let (sender, taken) = mpsc::channel();
        for (pod, name) in pods.iter().enumerate() {
            let netns = cluster.pod(name).netns();
            let socket = netns.run(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT)).unwrap());
            // Notices then that nobody asks any more.
            socket
                .set_read_timeout(Some(Duration::from_millis(100)))
                .unwrap();
            let sender = sender.clone();
            thread::spawn(move || {
                let idle = SocketAddr::from(([0; 4], 0));
                loop {
                    let from = socket.recv_from(&mut [0; 1]).map_or(idle, |(_, from)| from);
                    if sender.send((pod, from)).is_err() {
                        return;
                    }
                }
            });
        }
        Self { taken }
    }

    /// A datagram from each of these ports; who got it.
    fn send(&self, client: &Netns, ports: &[u16]) -> HashMap<SocketAddr, usize> {
        let mut all = HashMap::new();
        // As many as a socket's buffer holds.
        for ports in ports.chunks(100) {
            client.run(|| {
                for port in ports {
                    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, *port)).unwrap();
                    socket.send_to(b"x", VIP).unwrap();
                }
            });
            let mut left = ports.len();
            while left > 0 {
                let (pod, from) = self.taken.recv_timeout(SOON).unwrap();
                if from.port() != 0 {
                    assert_eq!(all.insert(from, pod), None);
                    left -= 1;
                }
            }
        }
        all
    }
}

fn web(cluster: &Cluster, protocol: &str, pods: &[String]) -> Vec<Event> {
    let mut events = vec![service(&format!(
        "default/{protocol} {} :80/{protocol}",
        VIP.ip()
    ))];
    let port = format!("default/{protocol}:/{protocol}");
    events.extend(endpoints(&port, &addresses(cluster, pods)));
    events
}

/// Every connection keeps its endpoint, while endpoints come and another agent makes the table larger.
#[test]
fn a_hundred_thousand_connections() {
    require_netns!();
    let pods = names(3);
    let builder = Cluster::builder().node("node-a").pod("cli", "node-a");
    let builder = builder.pod("cli-2", "node-a");
    let builder = pods.iter().fold(builder, |it, pod| it.pod(pod, "node-a"));
    let cluster = builder.build().unwrap();
    let sinks = Sinks::start(&cluster, &pods);
    let node = cluster.node("node-a").netns();
    let start = |flows, pods: &[String]| {
        node.run(|| {
            let mut proxy = open(Sizes {
                flows,
                ..Sizes::default()
            });
            proxy.change(web(&cluster, "udp", pods));
            proxy
        })
    };
    let ports: Vec<u16> = (10_000..60_000).collect();
    let round = || {
        let clients = ["cli", "cli-2"].map(|it| sinks.send(cluster.pod(it).netns(), &ports));
        clients.into_iter().flatten().collect::<HashMap<_, _>>()
    };
    let mut proxy = start(1_700_000, &pods[..2]);
    let first = round();
    assert_eq!(first.len(), 100_000);
    node.run(|| proxy.change(web(&cluster, "udp", &pods)));
    drop(proxy);
    let proxy = start(2_000_000, &pods);
    assert!(round() == first);
    let maps = proxy.reconciler().backend().programs().maps();
    assert_eq!(maps.flows.capacity(), 2_000_000);
    assert_eq!(maps.flows.entries().unwrap().len(), 300_000);
}

/// A datagram from each of these ports, at once. Not all need arrive.
fn flood(client: &Netns, ports: std::ops::Range<u16>) {
    client.run(|| {
        for port in ports {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).unwrap();
            socket.send_to(b"x", VIP).unwrap();
        }
    });
}

/// A client that opens many more connections than the table holds ends none that is open, also those that are idle. What
/// finds no room is dropped, counted and told. While the client goes on, also on the same ports, it is limited, and others
/// are served.
#[test]
fn a_flood_ends_no_open_connection() {
    const FLOWS: u32 = 4096;
    require_netns!();
    let pods = names(1);
    let builder = Cluster::builder().node("node-a").pod(&pods[0], "node-a");
    let cluster = builder.pod("cli", "node-a").pod("other", "node-a").build();
    let cluster = cluster.unwrap();
    let _sinks = Sinks::start(&cluster, &pods);
    let server = cluster.pod(&pods[0]).netns();
    let _server = Server::start(server, &pods[0], PORT, Protocol::Tcp).unwrap();
    let [client, other] = ["cli", "other"].map(|it| cluster.pod(it).netns());
    let proxy = cluster.node("node-a").netns().run(|| {
        let sizes = Sizes {
            flows: FLOWS,
            ..Sizes::default()
        };
        let plane = crate::common::open(Patterns::none(), sizes, Facts::default());
        let mut proxy = Proxy::new(golden::settings(), plane);
        proxy.change(web(&cluster, "udp", &pods));
        proxy.change(web(&cluster, "tcp", &pods));
        proxy
    });
    let sessions = (0..20).map(|_| Session::connect(client, VIP).unwrap());
    let mut sessions: Vec<Session> = sessions.collect();
    let plane = proxy.reconciler().backend();
    let fills = plane.table_fills().unwrap();
    let flows = || fills().into_iter().find(|it| it.table == "FLOWS").unwrap();
    flood(client, 10_000..30_000);
    // Every second one is idle all the time.
    sessions
        .iter_mut()
        .step_by(2)
        .for_each(|it| it.ping().unwrap());
    let is_told = || flows().dropping.filter(|it| it.contains("--ebpf-flows"));
    eventually(SOON, is_told).unwrap_or_else(|| panic!("{:?}", flows()));
    assert!(flows().drops.unwrap().full > 0);
    let is_limited = || {
        flood(client, 10_000..12_000);
        (flows().drops.unwrap().share > 0).then_some(())
    };
    eventually(SOON, is_limited).unwrap_or_else(|| panic!("{:?}", flows()));
    let is_served = || {
        flood(client, 12_000..14_000);
        Session::connect(other, VIP).ok()
    };
    eventually(SOON, is_served).unwrap_or_else(|| panic!("{:?}", flows()));
    sessions.iter_mut().for_each(|it| it.ping().unwrap());
    let is_counted = || {
        let counted = |it| plane.counted(it).iter().sum::<u64>();
        (counted(Counter::ClientLimit) > 0 && counted(Counter::FlowsFull) > 0).then_some(())
    };
    eventually(SOON, is_counted).expect("both are counted");
}
