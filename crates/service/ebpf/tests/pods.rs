//! Which interfaces the agent knows as those of pods, and what a pod can do under the address of another one.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::time::Duration;

use etherparse::PacketBuilder;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrStorage, sendto, socket,
};
use sluice_bpf_abi::{Addr, Counter};
use sluice_ebpf::{Ebpf, Facts, Patterns, Sizes};
use sluice_lab::{Cluster, Probe, Protocol, Server, eventually, require_netns};
use sluice_plan::settings::{LocalDetector, Settings};
use sluice_plan::testing::{endpoints, service};
use sluice_plane::Proxy;
use sluice_scenarios::{Drive as _, golden};

/// For what the agent follows.
const SOON: Duration = Duration::from_secs(30);

/// The numbers of the interfaces whose packets have the sources of pods.
fn checked(node: &mut Proxy<Ebpf>) -> Vec<u32> {
    let maps = node.reconciler_mut().backend_mut().programs().maps();
    let all = maps.interfaces.entries().unwrap();
    let found = all.into_iter().filter(|(_, it)| it.back != 0);
    let mut found: Vec<u32> = found.map(|(index, _)| index).collect();
    found.sort_unstable();
    found
}

/// A range tells the pods, and the routes tell their interfaces. A pod that writes another one's address opens nothing.
#[test]
fn routes_tell_what_a_pod_may_send() {
    require_netns!();
    let cluster = Cluster::builder()
        .node("node-a")
        .pod("web", "node-a")
        .pod("cli", "node-a")
        .pod("thief", "node-a")
        .build()
        .unwrap();
    let [web, cli, thief] = ["web", "cli", "thief"].map(|it| cluster.pod(it));
    let _server = Server::start(web.netns(), "web", 8080, Protocol::Tcp).unwrap();
    let settings = Settings {
        local_detector: LocalDetector::ClusterCidrs(vec!["10.244.0.0/16".parse().unwrap()]),
        ..golden::settings()
    };
    let target = SocketAddr::from(([10, 96, 0, 10], 80));
    cluster.node("node-a").netns().run(|| {
        let plane = crate::common::open(Patterns::none(), Sizes::default(), Facts::default());
        let mut node = Proxy::new(settings, plane);
        let mut events = vec![service("default/web 10.96.0.10 :80")];
        events.extend(endpoints("default/web", &format!("{}:8080@", web.ipv4())));
        node.change(events);
        let pods: Vec<_> = [web, cli, thief].map(|it| it.ipv4()).into();
        let ways = pods.iter().map(|it| sluice_route::way((*it).into()));
        let mut wanted: Vec<u32> = ways.map(|it| it.unwrap().unwrap().interface).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let has_all = |all: &[u32]| wanted.iter().all(|it| all.contains(it));
        let known = eventually(SOON, || Some(checked(&mut node)).filter(|it| has_all(it)));
        let known = known.unwrap_or_else(|| panic!("{wanted:?}, not {:?}", checked(&mut node)));
        let uplink = sluice_route::link("eth0").unwrap().unwrap().index;
        assert!(!known.contains(&uplink), "{known:?}");
        for pod in [cli, thief] {
            let outcome = Probe::tcp(target).from(pod.netns());
            assert_eq!(outcome.name(), Some("web"), "{outcome}");
        }

        let SocketAddr::V4(to) = target else {
            unreachable!("it is of IPv4");
        };
        let mut forged = Vec::new();
        PacketBuilder::ipv4(cli.ipv4().octets(), to.ip().octets(), 64)
            .tcp(4711, to.port(), 1, 1024)
            .syn()
            .write(&mut forged, &[])
            .unwrap();
        let open = || {
            let flags = SockFlag::SOCK_CLOEXEC;
            socket(AddressFamily::Inet, SockType::Raw, flags, SockProtocol::Raw)
        };
        let raw = thief.netns().run(open).unwrap();
        let to = SockaddrStorage::from(target);
        sendto(raw.as_raw_fd(), &forged, &to, MsgFlags::empty()).unwrap();
        let maps = node.reconciler_mut().backend_mut().programs().maps();
        let is_counted = || {
            let counted = maps.counters.read(Counter::ForeignSource).unwrap();
            (counted[0] > 0).then_some(())
        };
        eventually(SOON, is_counted).expect("the packet is counted");
        let opened = maps.flows.entries().unwrap().into_iter();
        let mut opened =
            opened.filter(|(key, _)| key.source == Addr::from(IpAddr::from(cli.ipv4())));
        assert!(!opened.any(|(key, _)| key.source_port == 4711));
    });
}
