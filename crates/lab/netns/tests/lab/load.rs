//! Long connections, and clients that send requests without pause.

use std::time::Duration;

use sluice_lab::{
    Cluster, Hammer, Outcome, Probe, Protocol, Server, Session, eventually, require_netns,
};

use crate::common::{BOTH, PORT, nft, serve};

const TIMEOUT: Duration = Duration::from_secs(30);

fn cluster() -> Cluster {
    Cluster::builder()
        .node("node-a")
        .pod("web-1", "node-a")
        .client("client")
        .build()
        .unwrap()
}

#[test]
fn a_hammer_counts_every_answer() {
    require_netns!();
    let cluster = cluster();
    let pod = cluster.pod("web-1");
    let _servers = serve(pod.netns(), "web-1");
    let client = cluster.client("client").netns();
    // Fewer ports than connections: none may stay in TIME_WAIT.
    client
        .sysctl("net.ipv4.ip_local_port_range", "40000 41000")
        .unwrap();
    for protocol in BOTH {
        let probe = Probe::new((pod.ipv4(), PORT).into(), protocol);
        let hammer = Hammer::start(client, probe).unwrap();
        eventually(TIMEOUT, || (hammer.attempts() > 3000).then_some(())).unwrap();
        let report = hammer.stop();
        println!("{protocol:?}: {report}");
        assert_eq!(report.failures, []);
        assert_eq!(report.spread.of("web-1"), report.attempts);
    }
}

#[test]
fn a_hammer_reports_failures() {
    require_netns!();
    let cluster = cluster();
    let (client, pod) = (cluster.client("client"), cluster.pod("web-1"));
    let server = Server::start(pod.netns(), "web-1", PORT, Protocol::Tcp).unwrap();
    let hammer = Hammer::start(client.netns(), Probe::tcp((pod.ipv6(), PORT).into())).unwrap();
    let more = |count: u64| {
        let before = hammer.attempts();
        eventually(TIMEOUT, || {
            (hammer.attempts() > before + count).then_some(())
        })
        .unwrap();
    };
    more(100);
    drop(server);
    more(100);
    let _server = Server::start(pod.netns(), "web-2", PORT, Protocol::Tcp).unwrap();
    more(100);
    let report = hammer.stop();
    assert!(
        report.spread.of("web-1") >= 100 && report.spread.of("web-2") >= 100,
        "{report}"
    );
    assert!(report.failures.len() >= 90, "{report}");
    assert!(
        report
            .failures
            .iter()
            .all(|(when, _)| *when <= report.elapsed)
    );
    // While a server closes, a connection may be accepted and reset.
    let refused = report
        .failures
        .iter()
        .filter(|(_, outcome)| *outcome == Outcome::Refused)
        .count();
    assert!(refused >= 90, "{report}");
    assert_eq!(report.attempts, report.spread.total());
}

#[test]
fn sessions_stay_open_until_the_server_stops() {
    require_netns!();
    let cluster = cluster();
    let (client, pod) = (cluster.client("client"), cluster.pod("web-1"));
    let server = Server::start(pod.netns(), "web-1", PORT, Protocol::Tcp).unwrap();
    let target = (pod.ipv4(), PORT).into();
    let mut sessions: Vec<Session> = (0..200)
        .map(|_| Session::connect(client.netns(), target).unwrap())
        .collect();
    for _ in 0..3 {
        sessions
            .iter_mut()
            .for_each(|session| session.ping().unwrap());
    }
    assert_eq!(
        (sessions[0].name(), sessions[0].source()),
        ("web-1", Some(client.ipv4().into()))
    );
    // New connections are refused, established ones go on.
    nft(
        cluster.node("node-a").netns(),
        "table ip lab { chain forward { type filter hook forward priority 0;
            tcp flags & (syn | ack) == syn reject with tcp reset
        }
        }",
    );
    assert_eq!(Probe::tcp(target).from(client.netns()), Outcome::Refused);
    sessions
        .iter_mut()
        .for_each(|session| session.ping().unwrap());
    drop(server);
    assert!(sessions[0].ping().is_err(), "the server stopped");
    assert!(Session::connect(client.netns(), target).is_err(), "refused");
}

#[test]
fn a_stopped_server_frees_its_port() {
    require_netns!();
    let cluster = cluster();
    let pod = cluster.pod("web-1");
    for round in 0..20 {
        let name = format!("round-{round}");
        let server = Server::start(pod.netns(), &name, PORT, Protocol::Tcp).unwrap();
        let outcome = Probe::tcp((pod.ipv4(), PORT).into()).from(cluster.client("client").netns());
        assert_eq!(outcome.name(), Some(server.name()));
    }
    for protocol in BOTH {
        let server = Server::start(pod.netns(), "any", 0, protocol).unwrap();
        assert_ne!(server.port(), 0);
        let second = Server::start(pod.netns(), "second", server.port(), protocol);
        assert!(second.is_err(), "the port is taken");
    }
}

#[test]
fn another_program_is_no_server() {
    require_netns!();
    let cluster = cluster();
    let pod = cluster.pod("web-1");
    let listener = pod
        .netns()
        .run(|| std::net::TcpListener::bind((pod.ipv4(), PORT)).unwrap());
    let probe = Probe::tcp((pod.ipv4(), PORT).into());
    let stranger = std::thread::spawn(move || drop(listener.accept().unwrap()));
    let outcome = probe.from(cluster.client("client").netns());
    assert!(matches!(outcome, Outcome::Broken(_)), "{outcome}");
    stranger.join().unwrap();
}
