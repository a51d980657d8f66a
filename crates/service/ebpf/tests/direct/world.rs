//! Two nodes with an endpoint each, their agents, and a client outside.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use sluice_bpf_abi::{Counter, node_flags};
use sluice_ebpf::{Ebpf, Facts, Maps, Patterns, Sizes, create_tunnel};
use sluice_lab::{Cluster, Netns};
use sluice_plan::Event;
use sluice_plan::settings::{DirectReturn, Settings};
use sluice_plan::testing::{node, service, slices};
use sluice_plane::{EbpfOptions, Proxy};
use sluice_scenarios::{Drive as _, golden};

/// The load balancer's addresses, which a router sends to node-a.
const VIPS: [&str; 2] = ["192.0.2.10", "2001:db8::10"];
const PORT: u16 = 80;
/// Where endpoints listen.
pub(crate) const POD_PORT: u16 = 8080;
pub(crate) const NODES: [&str; 2] = ["node-a", "node-b"];
pub(crate) const PATIENT: Duration = Duration::from_secs(10);

/// The longest packet in the tunnel: its headers take 70 bytes of Ethernet's 1,500.
pub(crate) const LONGEST: usize = 1_430;

/// A client outside, and two nodes with an endpoint each.
pub(crate) fn cluster() -> Cluster {
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
pub(crate) struct Agent<'a> {
    name: &'static str,
    netns: &'a Netns,
    proxy: Proxy<Ebpf>,
}

impl Agent<'_> {
    /// The name of its node.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn change(&mut self, events: Vec<Event>) {
        let proxy = &mut self.proxy;
        self.netns.run(|| proxy.change(events));
    }

    /// From here on no other proxy carries connections.
    pub(crate) fn carry_all(&mut self) {
        let pins = self.proxy.reconciler_mut().backend_mut().programs().pins();
        let mut maps = Maps::open(pins).unwrap();
        let written = maps.change_node(|it| it.flags |= node_flags::CARRIES_ALL);
        written.unwrap();
    }

    pub(crate) fn counted(&mut self, counter: Counter) -> [u64; 2] {
        self.proxy.reconciler_mut().backend_mut().counted(counter)
    }
}

/// An agent that knows both nodes.
pub(crate) fn agent<'a>(cluster: &'a Cluster, name: &'static str, settings: Settings) -> Agent<'a> {
    agent_with(cluster, name, settings, Sizes::default())
}

/// The same, with maps of these sizes.
pub(crate) fn agent_with<'a>(
    cluster: &'a Cluster,
    name: &'static str,
    settings: Settings,
    sizes: Sizes,
) -> Agent<'a> {
    let settings = Settings {
        node_name: name.into(),
        ..settings
    };
    let netns = cluster.node(name).netns();
    let mut proxy = netns.run(|| {
        let facts = Facts {
            tunnel_ifindex: create_tunnel(EbpfOptions::default().tunnel_port).unwrap(),
            tunnel_port: EbpfOptions::default().tunnel_port,
            ..Facts::default()
        };
        Proxy::new(
            settings,
            crate::common::open(Patterns::none(), sizes, facts),
        )
    });
    let nodes = cluster.nodes().iter();
    let nodes = nodes.map(|it| node(&format!("{} {} {}", it.name(), it.ipv4(), it.ipv6())));
    proxy.tell(nodes.collect());
    Agent { name, netns, proxy }
}

/// The agents of both nodes.
pub(crate) fn agents(cluster: &Cluster) -> [Agent<'_>; 2] {
    NODES.map(|it| agent(cluster, it, settings()))
}

/// A Service of type LoadBalancer for each family, with these endpoints on their nodes.
pub(crate) fn services(cluster: &Cluster, words: &str, pods: &[(&str, &str)]) -> Vec<Event> {
    let [four, six] = VIPS;
    let mut events = Vec::new();
    for (name, cluster_ip, vip) in [("v4", "10.96.0.10", four), ("v6", "fd00:10:96::10", six)] {
        let name = format!("default/web-{name}");
        let ports = format!("tcp:{PORT} udp:{PORT}/udp");
        let text = format!("{name} {cluster_ip} {ports} LoadBalancer lb={vip} {words}");
        events.push(service(&text));
        let of = |(pod, node): &(&str, &str)| {
            let pod = cluster.pod(pod);
            let ip: IpAddr = if vip == four {
                pod.ipv4().into()
            } else {
                pod.ipv6().into()
            };
            format!("{}@{node}", SocketAddr::new(ip, POD_PORT))
        };
        let all: Vec<String> = pods.iter().map(of).collect();
        for port in ["tcp", "udp/udp"] {
            let slice = format!("{name}-{}", &port[..3]);
            events.extend(slices(&slice, &format!("{name}:{port}"), &all.join(" ")));
        }
    }
    events
}

/// Tells agents of these [`services`].
pub(crate) fn serve(
    cluster: &Cluster,
    agents: &mut [Agent<'_>],
    words: &str,
    pods: &[(&str, &str)],
) {
    for agent in agents {
        agent.change(services(cluster, words, pods));
    }
}

/// From here on node-a forwards nothing that an endpoint or a frontend sends.
pub(crate) fn forbid_replies(cluster: &Cluster) {
    let rules = "table inet proof { chain forward { type filter hook prerouting priority -500; \
                 tcp sport { 80, 8080 } counter drop; udp sport { 80, 8080 } counter drop; }; }";
    let node = cluster.node("node-a").netns();
    let loaded = node.command("nft", &[rules]).status();
    assert!(loaded.unwrap().success());
}

pub(crate) fn targets() -> [SocketAddr; 2] {
    VIPS.map(|it| SocketAddr::new(it.parse().unwrap(), PORT))
}

pub(crate) fn settings() -> Settings {
    Settings {
        direct_return: DirectReturn::All,
        ..golden::settings()
    }
}

pub(crate) fn is_of_client(cluster: &Cluster, seen: Option<IpAddr>) -> bool {
    let client = cluster.client("cli");
    seen == Some(client.ipv4().into()) || seen == Some(client.ipv6().into())
}

/// The headers of IP and UDP.
pub(crate) fn headers(target: SocketAddr) -> usize {
    match target {
        SocketAddr::V4(_) => 20 + 8,
        SocketAddr::V6(_) => 40 + 8,
    }
}
