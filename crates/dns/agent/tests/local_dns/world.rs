//! A node with a pod and a data plane, the cluster's DNS on another node, and a client outside.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process;

use ipnet::IpNet;
use sluice_bpf::Table;
use sluice_bpf_abi::{Flow, Tuple};
use sluice_ebpf::{Ebpf, Facts, Maps, Patterns, Setup, Sizes};
use sluice_iptables::{Conntrack, Iptables};
use sluice_ipvs::{Arp, Ipvs, IpvsOptions, sysctls};
use sluice_lab::{Cluster, Netns, Outcome, Probe, Protocol, Server};
use sluice_model::{DNS_ADDRESSES, LocalDetector, NodeDns};
use sluice_nftables::Nftables;
use sluice_plan::Event;
use sluice_plan::settings::Settings;
use sluice_plan::testing::{NODE, endpoints, node, service, slices};
use sluice_plane::kube_proxy::MARKS;
use sluice_plane::{DataPlane, Proxy, ServiceBackend, Sysctl};
use sluice_xtables::programs::{Lock, Programs, Variant};

pub(crate) const CLUSTER_IPS: [&str; 2] = ["10.96.0.10", "fd00:10:96::a"];
const PODS: [&str; 2] = ["10.244.0.0/16", "fd00:10:244::/48"];

#[derive(Clone, Copy, Debug)]
pub(crate) enum Plane {
    Nftables,
    Iptables(Variant),
    Ipvs,
    Ebpf,
}

impl Plane {
    /// The data planes that every machine supports.
    pub(crate) const ALL: [Self; 4] = [
        Self::Nftables,
        Self::Iptables(Variant::Nft),
        Self::Iptables(Variant::Legacy),
        Self::Ebpf,
    ];
}

/// A client that asks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Client {
    Pod,
    Node,
    /// Outside the cluster; its packets to ClusterIPs come to the node.
    Outside,
}

pub(crate) struct World {
    pub(crate) cluster: Cluster,
    _servers: [Server; 2],
    detector: LocalDetector,
    /// The node's server also serves the ClusterIPs.
    with_cluster_ips: bool,
    /// The proxy removes connections that have ended; otherwise the clients would fill the table.
    ebpf: Option<Proxy<Ebpf>>,
    /// Where the programs of the ebpf mode are pinned.
    pins: Option<PathBuf>,
}

impl World {
    /// `detector` says how the node recognises pods.
    pub(crate) fn new(plane: Plane, detector: LocalDetector, with_cluster_ips: bool) -> Self {
        let builder = Cluster::builder()
            .node(NODE)
            .node("node-b")
            .client("outside");
        let builder = builder.pod("shell", NODE).pod("dns", "node-b");
        let cluster = builder.build().unwrap();
        let dns = cluster.pod("dns");
        let start = |it| Server::start(dns.netns(), "cluster", 53, it).unwrap();
        let mut world = Self {
            _servers: [Protocol::Udp, Protocol::Tcp].map(start),
            cluster,
            detector,
            with_cluster_ips,
            ebpf: None,
            pins: matches!(plane, Plane::Ebpf).then(pins),
        };
        let events = world.events();
        let settings = world.settings();
        let ebpf = world.node().run(|| match plane {
            Plane::Nftables => {
                program(settings, Nftables::connect().unwrap(), events);
                None
            }
            Plane::Iptables(variant) => {
                let lock = Lock {
                    file: Path::new(env!("CARGO_TARGET_TMPDIR")).join("xtables.lock"),
                    seconds: 60,
                };
                let programs = Programs::find(variant).unwrap().with_lock(lock);
                let plane = Iptables::with(programs, Conntrack::Strict).unwrap();
                program(settings, plane, events);
                None
            }
            Plane::Ebpf => {
                let mut proxy = program(settings.clone(), ebpf(&settings), events);
                let plane = proxy.reconciler_mut().backend_mut();
                plane.started(Box::new(|_| {}));
                Some(proxy)
            }
            Plane::Ipvs => {
                for Sysctl { path, value, .. } in sysctls(Arp::Loose).unwrap() {
                    fs::write(path, value.to_string()).unwrap();
                }
                let programs = Programs::detect(MARKS).unwrap();
                let plane = Ipvs::with(programs, IpvsOptions::default()).unwrap();
                program(settings, plane, events);
                None
            }
        });
        world.ebpf = ebpf;
        world
    }

    pub(crate) fn recognising_pods() -> LocalDetector {
        LocalDetector::ClusterCidrs(PODS.map(|it| it.parse::<IpNet>().unwrap()).to_vec())
    }

    pub(crate) fn node(&self) -> &Netns {
        self.cluster.node(NODE).netns()
    }

    pub(crate) fn dns(&self) -> NodeDns {
        let cluster_ips = CLUSTER_IPS.map(|it| it.parse().unwrap());
        NodeDns {
            cluster_ips: if self.with_cluster_ips {
                cluster_ips.to_vec()
            } else {
                Vec::new()
            },
            ..NodeDns::usual()
        }
    }

    fn settings(&self) -> Settings {
        Settings {
            local_detector: self.detector.clone(),
            dns: Some(self.dns()),
            ..Settings::for_node(NODE)
        }
    }

