//! Real connections between pods, through the kernel.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use sluice_lab::{Attach, Cluster, Netns, Probe, Protocol, Server, require_netns};
use sluice_model::Protocol as ModelProtocol;
use sluice_nft::Connection;
use sluice_policy_plan::Plan;
use sluice_policy_plan::lookup::{Packet, lookup};
use sluice_policy_plan::testing::{events, parse};

use crate::common::Enforced;

const PORTS: [u16; 2] = [80, 81];

/// Pods a/web and a/db on the node whose policies are enforced, b/web on another one, and a client outside.
struct Bed {
    cluster: Cluster,
    _servers: Vec<Server>,
}

impl Bed {
    fn new() -> Self {
        let builder = Cluster::builder().node("n1").node("n2").client("client");
        let builder = builder
            .pod("a-web", "n1")
            .pod("a-db", "n1")
            .pod("b-web", "n2");
        let cluster = builder.attach(Attach::Routed).build().unwrap();
        let mut servers = Vec::new();
        for pod in cluster.pods() {
            for port in PORTS {
                for protocol in [Protocol::Tcp, Protocol::Udp] {
                    servers.push(Server::start(pod.netns(), pod.name(), port, protocol).unwrap());
                }
            }
        }
        Self {
            cluster,
            _servers: servers,
        }
    }

    /// Namespaces and pods in the lines of [`parse`], with these policies.
    fn objects(&self, family: usize, policies: &str) -> String {
        let line = |pod: &str, rest: &str| {
            let address = self.addresses(pod)[family];
            let name = pod.replace('-', "/");
            format!(
                "pod {name} {} {address} {rest}\n",
                self.cluster.pod(pod).node()
            )
        };
        let pods = [
            line("a-web", "app=web http=80"),
            line("a-db", "app=db http=81"),
            line("b-web", "app=web"),
        ];
        format!("ns a team=red\nns b team=blue\n{}{policies}", pods.concat())
    }

    fn addresses(&self, pod: &str) -> [IpAddr; 2] {
        let pod = self.cluster.pod(pod);
        [pod.ipv4().into(), pod.ipv6().into()]
    }

    fn ends(&self) -> Vec<(&Netns, [IpAddr; 2])> {
        let pods = self.cluster.pods().iter();
        let pods = pods.map(|it| (it.netns(), [it.ipv4().into(), it.ipv6().into()]));
        let client = self.cluster.client("client");
        let client = (client.netns(), [client.ipv4().into(), client.ipv6().into()]);
        pods.chain([client]).collect()
    }

    /// From every end to every port of every pod.
    fn attempts(&self, family: usize) -> Vec<(&Netns, Packet)> {
        let mut attempts = Vec::new();
        for (netns, sources) in self.ends() {
            for pod in self.cluster.pods() {
                let (source, destination) = (sources[family], self.addresses(pod.name())[family]);
                let both = [ModelProtocol::Tcp, ModelProtocol::Udp];
                let ports = PORTS.into_iter().flat_map(|port| both.map(|it| (it, port)));
                attempts.extend(ports.filter(|_| source != destination).map(|port| {
                    let packet = Packet {
                        source,
                        destination,
                        port: Some(port),
                    };
                    (netns, packet)
                }));
            }
        }
        attempts
    }

    /// Every connection from every end to every pod is as the plan of the node says.
    fn check(&self, policies: &str) {
        for family in [0, 1] {
            let world = parse(&self.objects(family, policies));
            let node = self.cluster.node("n1").netns();
            let planner = node.run(|| {
                let mut enforced = Enforced::on(Connection::open().unwrap());
                enforced.set(&world);
                enforced.planner
            });
            let plan = planner.plan();
            let wrong: Vec<String> = thread::scope(|scope| {
                let attempts = self.attempts(family).into_iter();
                let attempts =
                    attempts.map(|(netns, packet)| scope.spawn(move || wrong(plan, netns, packet)));
                let attempts: Vec<_> = attempts.collect();
                attempts
                    .into_iter()
                    .filter_map(|it| it.join().unwrap())
                    .collect()
            });
            assert!(wrong.is_empty(), "{policies}\n{}", wrong.join("\n"));
        }
    }
}

/// What is wrong with the outcome of a connection.
fn wrong(plan: &Plan, netns: &Netns, packet: Packet) -> Option<String> {
    let decision = lookup(plan, &packet);
    // What is dropped gets no answer, however long it waits.
    let wait = if decision.is_allowed() { 5_000 } else { 200 };
    let (protocol, port) = packet.port?;
    let protocol = match protocol {
        ModelProtocol::Udp => Protocol::Udp,
        _ => Protocol::Tcp,
    };
    let probe = Probe::new(SocketAddr::new(packet.destination, port), protocol);
    let outcome = probe.timeout(Duration::from_millis(wait)).from(netns);
    let is_right = outcome.name().is_some() == decision.is_allowed();
    (!is_right).then(|| format!("{packet:?}: {decision:?}, got {outcome}"))
}

