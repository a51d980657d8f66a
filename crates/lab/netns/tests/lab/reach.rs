//! Every machine reaches every other, and is seen with its own address.

use std::{
    net::{IpAddr, SocketAddr},
    thread,
    time::{Duration, Instant},
};

use crate::common::{BOTH, PORT, assert_answers, serve};
use sluice_lab::{
    Attach, Cluster, Errno, Outcome, Probe, Protocol, SERVICE_CIDR_V4, Server, require_netns,
};

fn cluster(attach: Attach) -> Cluster {
    Cluster::builder()
        .attach(attach)
        .node("node-a")
        .node("node-b")
        .pod("web-1", "node-a")
        .pod("web-2", "node-a")
        .pod("web-3", "node-b")
        .host_pod("agent", "node-b")
        .client("client")
        .build()
        .unwrap()
}

fn every_machine_reaches_every_other(attach: Attach) {
    let cluster = cluster(attach);
    let pods = cluster
        .pods()
        .iter()
        .map(|it| (it.name(), it.netns(), it.ipv4(), it.ipv6()));
    let clients = cluster
        .clients()
        .iter()
        .map(|it| (it.name(), it.netns(), it.ipv4(), it.ipv6()));
    let node = cluster.node("node-a");
    let node = (node.name(), node.netns(), node.ipv4(), node.ipv6());
    let all: Vec<_> = pods.chain(clients).chain([node]).collect();
    let _servers: Vec<_> = all
        .iter()
        .map(|(name, netns, ..)| serve(netns, name))
        .collect();
    for (source, from, source_v4, source_v6) in &all {
        for (target, _, target_v4, target_v6) in all.iter().filter(|(target, ..)| target != source)
        {
            // A node reaches its own pods from the address of their bridge, if they have one.
            let bridged = attach == Attach::Bridged
                && *source == "node-a"
                && ["web-1", "web-2"].contains(target);
            let bridged =
                bridged || attach == Attach::Bridged && *source == "agent" && *target == "web-3";
            if bridged {
                assert_eq!(
                    Probe::tcp((*target_v4, PORT).into()).from(from).name(),
                    Some(*target)
                );
                continue;
            }
            assert_answers(from, (*target_v4, PORT).into(), target, *source_v4);
            assert_answers(from, (*target_v6, PORT).into(), target, *source_v6);
        }
    }
}

#[test]
fn routed_pods_nodes_and_clients_reach_each_other() {
    require_netns!();
    every_machine_reaches_every_other(Attach::Routed);
}

#[test]
fn bridged_pods_nodes_and_clients_reach_each_other() {
    require_netns!();
    every_machine_reaches_every_other(Attach::Bridged);
}

#[test]
fn closed_ports_are_refused_every_time() {
    require_netns!();
    let cluster = cluster(Attach::Routed);
    let (client, pod) = (cluster.client("client"), cluster.pod("web-3"));
    for target in [IpAddr::from(pod.ipv4()), pod.ipv6().into()] {
        for protocol in BOTH {
            let probe = Probe::new((target, PORT).into(), protocol);
            let spread = sluice_lab::probe_many(client.netns(), probe, 20);
            assert_eq!(
                spread.failed.get("refused"),
                Some(&20),
                "{protocol:?} {target}:\n{spread}"
            );
        }
    }
}

#[test]
fn without_rules_service_addresses_do_not_answer() {
    require_netns!();
    let cluster = cluster(Attach::Routed);
    let target = SocketAddr::from((SERVICE_CIDR_V4.hosts().nth(9).unwrap(), PORT));
    let probe = Probe::tcp(target).timeout(Duration::from_millis(50));
    for from in [
        cluster.client("client").netns(),
        cluster.pod("web-1").netns(),
        cluster.node("node-a").netns(),
    ] {
        assert_eq!(probe.from(from), Outcome::TimedOut);
    }
    let nowhere = Probe::tcp(([203, 0, 113, 1], PORT).into());
    assert_eq!(
        nowhere.from(cluster.client("client").netns()),
        Outcome::Unreachable(Errno::ENETUNREACH)
    );
}

#[test]
fn the_source_can_be_chosen() {
    require_netns!();
    let cluster = cluster(Attach::Routed);
    let (node, pod) = (cluster.node("node-a"), cluster.pod("web-3"));
    let _servers = serve(pod.netns(), "web-3");
    let extra: IpAddr = "192.168.100.77".parse().unwrap();
    node.add_address(extra).unwrap();
    node.add_address("fd00:100::4d".parse().unwrap()).unwrap();
    // The kernel does not choose an extra address by itself.
    assert_answers(
        node.netns(),
        (pod.ipv4(), PORT).into(),
        "web-3",
        node.ipv4(),
    );
    assert_answers(
        node.netns(),
        (pod.ipv6(), PORT).into(),
        "web-3",
        node.ipv6(),
    );
    for protocol in BOTH {
        let probe = Probe::new((pod.ipv4(), PORT).into(), protocol);
        let expected = Outcome::Answered {
            name: "web-3".to_owned(),
            source: extra,
            source_port: 4711,
        };
        // Twice: the port is free again at once.
        for _ in 0..2 {
            assert_eq!(
                probe.source(extra).source_port(4711).from(node.netns()),
                expected
            );
        }
        assert_eq!(probe.source(extra).from(node.netns()).source(), Some(extra));
        let foreign = probe.source(pod.ipv4().into()).from(node.netns());
        assert_eq!(foreign, Outcome::Unreachable(Errno::EADDRNOTAVAIL));
    }
}