    /// The environment of a holder on this node.
    pub(crate) fn holds(&self, port: u16) -> String {
        let dns = self.dns();
        let pods = match &self.detector {
            LocalDetector::ClusterCidrs(pods) => list(pods),
            _ => String::new(),
        };
        format!(
            "{port} {} {} {pods}",
            list(&dns.addresses),
            list(&dns.cluster_ips)
        )
    }

    fn events(&self) -> Vec<Event> {
        let (node_a, pod) = (self.cluster.node(NODE), self.cluster.pod("dns"));
        let members = format!("{}:53 [{}]:53", pod.ipv4(), pod.ipv6());
        let mut events = endpoints("kube-system/kube-dns:dns/udp", &members);
        events.extend(slices("tcp", "kube-system/kube-dns:dns-tcp/tcp", &members));
        let [v4, v6] = CLUSTER_IPS;
        events.push(service(&format!(
            "kube-system/kube-dns {v4} {v6} dns:53/udp dns-tcp:53"
        )));
        let (v4, v6) = (node_a.ipv4(), node_a.ipv6());
        events.push(node(&format!("{NODE} {v4} {v6}")));
        events
    }

    fn netns_of(&self, client: Client) -> &Netns {
        match client {
            Client::Pod => self.cluster.pod("shell").netns(),
            Client::Node => self.node(),
            Client::Outside => self.cluster.client("outside").netns(),
        }
    }

    /// Asks once over each protocol.
    pub(crate) fn ask(&self, client: Client, address: IpAddr) -> [Outcome; 2] {
        let target = SocketAddr::new(address, 53);
        [Probe::udp(target), Probe::tcp(target)].map(|it| it.from(self.netns_of(client)))
    }

    /// Checks which server answers, over each protocol.
    #[track_caller]
    pub(crate) fn check(&self, client: Client, address: IpAddr, expected: &str) {
        for outcome in self.ask(client, address) {
            assert_eq!(
                outcome.name(),
                Some(expected),
                "{client:?} asks {address}: {outcome}\n{}",
                self.run("nft", &["list", "ruleset"])
            );
        }
    }

    /// Runs a program on the node and returns its output.
    #[track_caller]
    pub(crate) fn run(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.node().command(program, arguments).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program} {arguments:?}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn forget_connections(&self) {
        self.run("conntrack", &["-F"]);
        self.on_flows(|flows| {
            for (tuple, _) in flows.entries().unwrap() {
                flows.remove(&tuple).unwrap();
            }
        });
    }

    /// Calls `act` with the table of connections of the ebpf mode.
    fn on_flows(&self, act: impl FnOnce(&mut Table<Tuple, Flow>) + Send) {
        let Some(pins) = &self.pins else {
            return;
        };
        self.node().run(|| {
            let pins = sluice_ebpf::pins(pins).unwrap();
            act(&mut Maps::open(&pins).unwrap().flows);
        });
    }

    /// The node's connections to the port of DNS.
    pub(crate) fn connections(&self) -> Vec<String> {
        let mut all = Vec::new();
        for family in ["ipv4", "ipv6"] {
            let listed = self.run("conntrack", &["-L", "-f", family]);
            let about_dns = listed.lines().filter(|it| it.contains("port=53 "));
            all.extend(about_dns.map(str::to_owned));
        }
        self.on_flows(|flows| {
            let flows = flows.entries().unwrap();
            all.extend(flows.iter().map(|(key, _)| format!("{key:?}")));
        });
        all
    }
}

/// The addresses of the node's DNS server.
pub(crate) fn addresses() -> [IpAddr; 2] {
    DNS_ADDRESSES
}

pub(crate) fn cluster_ips() -> [IpAddr; 2] {
    CLUSTER_IPS.map(|it| it.parse().unwrap())
}

impl Drop for World {
    fn drop(&mut self) {
        drop(self.ebpf.take());
        if let Some(pins) = &self.pins {
            let _ = fs::remove_dir_all(pins);
        }
    }
}

/// The folder for pins of this process.
fn pins() -> PathBuf {
    PathBuf::from(format!("/sys/fs/bpf/sluice-test-{}", process::id()))
}

fn ebpf(settings: &Settings) -> Ebpf {
    for (path, value) in [
        ("/proc/sys/net/ipv4/conf/lo/accept_local", "1"),
        ("/proc/sys/net/ipv4/conf/lo/rp_filter", "2"),
    ] {
        fs::write(path, value).unwrap();
    }
    let setup = Setup {
        pins: pins(),
        interfaces: Patterns::all(),
        pods: Patterns::none(),
        sizes: Sizes::default(),
    };
    let plane = Ebpf::connect(setup, Facts::default()).unwrap();
    plane.with_dns(settings).unwrap()
}

fn list<T: ToString>(all: &[T]) -> String {
    all.iter().map(T::to_string).collect::<Vec<_>>().join(",")
}

fn program<B: ServiceBackend>(settings: Settings, plane: B, events: Vec<Event>) -> Proxy<B> {
    let mut proxy = Proxy::new(settings, plane);
    events.into_iter().for_each(|it| proxy.absorb(it));
    proxy.replan();
    proxy.sync().unwrap();
    assert_eq!(proxy.waiting().count(), 0);
    proxy
}
