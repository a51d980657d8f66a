//! Connections of TCP.

use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, TcpStream};
use std::time::Duration;

use sluice_bpf_abi::Counter;
use sluice_lab::{Probe, Protocol, Server, Session, require_netns};
use sluice_model::{Change, NamespacedName};
use sluice_plan::Event;
use sluice_plan::settings::Settings;

use crate::direct::world::{
    NODES, PATIENT, agent, agents, cluster, forbid_replies, is_of_client, serve, settings, targets,
};

/// The endpoint sees the client under policy Cluster, wherever it is, and the reply does not pass node-a.
#[test]
fn replies_do_not_pass_the_first_node() {
    require_netns!();
    let cluster = cluster();
    let _there = Server::start(cluster.pod("there").netns(), "there", 8080, Protocol::Tcp).unwrap();
    let mut agents = agents(&cluster);
    serve(&cluster, &mut agents, "", &[("there", "node-b")]);
    forbid_replies(&cluster);
    for target in targets() {
        let mut session = Session::connect(cluster.client("cli").netns(), target).unwrap();
        assert_eq!(session.name(), "there");
        assert!(is_of_client(&cluster, session.source()), "{session:?}");
        session.ping().unwrap();
    }
    let tunnelled = agents[0].counted(Counter::Tunnelled);
    assert!(tunnelled.iter().all(|it| *it > 2), "{tunnelled:?}");
}

/// An endpoint of this node needs no tunnel, and sees the client all the same.
#[test]
fn endpoints_here_see_the_client() {
    require_netns!();
    let cluster = cluster();
    let _here = Server::start(cluster.pod("here").netns(), "here", 8080, Protocol::Tcp).unwrap();
    let mut agents = [agent(&cluster, "node-a", settings())];
    serve(&cluster, &mut agents, "", &[("here", "node-a")]);
    for target in targets() {
        let session = Session::connect(cluster.client("cli").netns(), target).unwrap();
        assert!(is_of_client(&cluster, session.source()), "{session:?}");
    }
}

/// Packets that fill the network are too long for the tunnel: the client is told, and sends shorter ones.
#[test]
fn a_client_learns_the_length_of_packets() {
    require_netns!();
    let cluster = cluster();
    let _there = Server::start(cluster.pod("there").netns(), "there", 8080, Protocol::Tcp).unwrap();
    let mut agents = agents(&cluster);
    serve(&cluster, &mut agents, "", &[("there", "node-b")]);
    let line = format!("{}\n", "x".repeat(60_000));
    for target in targets() {
        cluster.client("cli").netns().run(|| {
            let mut stream = TcpStream::connect_timeout(&target, PATIENT).unwrap();
            stream.set_read_timeout(Some(PATIENT)).unwrap();
            let mut answers = BufReader::new(stream.try_clone().unwrap());
            answers.read_line(&mut String::new()).unwrap();
            for _ in 0..5 {
                stream.write_all(line.as_bytes()).unwrap();
                let mut answer = String::new();
                answers.read_line(&mut answer).unwrap();
                assert!(answer.ends_with(&line), "{} bytes", answer.len());
            }
        });
    }
    let told = agents[0].counted(Counter::TooLongForTunnel);
    assert!(told.iter().all(|it| *it > 0), "{told:?}");
}

/// A Service whose annotation refuses, and a client of an excluded range, are masqueraded as ever.
#[test]
fn some_are_masqueraded() {
    require_netns!();
    let cluster = cluster();
    let _there = Server::start(cluster.pod("there").netns(), "there", 8080, Protocol::Tcp).unwrap();
    let client = cluster.client("cli");
    let excluded = Settings {
        not_direct: vec![IpAddr::from(client.ipv4()).into()],
        ..settings()
    };
    let mut agents = NODES.map(|it| agent(&cluster, it, excluded.clone()));
    let source = |target| Probe::tcp(target).from(client.netns()).source();
    let [four, six] = targets();
    serve(&cluster, &mut agents, "", &[("there", "node-b")]);
    assert_eq!(source(four), Some(cluster.node("node-a").ipv4().into()));
    assert_eq!(source(six), Some(client.ipv6().into()));
    serve(
        &cluster,
        &mut agents,
        "forwarding=snat",
        &[("there", "node-b")],
    );
    assert_eq!(source(six), Some(cluster.node("node-a").ipv6().into()));
}

/// What comes through the tunnel from somebody who is no node goes nowhere.
#[test]
fn only_nodes_use_the_tunnel() {
    require_netns!();
    let cluster = cluster();
    let _there = Server::start(cluster.pod("there").netns(), "there", 8080, Protocol::Tcp).unwrap();
    let mut agents = agents(&cluster);
    serve(&cluster, &mut agents, "", &[("there", "node-b")]);
    let [four, six] = targets();
    assert!(
        Probe::tcp(four)
            .from(cluster.client("cli").netns())
            .name()
            .is_some()
    );
    // Node-b does not know node-a any more.
    let gone = Change::Delete(NamespacedName::new("", "node-a"));
    agents[1].change(vec![Event::Node(gone)]);
    let probe = Probe::tcp(six).timeout(Duration::from_millis(500));
    assert_eq!(probe.from(cluster.client("cli").netns()).name(), None);
}

/// A client that crashes says nothing to its endpoint, which resets it when it comes back with the same port. Then it
/// gets a new connection.
#[test]
fn a_client_comes_back_after_a_crash() {
    require_netns!();
    let cluster = cluster();
    let _there = Server::start(cluster.pod("there").netns(), "there", 8080, Protocol::Tcp).unwrap();
    let mut agents = agents(&cluster);
    serve(&cluster, &mut agents, "", &[("there", "node-b")]);
    let client = cluster.client("cli").netns();
    let rules = |rules: &str| {
        let loaded = client.command("nft", &[rules]).status();
        assert!(loaded.unwrap().success());
    };
    for target in targets() {
        let probe = Probe::tcp(target).source_port(23_456).timeout(PATIENT);
        let mut session = Session::open(client, probe).unwrap();
        session.ping().unwrap();
        rules(
            "table inet crash { chain output { type filter hook output priority 0; \
             tcp flags & (rst | fin) != 0 drop; }; }",
        );
        drop(session);
        rules("delete table inet crash");
        let outcome = probe.from(client);
        assert_eq!(outcome.name(), Some("there"), "{target}: {outcome}");
    }
}
