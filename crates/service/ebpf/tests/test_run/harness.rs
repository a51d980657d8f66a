//! Programs that run with packets of ours, and maps that have a few Services.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{self, Command};

use sluice_bpf::netns_cookie;
use sluice_bpf_abi::{
    Addr, AddressKey, AddressKind, Cidr, Dns, Endpoint, EndpointKey, Frontend, FrontendKey,
    FrontendKind, Node, PortRange, SCTP, Slots, TCP, Treatment, UDP, Verdict,
};
use sluice_ebpf::{BUILT, Direction, Maps, Patterns, Programs, Setup, Sizes, Trial};
use sluice_lab::Netns;

/// `TC_ACT_UNSPEC`: the next program, and then the kernel.
pub(crate) const GO_ON: i32 = -1;
/// `TC_ACT_SHOT`.
pub(crate) const DROP: i32 = 2;
/// `TC_ACT_REDIRECT`.
pub(crate) const REDIRECT: i32 = 7;

/// The loopback interface is the first of every network namespace.
const LOOPBACK: u32 = 1;

/// Addresses of one family.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Family {
    pub(crate) client: SocketAddr,
    /// Leads to `endpoint`; clients keep their addresses.
    pub(crate) open: SocketAddr,
    /// The same, and clients are masqueraded with `node`.
    pub(crate) masqueraded: SocketAddr,
    /// No endpoint answers.
    pub(crate) empty: SocketAddr,
    /// A ClusterIP of no Service.
    pub(crate) unallocated: SocketAddr,
    pub(crate) endpoint: SocketAddr,
    pub(crate) node: IpAddr,
    /// A NodePort of the node, as `open`.
    pub(crate) node_port: SocketAddr,
}

pub(crate) fn families() -> [Family; 2] {
    let v4 = |it: &str| -> SocketAddr { it.parse().expect("an address") };
    [
        Family {
            client: v4("192.0.2.7:40000"),
            open: v4("10.96.0.1:80"),
            masqueraded: v4("10.96.0.2:80"),
            empty: v4("10.96.0.3:80"),
            unallocated: v4("10.96.0.99:80"),
            endpoint: v4("10.244.0.5:8080"),
            node: [192, 0, 2, 1].into(),
            node_port: v4("192.0.2.1:30080"),
        },
        Family {
            client: v4("[2001:db8::7]:40000"),
            open: v4("[fd96::1]:80"),
            masqueraded: v4("[fd96::2]:80"),
            empty: v4("[fd96::3]:80"),
            unallocated: v4("[fd96::99]:80"),
            endpoint: v4("[fd24::5]:8080"),
            node: "2001:db8::1".parse().expect("an address"),
            node_port: v4("[2001:db8::1]:30080"),
        },
    ]
}

/// Both programs, and an interface that has them.
pub(crate) struct Bench {
    ifindex: u32,
    programs: Programs,
}

struct Pins(PathBuf);

