//! Direct server return with two nodes: the endpoint's node answers the client itself.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use sluice_bpf_abi::Counter;
use sluice_ebpf::{Ebpf, Facts, Patterns, Sizes, create_tunnel};
use sluice_lab::{Cluster, Netns, Probe, Protocol, Server, Session, require_netns};
use sluice_model::{Event, ObjectKey};
use sluice_plan::settings::{DirectReturn, Settings};
use sluice_plan::testing::{endpoints, node, service};
use sluice_plane::{EbpfOptions, Proxy};
use sluice_scenarios::{Drive as _, golden};

/// The load balancer's addresses, which a router sends to node-a.
const VIPS: [&str; 2] = ["192.0.2.10", "2001:db8::10"];
const PORT: u16 = 80;
const PATIENT: Duration = Duration::from_secs(10);

/// A client outside, and two nodes with an endpoint each.
fn cluster() -> Cluster {
    let builder = Cluster::builder().node("node-a").node("node-b");
    let builder = builder.pod("here", "node-a").pod("there", "node-b");
    let cluster = builder.client("cli").build().unwrap();
    for vip in VIPS {
        let net = IpAddr::into(vip.parse().unwrap());
        let client = cluster.client("cli");
        client.route_via(net, cluster.node("node-a")).unwrap();
    }
    cluster
}

/// The agent of a node.
struct Agent<'a> {
    netns: &'a Netns,
    proxy: Proxy<Ebpf>,
}

impl Agent<'_> {
    fn change(&mut self, events: Vec<Event>) {
        let proxy = &mut self.proxy;
        self.netns.run(|| proxy.change(events));
    }

    fn counted(&mut self, counter: Counter) -> [u64; 2] {
        self.proxy.reconciler_mut().backend_mut().counted(counter)
    }
}

/// An agent that knows both nodes.
fn agent<'a>(cluster: &'a Cluster, name: &str, settings: Settings) -> Agent<'a> {
    let settings = Settings {
        node_name: name.into(),
        ..settings
    };
    let netns = cluster.node(name).netns();
    let mut proxy = netns.run(|| {
        let facts = Facts {
            tunnel_ifindex: create_tunnel(EbpfOptions::default().tunnel_port).unwrap(),
            ..Facts::default()
        };
        Proxy::new(
            settings,
            common::open(Patterns::none(), Sizes::default(), facts),
        )
    });
    let nodes = cluster.nodes().iter();
    let nodes = nodes.map(|it| node(&format!("{} {} {}", it.name(), it.ipv4(), it.ipv6())));
    proxy.tell(nodes.collect());
    Agent { netns, proxy }
}

/// A Service of type LoadBalancer, with these endpoints on their nodes.
fn serve(cluster: &Cluster, agents: &mut [Agent<'_>], words: &str, pods: &[(&str, &str)]) {
    for agent in agents {
        let [four, six] = VIPS;
        for (name, cluster_ip, vip) in [("v4", "10.96.0.10", four), ("v6", "fd00:10:96::10", six)] {
            let name = format!("default/web-{name}");
            let text = format!("{name} {cluster_ip} :80 LoadBalancer lb={vip} {words}");
            let mut events = vec![service(&text)];
            let of = |(pod, node): &(&str, &str)| {
                let pod = cluster.pod(pod);
                let ip: IpAddr = match vip == four {
                    true => pod.ipv4().into(),
                    false => pod.ipv6().into(),
                };
                format!("{}@{node}", SocketAddr::new(ip, 8080))
            };
            let all: Vec<String> = pods.iter().map(of).collect();
            events.extend(endpoints(&name, &all.join(" ")));
            agent.change(events);
        }
    }
}

fn targets() -> [SocketAddr; 2] {
    VIPS.map(|it| SocketAddr::new(it.parse().unwrap(), PORT))
}

fn settings() -> Settings {
    Settings {
        direct_return: DirectReturn::All,
        ..golden::settings()
    }
}

fn is_of_client(cluster: &Cluster, seen: Option<IpAddr>) -> bool {
    let client = cluster.client("cli");
    seen == Some(client.ipv4().into()) || seen == Some(client.ipv6().into())
}

/// The endpoint sees the client under policy Cluster, wherever it is, and the reply does not pass node-a.
#[test]
fn replies_do_not_pass_the_first_node() {
    require_netns!();
    let cluster = cluster();
    let _there = Server::start(cluster.pod("there").netns(), "there", 8080, Protocol::Tcp).unwrap();
    let mut agents = ["node-a", "node-b"].map(|it| agent(&cluster, it, settings()));
    serve(&cluster, &mut agents, "", &[("there", "node-b")]);
    // Node-a forwards nothing that an endpoint or a frontend sends.
    let rules = "table inet proof { chain forward { type filter hook prerouting priority -500; \
                 tcp sport { 80, 8080 } counter drop; }; }";
    let loaded = cluster
        .node("node-a")
        .netns()
        .command("nft", &[rules])
        .status();
    assert!(loaded.unwrap().success());
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
    let mut agents = ["node-a", "node-b"].map(|it| agent(&cluster, it, settings()));
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
    let mut agents = ["node-a", "node-b"].map(|it| agent(&cluster, it, excluded.clone()));
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
    let mut agents = ["node-a", "node-b"].map(|it| agent(&cluster, it, settings()));
    serve(&cluster, &mut agents, "", &[("there", "node-b")]);
    let [four, six] = targets();
    assert!(
        Probe::tcp(four)
            .from(cluster.client("cli").netns())
            .name()
            .is_some()
    );
    // Node-b does not know node-a any more.
    let gone = ObjectKey::Node("node-a".into());
    agents[1].change(vec![Event::Delete(gone)]);
    let probe = Probe::tcp(six).timeout(Duration::from_millis(500));
    assert_eq!(probe.from(cluster.client("cli").netns()).name(), None);
}
