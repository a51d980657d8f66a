//! Connections and refused packets of real clients, counted by the kernel.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use sluice_lab::{Cluster, Netns, Probe, Protocol, Server, Session, Spread, require_netns};
use sluice_model::IpFamily;
use sluice_nftables::{Counting, Nftables};
use sluice_plan::Event;
use sluice_plan::Frontend;
use sluice_plan::settings::Settings;
use sluice_plan::testing::{cidr, endpoints, node, service};
use sluice_plane::{DataPlane as _, DenialReason, Proxy};
use sluice_scenarios::Drive as _;

const V4: &str = "10.96.0.10:80";
const V6: &str = "[fd00:10:96::a]:80";

/// A proxy in the node of a cluster.
struct Node<'a> {
    netns: &'a Netns,
    proxy: Proxy<Nftables>,
}

impl<'a> Node<'a> {
    fn start(netns: &'a Netns, counting: Counting, events: &[Event]) -> Self {
        let plane = netns.run(|| Nftables::connect().unwrap().counting(counting));
        let proxy = Proxy::new(Settings::for_node("node-a"), plane);
        let mut node = Self { netns, proxy };
        node.change(events);
        node
    }

    fn change(&mut self, events: &[Event]) {
        self.proxy.change(events.to_vec());
    }

    /// Connections by frontend and endpoint, in all maps.
    fn counts(&self) -> BTreeMap<(Frontend, SocketAddr), u64> {
        let backend = self.proxy.reconciler().backend();
        let counters = self.netns.run(|| backend.counters());
        let reading = counters.unwrap().unwrap().read().unwrap();
        assert!(reading.is_complete);
        let mut counts = BTreeMap::new();
        for it in reading.counts {
            *counts.entry((it.frontend, it.endpoint)).or_default() += it.connections;
        }
        counts
    }
}

fn address(target: &str) -> Frontend {
    let target: SocketAddr = target.parse().unwrap();
    Frontend::Address {
        addr: target.ip(),
        port: target.port(),
        protocol: sluice_model::Protocol::Tcp,
    }
}

#[test]
fn every_connection_counts_once_for_the_endpoint_that_answered() {
    require_netns!();
    let builder = Cluster::builder().node("node-a").client("client");
    let builder = ["one", "two", "three"]
        .iter()
        .fold(builder, |it, pod| it.pod(pod, "node-a"));
    let cluster = builder.build().unwrap();
    let pods = ["one", "two", "three"].map(|it| cluster.pod(it));
    let _servers =
        pods.map(|it| Server::start(it.netns(), it.name(), 8080, Protocol::Tcp).unwrap());
    let home = cluster.node("node-a");
    let client = cluster.client("client").netns();
    let slices = |pods: &[&sluice_lab::Pod]| {
        let each = |it: &&sluice_lab::Pod| format!("{}:8080@ [{}]:8080@", it.ipv4(), it.ipv6());
        let all: Vec<String> = pods.iter().map(each).collect();
        endpoints("default/web", &all.join(" "))
    };
    let mut events = vec![
        node(&format!("node-a {} {}", home.ipv4(), home.ipv6())),
        service("default/web NodePort 10.96.0.10 fd00:10:96::a :80@30080 etp=local"),
    ];
    events.extend(slices(&pods[..2]));
    let mut proxy = Node::start(home.netns(), Counting::Connections, &events);

    let ask = |target: &str, times: u32| -> Spread {
        let probe = Probe::tcp(target.parse().unwrap());
        (0..times).map(|_| probe.from(client)).collect()
    };
    let node_ports = [IpAddr::from(home.ipv4()), home.ipv6().into()]
        .map(|it| SocketAddr::new(it, 30080).to_string());
    let node_port_frontend = |target: &str| {
        let target: SocketAddr = target.parse().unwrap();
        Frontend::NodePort {
            family: sluice_model::IpFamily::of(&target.ip()),
            port: 30080,
            protocol: sluice_model::Protocol::Tcp,
        }
    };
    let endpoint = |target: &str, pod: &sluice_lab::Pod| {
        if target.contains('[') {
            SocketAddr::new(pod.ipv6().into(), 8080)
        } else {
            SocketAddr::new(pod.ipv4().into(), 8080)
        }
    };
    let dialled = [
        (V4, address(V4)),
        (V6, address(V6)),
        (&*node_ports[0], node_port_frontend(&node_ports[0])),
        (&*node_ports[1], node_port_frontend(&node_ports[1])),
    ];
    for (target, frontend) in &dialled {
        let answers = ask(target, 12);
        assert_eq!(answers.failures(), 0, "{target}: {answers}");
        let counts = proxy.counts();
        for pod in &pods[..2] {
            let counted = counts[&(*frontend, endpoint(target, pod))];
            assert_eq!(counted, answers.of(pod.name()), "{target} {}", pod.name());
        }
    }

    // An endpoint that replaces another begins at zero, an endpoint that stays goes on.
    let before = proxy.counts();
    proxy.change(&slices(&[pods[0], pods[2]]));
    let counts = proxy.counts();
    assert_eq!(counts[&(address(V4), endpoint(V4, pods[2]))], 0);
    assert!(!counts.contains_key(&(address(V4), endpoint(V4, pods[1]))));
    let stayed = (address(V4), endpoint(V4, pods[0]));
    assert_eq!(counts[&stayed], before[&stayed]);

    // Another agent that counts too finds these counts; switching counting off and on
    // again breaks no connection.
    let mut held = Session::connect(client, V4.parse().unwrap()).unwrap();
    events.extend(slices(&[pods[0], pods[2]]));
    let counts = proxy.counts();
    let restarted = Node::start(home.netns(), Counting::Connections, &events);
    assert_eq!(restarted.counts(), counts);
    for counting in [Counting::Nothing, Counting::Connections] {
        let switched = Node::start(home.netns(), counting, &events);
        held.ping().unwrap();
        let answers = ask(V4, 4);
        assert_eq!(answers.failures(), 0, "{counting:?}: {answers}");
        if counting == Counting::Connections {
            assert_eq!(switched.counts().values().sum::<u64>(), 4);
        }
    }
}