impl Drop for Pins {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// Runs a test in a network namespace. Without programs in this build it prints SKIP, and fails when `CI` is set.
pub(crate) fn run(label: &str, test: impl FnOnce(&mut Bench) + Send) {
    if !sluice_lab::netns_available() {
        return;
    }
    if !BUILT {
        assert!(
            std::env::var_os("CI").is_none(),
            "CI must build the programs"
        );
        eprintln!("SKIP: this build has no programs");
        return;
    }
    let pins = Pins(format!("/sys/fs/bpf/sluice-test-{}-{label}", process::id()).into());
    let netns = Netns::new("testrun").expect("a namespace");
    netns.run(|| test(&mut bench(&pins)));
}

fn bench(pins: &Pins) -> Bench {
    for words in [
        "link add east type veth peer name west",
        "addr add 192.0.2.1/24 dev east",
        "addr add 2001:db8::1/64 dev east nodad",
    ] {
        let done = Command::new("ip").args(words.split(' ')).status();
        assert!(done.expect("ip runs").success(), "{words}");
    }
    let setup = Setup {
        pins: pins.0.clone(),
        interfaces: Patterns::all(),
        pods: Patterns::none(),
        sizes: Sizes {
            flows: 8192,
            ..Sizes::default()
        },
    };
    let mut programs = Programs::open(setup).expect("the kernel takes the programs");
    fill(&mut programs);
    programs.attach().expect("the interface takes them");
    let links = sluice_route::links().expect("interfaces are listed");
    let east = links
        .iter()
        .find(|it| it.name == "east")
        .expect("it was added");
    Bench {
        ifindex: east.index,
        programs,
    }
}

fn fill(programs: &mut Programs) {
    let written = "the map takes the entry";
    let maps = programs.maps_mut();
    let mut node = Node {
        netns_cookie: netns_cookie().expect("the namespace has a cookie"),
        masquerade_ports: [
            PortRange {
                first: 1024,
                last: 29_999,
            },
            PortRange {
                first: 61_000,
                last: 65_535,
            },
        ],
        ..Node::default()
    };
    for (index, family) in families().iter().enumerate() {
        let (cidr, length) = match family.open.ip() {
            IpAddr::V4(_) => ("10.96.0.0", 96 + 24),
            IpAddr::V6(_) => ("fd96::", 64),
        };
        let settings = &mut node.families[index];
        settings.node_ip = family.node.into();
        settings.pods = Cidr::NOTHING;
        settings.cidr_count = 1;
        settings.service_cidrs[0] = Cidr {
            addr: Addr::from(cidr.parse::<IpAddr>().expect("an address")),
            length,
        };
        let cluster = Verdict::Cluster as u8;
        let (virtual_ip, node_port) = (FrontendKind::Address, FrontendKind::NodePort);
        let any = if family.node.is_ipv4() {
            SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), family.node_port.port())
        } else {
            SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), family.node_port.port())
        };
        for (number, (addr, kind, treatment)) in (1..).zip([
            (family.open, virtual_ip, cluster),
            (
                family.masqueraded,
                virtual_ip,
                cluster | Treatment::MASQUERADE,
            ),
            (family.empty, virtual_ip, Verdict::Reject as u8),
            (any, node_port, cluster),
        ]) {
            let service = u32::try_from(index).expect("two") * 100 + number;
            let endpoint = Endpoint {
                addr: family.endpoint.ip().into(),
                node: Addr::ANY_V6,
                port: family.endpoint.port(),
                flags: 0,
            };
            let key = EndpointKey { service, slot: 0 };
            maps.endpoints.insert(&key, &endpoint).expect(written);
            for protocol in [TCP, UDP, SCTP] {
                let key = FrontendKey {
                    addr: addr.ip().into(),
                    port: addr.port(),
                    protocol,
                    kind: kind as u8,
                };
                let value = Frontend {
                    service,
                    cluster: Slots { first: 0, count: 1 },
                    treatments: [treatment; 4],
                    ..Frontend::default()
                };
                maps.frontends.insert(&key, &value).expect(written);
                maps.change_ports(|it| it.insert(addr.port()))
                    .expect(written);
            }
            let (ip, kind) = match kind {
                FrontendKind::Address => (addr.ip(), AddressKind::ClusterIp),
                FrontendKind::NodePort => (family.node, AddressKind::NodePorts),
            };
            let key = AddressKey {
                addr: ip.into(),
                kind: kind as u32,
            };
            maps.addresses.insert(&key, &1).expect(written);
        }
    }
    maps.set_node(&node).expect(written);
}

impl Bench {
    pub(crate) fn set_dns(&mut self, dns: &Dns) {
        let written = self.programs.maps_mut().set_dns(dns);
        written.expect("DNS is written");
    }

    /// Number of the interface.
    pub(crate) fn ifindex(&self) -> u32 {
        self.ifindex
    }

    pub(crate) fn maps(&self) -> &Maps {
        self.programs.maps()
    }

    pub(crate) fn pins(&self) -> &sluice_bpf::Pins {
        self.programs.pins()
    }

    pub(crate) fn maps_mut(&mut self) -> &mut Maps {
        self.programs.maps_mut()
    }

    pub(crate) fn change_node(&mut self, change: impl FnOnce(&mut Node)) {
        let written = self.maps_mut().change_node(change);
        written.expect("the map takes the settings");
    }

    /// Connections that cannot keep their source ports get these.
    pub(crate) fn set_ports(&mut self, ports: PortRange) {
        let none = PortRange { first: 1, last: 0 };
        self.change_node(|it| it.masquerade_ports = [ports, none]);
    }

    /// A packet arrives through the interface.
    pub(crate) fn arrive(&self, packet: &[u8]) -> Trial {
        self.run(Direction::In, packet, self.ifindex)
    }

    /// A packet that arrived leaves through the interface.
    pub(crate) fn leave(&self, packet: &[u8]) -> Trial {
        self.run(Direction::Out, packet, self.ifindex)
    }

    /// A packet of the node's own leaves to an address of the node itself.
    pub(crate) fn leave_through_loopback(&self, packet: &[u8]) -> Trial {
        self.run_at(LOOPBACK, Direction::Out, packet, 0)
    }

    /// A packet of the node's own leaves through the interface.
    pub(crate) fn send(&self, packet: &[u8]) -> Trial {
        self.run(Direction::Out, packet, 0)
    }

    /// A packet arrives through loopback, where the programs sent it.
    pub(crate) fn arrive_again(&self, packet: &[u8]) -> Trial {
        self.run_at(LOOPBACK, Direction::In, packet, LOOPBACK)
    }

    fn run(&self, direction: Direction, packet: &[u8], arrived: u32) -> Trial {
        self.run_at(self.ifindex, direction, packet, arrived)
    }

    fn run_at(&self, ifindex: u32, direction: Direction, packet: &[u8], arrived: u32) -> Trial {
        let programs = &self.programs;
        let made = programs.try_packet(direction, ifindex, arrived, packet, 1);
        made.expect("the kernel runs it")
    }
}
