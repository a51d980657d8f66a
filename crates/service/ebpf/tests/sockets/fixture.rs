//! A network namespace with endpoints, a Service, and this process in a cgroup whose sockets are led.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{self, Child, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sluice_bpf::netns_cookie;
use sluice_bpf_abi::{
    Addr, AddressKey, AddressKind, Endpoint, EndpointKey, Frontend, FrontendKey, FrontendKind,
    MemberKey, Node, Slots, TCP, UDP, Verdict, node_flags,
};
use sluice_ebpf::{Led, Patterns, Programs, Setup, Sizes, cgroup_root};
use sluice_lab::{Netns, OwnCgroup, Protocol, Server};
use sluice_route::{Address, Entered, Settings};

/// The virtual IPs, of both families.
pub(crate) const FRONTENDS: [&str; 2] = ["172.30.0.1:80", "[fd00:30::1]:80"];
/// An address of the node.
pub(crate) const NODE: &str = "192.168.7.1";
/// Both kinds of sockets.
pub(crate) const ALL: u32 = node_flags::SOCKETS_TCP | node_flags::SOCKETS_UDP;
/// Every client goes to any endpoint.
pub(crate) const BALANCED: [u8; 4] = [Verdict::Cluster as u8; 4];

/// Id of the Service of an address family: its service ports of TCP and UDP are two.
fn id(frontend: SocketAddr, protocol: u8) -> u32 {
    1 + u32::from(frontend.is_ipv6()) * 2 + u32::from(protocol == UDP)
}

/// The process is in one cgroup at a time.
static CGROUP: Mutex<()> = Mutex::new(());

/// What the tests are about. Dropped in this order.
pub(crate) struct Fixture {
    pub(crate) programs: Option<Programs>,
    setup: Setup,
    _pins: PinFolder,
    cgroup: OwnCgroup,
    _servers: Vec<Server>,
    pod: Child,
    _inside: Entered,
    _netns: Netns,
    _alone: MutexGuard<'static, ()>,
}

/// The name of pins and cgroups of tests ends with the process that made them.
const OURS: &str = "sluice-test-";

/// What processes that have ended left in a folder.
fn leftovers(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let ended = entries.filter(|it| {
        let name = it.file_name().to_string_lossy().into_owned();
        let owner = name
            .strip_prefix(OURS)
            .and_then(|it| it.parse::<u32>().ok());
        owner.is_some_and(|it| !Path::new("/proc").join(it.to_string()).exists())
    });
    ended.map(|it| it.path()).collect()
}

/// The pins of one fixture, which go also when a test fails.
struct PinFolder(PathBuf);

impl PinFolder {
    fn of(label: &str) -> Self {
        let root = Path::new("/sys/fs/bpf");
        for folder in leftovers(root) {
            fs::remove_dir_all(folder).ok();
        }
        Self(root.join(label))
    }
}

impl Drop for PinFolder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

impl Fixture {
    /// Endpoints `a` and `b` in both families, which answer over TCP and UDP. `flags` say what is led.
    pub(crate) fn new(flags: u32) -> Self {
        let label = format!("{OURS}{}", process::id());
        let alone = CGROUP.lock().unwrap_or_else(PoisonError::into_inner);
        let netns = namespace();
        let inside = netns.enter().expect("the namespace can be entered");
        let pins = PinFolder::of(&label);
        let setup = Setup {
            pins: pins.0.clone(),
            interfaces: Patterns::none(),
            pods: Patterns::none(),
            sizes: Sizes {
                flows: 1024,
                ..Sizes::default()
            },
        };
        let mut programs = Programs::open(setup.clone()).expect("the kernel takes the programs");
        let node = Node {
            netns_cookie: netns_cookie().expect("the namespace has a cookie"),
            flags,
            ..Node::default()
        };
        let written = programs.maps_mut().set_node(&node);
        written.expect("NODE is written");
        let cgroup = OwnCgroup::enter(&cgroup_root().expect("cgroups are mounted"));
        let cgroup = cgroup.expect("root may make a cgroup");
        let attached = programs.attach_sockets(cgroup.path());
        attached.expect("the kernel takes the programs of sockets");
        let pod = netns
            .command("sleep", &["1000"])
            .stdin(Stdio::null())
            .spawn();
        let mut fixture = Self {
            programs: Some(programs),
            setup,
            _pins: pins,
            cgroup,
            _servers: servers(&netns),
            pod: pod.expect("sleep starts"),
            _inside: inside,
            _netns: netns,
            _alone: alone,
        };
        fixture.serve(BALANCED, 0, &["a", "b"]);
        fixture
    }

    pub(crate) fn programs(&mut self) -> &mut Programs {
        self.programs.as_mut().expect("the programs are open")
    }

    /// Ends the agent, and starts another one.
    pub(crate) fn restart(&mut self) {
        self.programs = None;
        let mut programs = Programs::open(self.setup.clone()).expect("the pins are adopted");
        let attached = programs.attach_sockets(self.cgroup.path());
        attached.expect("the links are replaced");
        self.programs = Some(programs);
    }

    /// How many programs the kernel runs at the cgroup.
    pub(crate) fn links(&mut self) -> usize {
        let folder = self.programs().pins().links();
        fs::read_dir(folder).map_or(0, Iterator::count)
    }