#[test]
fn answers_come_from_the_address_of_the_request() {
    require_netns!();
    let cluster = cluster(Attach::Routed);
    let (node, client) = (cluster.node("node-b"), cluster.client("client"));
    let agent = cluster.pod("agent");
    assert_eq!(
        (agent.ipv4(), agent.netns().name()),
        (node.ipv4(), node.netns().name())
    );
    let _servers = serve(agent.netns(), "agent");
    let (on_lan, far) = ("192.168.100.77", "198.51.100.7");
    let (on_lan_v6, far_v6) = ("fd00:100::4d", "2001:db8::7");
    for address in [on_lan, on_lan_v6, far, far_v6] {
        node.add_address(address.parse().unwrap()).unwrap();
    }
    client
        .route_via("198.51.100.0/24".parse().unwrap(), node)
        .unwrap();
    client
        .route_via("2001:db8::/64".parse().unwrap(), node)
        .unwrap();
    for address in [on_lan, far] {
        assert_answers(
            client.netns(),
            (address.parse::<IpAddr>().unwrap(), PORT).into(),
            "agent",
            client.ipv4(),
        );
    }
    for address in [on_lan_v6, far_v6] {
        assert_answers(
            client.netns(),
            (address.parse::<IpAddr>().unwrap(), PORT).into(),
            "agent",
            client.ipv6(),
        );
    }
}

#[test]
fn pods_come_and_go() {
    require_netns!();
    for attach in [Attach::Routed, Attach::Bridged] {
        let mut cluster = Cluster::builder()
            .attach(attach)
            .node("node-a")
            .client("client")
            .build()
            .unwrap();
        for round in 0..3 {
            let name = format!("a-pod-with-a-long-name-{round}");
            let ip = cluster.add_pod(&name, "node-a").unwrap().ipv4();
            assert_eq!(ip.octets(), [10, 244, 0, 2 + round]);
            let servers = serve(cluster.pod(&name).netns(), &name);
            let client = cluster.client("client");
            assert_answers(client.netns(), (ip, PORT).into(), &name, client.ipv4());
            let left = cluster.pod(&name).netns().name().to_owned();
            cluster.remove_pod(&name).unwrap();
            assert_eq!(crate::common::namespaces(&left), Vec::<String>::new());
            let probe = Probe::tcp((ip, PORT).into()).timeout(Duration::from_millis(50));
            assert_eq!(probe.from(cluster.client("client").netns()).name(), None);
            drop(servers);
        }
        assert!(
            cluster.add_pod("node-a", "node-a").is_err(),
            "the name is taken"
        );
        assert!(
            cluster.add_pod("x", "node-c").is_err(),
            "there is no such node"
        );
        assert!(cluster.remove_pod("x").is_err(), "there is no such pod");
    }
}

#[test]
fn two_clusters_are_isolated() {
    require_netns!();
    let both = ["left", "right"].map(|side| {
        thread::spawn(move || {
            let cluster = cluster(Attach::Routed);
            let pod = cluster.pod("web-3");
            let server = Server::start(pod.netns(), side, PORT, Protocol::Tcp).unwrap();
            (cluster, server, side)
        })
    });
    for (cluster, server, side) in both.map(|it| it.join().unwrap()) {
        let target = (cluster.pod("web-3").ipv4(), server.port()).into();
        assert_eq!(
            Probe::tcp(target)
                .from(cluster.client("client").netns())
                .name(),
            Some(side)
        );
    }
}

/// Prints the time of building and dropping a cluster, without an assertion about it.
#[test]
fn setup_time() {
    require_netns!();
    let mut builder = Cluster::builder()
        .node("node-a")
        .node("node-b")
        .client("client");
    for number in 0..6 {
        builder = builder.pod(&format!("web-{number}"), ["node-a", "node-b"][number % 2]);
    }
    for attach in [Attach::Routed, Attach::Bridged] {
        let start = Instant::now();
        let cluster = builder.clone().attach(attach).build().unwrap();
        let built = start.elapsed();
        let start = Instant::now();
        let picture = cluster.drawing();
        drop(cluster);
        println!(
            "{attach:?}: built in {built:.1?}, dropped in {:.1?}\n{picture}",
            start.elapsed()
        );
    }
}