#[test]
fn connections_are_as_the_plan_says() {
    require_netns!();
    let bed = Bed::new();
    for policies in [
        "np a/deny ingress",
        "np a/deny egress pods=app=web",
        "np a/some ingress pods=app=web from=team=blue/app=web port=tcp:80",
        "np a/named ingress from=/ port=tcp:http",
        "np a/named egress to=/ port=tcp:http",
        "np a/block ingress from=192.168.100.0/24 port=udp:81",
        "np a/block egress to=10.244.0.0/16-10.244.1.0/24",
        "cnp all admin 0 a ingress deny from=team=blue/ port=tcp:80
         np a/all ingress from=/",
        "cnp all baseline 0 a egress deny to=team=blue/",
    ] {
        bed.check(policies);
    }
}

/// A namespace of a thousand pods gets another label, and then a policy gets another peer, which needs a set of a thousand
/// pods: of packets that two of them send in turn, none is judged by the old rules after one that the new rules judged.
#[test]
fn a_namespace_changes_at_one_moment() {
    require_netns!();
    let bed = Bed::new();
    let server = bed.cluster.pod("a-web");
    let clients = [
        (bed.cluster.pod("b-web").netns(), bed.addresses("b-web")[0]),
        {
            let client = bed.cluster.client("client");
            (client.netns(), client.ipv4().into())
        },
    ];
    let pods: String = (0..1_000)
        .map(|it| format!("pod b/p{it} n2 10.9.{}.{}\n", it / 250, it % 250))
        .collect();
    let text = format!(
        "ns a team=red\nns b team=blue\npod a/web n1 {} app=web\npod b/one n2 {}\npod b/two n2 {}\n{pods}
        np a/some ingress pods=app=web from=team=blue/",
        bed.addresses("a-web")[0], clients[0].1, clients[1].1
    );
    let node = bed.cluster.node("n1").netns();
    let mut enforced = node.run(|| Enforced::on(Connection::open().unwrap()));
    enforced.set(&parse(&text));

    let receiver = server
        .netns()
        .run(|| UdpSocket::bind("0.0.0.0:90"))
        .unwrap();
    let to = SocketAddr::new(bed.addresses("a-web")[0], 90);
    let bound = |netns: &Netns| netns.run(|| UdpSocket::bind("0.0.0.0:0")).unwrap();
    let senders = clients.map(|(netns, _)| bound(netns));
    // What the node sends passes always: the server says that it has everything that was sent before.
    let own = bound(node);
    let (seen, is_seen) = mpsc::channel();
    let receiving = thread::spawn(move || {
        let mut received = Vec::new();
        let mut buffer = [0; 4];
        while let Ok(length) = receiver.recv(&mut buffer) {
            match length {
                4 => received.push(u32::from_be_bytes(buffer)),
                1 => seen.send(()).unwrap(),
                _ => break,
            }
        }
        received
    });
    let sent = AtomicU32::new(0);
    let parts = thread::scope(|scope| {
        let changing = scope.spawn(|| {
            let pause = || {
                let before = sent.load(Ordering::Relaxed);
                while sent.load(Ordering::Relaxed) < before + 4 {
                    thread::yield_now();
                }
            };
            pause();
            enforced.change(&events(&parse("ns b team=green")));
            pause();
            let policy = parse("np a/some ingress pods=app=web from=team=green/");
            let parts = enforced.change_in_parts(&events(&policy), 50);
            pause();
            parts
        });
        while !changing.is_finished() {
            for sender in &senders {
                let index = sent.fetch_add(1, Ordering::Relaxed);
                sender.send_to(&index.to_be_bytes(), to).unwrap();
            }
            own.send_to(&[0], to).unwrap();
            is_seen.recv().unwrap();
        }
        changing.join().unwrap()
    });
    own.send_to(&[], to).unwrap();
    let received = receiving.join().unwrap();
    assert!(parts > 20, "{parts} parts");
    let gaps = received.windows(2).filter(|it| it[1] != it[0] + 1).count();
    let last = sent.load(Ordering::Relaxed) - 1;
    assert_eq!(
        (received[0], gaps, received[received.len() - 1]),
        (0, 1, last),
        "{received:?}"
    );
}