    /// Writes the Service with these endpoints, in the order in which the agent does. A NodePort 30080 leads to it
    /// as well.
    pub(crate) fn serve(&mut self, treatments: [u8; 4], affinity_seconds: u32, endpoints: &[&str]) {
        for frontend in FRONTENDS {
            for protocol in [TCP, UDP] {
                self.serve_one(
                    parse(frontend),
                    protocol,
                    treatments,
                    affinity_seconds,
                    endpoints,
                );
            }
        }
    }

    fn serve_one(
        &mut self,
        frontend: SocketAddr,
        protocol: u8,
        treatments: [u8; 4],
        affinity_seconds: u32,
        endpoints: &[&str],
    ) {
        let service = id(frontend, protocol);
        let written = "the map takes the entry";
        let maps = self.programs().maps_mut();
        for name in ["a", "b"] {
            let addr = endpoint(name, frontend);
            let member = MemberKey {
                addr: addr.ip().into(),
                service,
                port: addr.port(),
                pool: Verdict::Cluster as u16,
            };
            match (0..).zip(endpoints).find(|(_, it)| **it == name) {
                Some((slot, _)) => {
                    let value = Endpoint {
                        addr: addr.ip().into(),
                        port: addr.port(),
                        ..Endpoint::default()
                    };
                    let key = EndpointKey { service, slot };
                    maps.endpoints.insert(&key, &value).expect(written);
                    maps.members.insert(&member, &slot).expect(written);
                }
                None => drop(maps.members.remove(&member)),
            }
        }
        let value = Frontend {
            service,
            cluster: Slots {
                first: 0,
                count: u32::try_from(endpoints.len()).expect("they are few"),
            },
            affinity_seconds,
            treatments,
            ..Frontend::default()
        };
        let any = match frontend {
            SocketAddr::V4(_) => Addr::ANY_V4,
            SocketAddr::V6(_) => Addr::ANY_V6,
        };
        for (addr, port, kind) in [
            (frontend.ip().into(), frontend.port(), FrontendKind::Address),
            (any, 30080, FrontendKind::NodePort),
        ] {
            let key = FrontendKey {
                addr,
                port,
                protocol,
                kind: kind as u8,
            };
            maps.frontends.insert(&key, &value).expect(written);
            maps.change_ports(|it| it.insert(port)).expect(written);
        }
        let mut know = |ip: IpAddr, kind: AddressKind| {
            let key = AddressKey {
                addr: ip.into(),
                kind: kind as u32,
            };
            maps.addresses.insert(&key, &1).expect(written);
        };
        know(frontend.ip(), AddressKind::ClusterIp);
        know(
            NODE.parse().expect("it is an address"),
            AddressKind::NodePorts,
        );
        know(
            "127.0.0.1".parse().expect("it is an address"),
            AddressKind::NodePorts,
        );
    }

    /// Makes the node another namespace: clients of the fixture's own are then pods.
    pub(crate) fn clients_are_pods(&mut self) {
        let maps = self.programs().maps_mut();
        let written = maps.change_node(|node| node.netns_cookie = 0);
        written.expect("NODE is written");
    }

    /// The sockets that the frontend's Service led to an endpoint.
    pub(crate) fn led(&self, frontend: SocketAddr, name: &str, protocol: u8) -> Led {
        Led {
            frontend,
            endpoint: endpoint(name, frontend),
            protocol,
        }
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.pod.kill().ok();
        self.pod.wait().ok();
        let removed = self.programs.take().map(Programs::remove);
        if !std::thread::panicking() {
            removed
                .expect("the programs are open")
                .expect("the pins can be removed");
        }
    }
}

/// The address of an endpoint, of the frontend's family.
pub(crate) fn endpoint(name: &str, frontend: SocketAddr) -> SocketAddr {
    parse(match (name, frontend) {
        ("a", SocketAddr::V4(_)) => "10.1.0.1:8001",
        ("a", SocketAddr::V6(_)) => "[fd00:1::1]:8001",
        (_, SocketAddr::V4(_)) => "10.1.0.2:8002",
        (_, SocketAddr::V6(_)) => "[fd00:1::2]:8002",
    })
}

pub(crate) fn parse(addr: &str) -> SocketAddr {
    addr.parse().expect("it is an address with a port")
}

fn namespace() -> Netns {
    let netns = Netns::new("sockets").expect("the namespace can be made");
    let ips = [
        "10.1.0.1",
        "10.1.0.2",
        "192.168.7.1",
        "fd00:1::1",
        "fd00:1::2",
    ];
    let added = netns.wire(|it| {
        let up = Settings {
            up: Some(true),
            ..Settings::default()
        };
        it.set("lo", &up)?;
        let lo = it.index("lo")?;
        ips.iter().try_for_each(|ip| {
            let ip: IpAddr = ip.parse().expect("it is an address");
            it.add(&Address::new(lo, ip))
        })
    });
    added.expect("the addresses are added");
    netns
}

fn servers(netns: &Netns) -> Vec<Server> {
    let mut servers = Vec::new();
    for (name, port) in [("a", 8001), ("b", 8002)] {
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            let server = Server::start(netns, name, port, protocol);
            servers.push(server.expect("the port is free"));
        }
    }
    servers
}