/// Denied packets by reason, in the order of [`DenialReason::ALL`], for each family.
fn denied(netns: &Netns, proxy: &Proxy<Nftables>) -> [[u64; 5]; 2] {
    let backend = proxy.reconciler().backend();
    let counters = netns.run(|| backend.denial_counters());
    let all = counters.unwrap().unwrap().read().unwrap();
    assert_eq!(all.len(), 10, "{all:?}");
    [IpFamily::V4, IpFamily::V6].map(|family| {
        DenialReason::ALL.map(|reason| {
            let mut all = all.iter();
            let found = all.find(|it| (it.family, it.reason) == (family, reason));
            found.unwrap().packets
        })
    })
}

#[test]
fn what_is_refused_is_counted_by_reason() {
    require_netns!();
    let builder = Cluster::builder().node("node-a").client("client");
    let cluster = builder.build().unwrap();
    let home = cluster.node("node-a");
    let client = cluster.client("client").netns();
    let mut events = vec![
        node(&format!("node-a {} {}", home.ipv4(), home.ipv6())),
        cidr("10.96.0.0/24,fd00:10:96::/112"),
        service("default/empty 10.96.0.10 fd00:10:96::a :80"),
        service("default/far LoadBalancer 10.96.0.11 fd00:10:96::b :80@30080 etp=local"),
        service("default/few LoadBalancer 10.96.0.12 :80 lb=10.96.1.12 ranges=192.0.2.0/24"),
    ];
    events.extend(endpoints(
        "default/far",
        "10.244.9.9:80@other [fd00:9::9]:80@other",
    ));
    events.extend(endpoints("default/few", "10.244.9.9:80@other"));
    let mut proxy = Node::start(home.netns(), Counting::Nothing, &events);
    let [v4, v6] = [IpAddr::from(home.ipv4()), home.ipv6().into()];
    let mut last = denied(home.netns(), &proxy.proxy);
    assert_eq!(last, [[0; 5]; 2]);
    for (target, family, reason) in [
        ("10.96.0.10:80".to_owned(), 0, DenialReason::NoEndpoints),
        (
            "[fd00:10:96::a]:80".to_owned(),
            1,
            DenialReason::NoEndpoints,
        ),
        ("10.96.0.11:81".to_owned(), 0, DenialReason::UndefinedPort),
        (
            "[fd00:10:96::b]:81".to_owned(),
            1,
            DenialReason::UndefinedPort,
        ),
        (
            SocketAddr::new(v4, 30080).to_string(),
            0,
            DenialReason::NoLocalEndpoints,
        ),
        (
            SocketAddr::new(v6, 30080).to_string(),
            1,
            DenialReason::NoLocalEndpoints,
        ),
        ("10.96.1.12:80".to_owned(), 0, DenialReason::SourceRanges),
        (
            "10.96.0.99:80".to_owned(),
            0,
            DenialReason::UnallocatedClusterIp,
        ),
        (
            "[fd00:10:96::99]:80".to_owned(),
            1,
            DenialReason::UnallocatedClusterIp,
        ),
    ] {
        let probe = Probe::tcp(target.parse().unwrap());
        let _ = probe.timeout(Duration::from_millis(50)).from(client);
        let now = denied(home.netns(), &proxy.proxy);
        let grown = (0..2).flat_map(|family| {
            let reasons = DenialReason::ALL.iter().enumerate();
            reasons
                .filter(move |(index, _)| now[family][*index] > last[family][*index])
                .map(move |(_, reason)| (family, *reason))
        });
        assert_eq!(grown.collect::<Vec<_>>(), [(family, reason)], "{target}");
        last = now;
    }
    // The counts make no rule differ: neither for this agent nor for the next.
    assert!(proxy.proxy.resync().is_empty());
    let restarted = Node::start(home.netns(), Counting::Nothing, &events);
    assert_eq!(denied(home.netns(), &restarted.proxy), last);
}
