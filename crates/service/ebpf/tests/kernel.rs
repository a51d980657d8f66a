//! What the kernel makes of the objects: adopted by another agent, in maps that grow, chosen by hash.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use sluice_bpf_abi as abi;
use sluice_bpf_abi::Frontend;
use sluice_ebpf::Maps;
use sluice_ebpf::{Ebpf, Facts, Key, Object, Patterns, Sizes, render_plan};
use sluice_lab::{Cluster, Probe, Protocol, Server, eventually, require_netns};
use sluice_plan::Event;
use sluice_plan::Scope;
use sluice_plan::testing::{endpoints, service};
use sluice_plane::{DataPlane as _, Proxy};
use sluice_scenarios::{Drive as _, golden};

/// Where clients dial.
const VIP: ([u8; 4], u16) = ([10, 96, 0, 10], 80);
/// For what happens in the background every ten seconds.
const SOON: Duration = Duration::from_secs(30);

fn proxy(sizes: Sizes) -> Proxy<Ebpf> {
    let plane = crate::common::open(Patterns::none(), sizes, Facts::default());
    Proxy::new(golden::settings(), plane)
}

/// A cluster with two servers and a client on one node.
fn cluster() -> (Cluster, [Server; 2]) {
    let builder = Cluster::builder().node("node-a").pod("cli", "node-a");
    let cluster = builder
        .pod("web-1", "node-a")
        .pod("web-2", "node-a")
        .build()
        .unwrap();
    let servers = ["web-1", "web-2"]
        .map(|pod| Server::start(cluster.pod(pod).netns(), pod, 8080, Protocol::Tcp).unwrap());
    (cluster, servers)
}

fn web(cluster: &Cluster, more: &str) -> Vec<Event> {
    let mut events = vec![service(&format!("default/web 10.96.0.10 :80 {more}"))];
    let [one, two] = ["web-1", "web-2"].map(|it| cluster.pod(it).ipv4());
    events.extend(endpoints(
        "default/web",
        &format!("{one}:8080@ {two}:8080@"),
    ));
    events
}

#[test]
fn another_agent_finds_everything_as_it_was() {
    require_netns!();
    let cluster = Cluster::builder().node("node-a").build().unwrap();
    cluster.node("node-a").netns().run(|| {
        let mut node = proxy(Sizes::default());
        node.tell(golden::events(&golden::folder()));
        assert!(node.synced().added > 30);
        let report = node.resync();
        assert!(report.full && report.is_empty(), "{report:?}");
        drop(node);
        let mut restarted = proxy(Sizes::default());
        restarted.tell(golden::events(&golden::folder()));
        let report = restarted.synced();
        assert!(report.full && report.is_empty(), "{report:?}");
    });
}

/// Connections stay open and new ones are answered while every map is replaced by a larger one.
#[test]
fn maps_grow() {
    require_netns!();
    let (cluster, _servers) = cluster();
    let small = Sizes {
        frontends: 4,
        endpoints: 4,
        members: 4,
        maglev: 4,
        sources: 4,
        addresses: 4,
        ..Sizes::default()
    };
    let target = SocketAddr::from(([10, 96, 0, 10], 80));
    let client = cluster.pod("cli").netns();
    cluster.node("node-a").netns().run(|| {
        let mut node = proxy(small);
        node.change(web(&cluster, ""));
        let mut session = sluice_lab::Session::connect(client, target).unwrap();
        for number in 1..60 {
            let name = format!("default/other-{number}");
            let words = format!("{name} 10.96.1.{number} :80 affinity=60");
            let mut events = vec![service(&words)];
            events.extend(endpoints(&name, "10.244.0.77:8080@ 10.244.0.78:8080@"));
            node.change(events);
            if number % 20 == 0 {
                session.ping().unwrap();
                assert!(Probe::tcp(target).from(client).name().is_some());
            }
        }
        let maps = node.reconciler_mut().backend_mut().programs().maps();
        assert!(maps.frontends.capacity() >= 60 && maps.members.capacity() >= 120);
        let report = node.resync();
        assert!(report.is_empty(), "{report:?}");
    });
}

/// The programs choose what the table says for the hash of a connection's addresses.
#[test]
fn maglev_chooses_by_hash() {
    require_netns!();
    let (cluster, _servers) = cluster();
    let (client, vip) = (cluster.pod("cli"), [10, 96, 0, 10]);
    let names = ["web-1", "web-2"];
    let addresses = names.map(|it| IpAddr::from(cluster.pod(it).ipv4()));
    cluster.node("node-a").netns().run(|| {
        let mut node = proxy(Sizes::default());
        node.change(web(&cluster, "algorithm=maglev"));
        let objects = render_plan(node.plan(), &Facts::default());
        let frontend = objects.values().find_map(|it| match it {
            Object::Frontend(it) => Some(*it),
            _ => None,
        });
        let Frontend {
            service,
            maglev_size,
            ..
        } = frontend.unwrap();
        for port in (20_000..20_400).step_by(20) {
            let tuple = abi::Tuple {
                source: IpAddr::from(client.ipv4()).into(),
                destination: IpAddr::from(vip).into(),
                source_port: port,
                destination_port: 80,
                protocol: abi::TCP.into(),
            };
            let index = tuple.hash() % maglev_size;
            let (chunk, place) = (index / 64, index as usize % 64);
            let Object::Maglev(slots) = &objects[&Key::Maglev(service, Scope::Cluster, chunk)]
            else {
                unreachable!("the key says what it is");
            };
            let slot = slots.slots[place].into();
            let Object::Endpoint(endpoint) = objects[&Key::Endpoint(service, slot)] else {
                unreachable!("the key says what it is");
            };
            let index = addresses
                .iter()
                .position(|it| *it == IpAddr::from(endpoint.addr));
            let probe = Probe::tcp((vip, 80).into()).source_port(port);
            assert_eq!(
                probe.from(client.netns()).name(),
                index.map(|it| names[it]),
                "port {port}"
            );
        }
    });
}

/// A client dials an endpoint itself from the port of its open connection to the Service.
#[test]
fn two_connections_from_one_port() {
    require_netns!();
    let (cluster, _servers) = cluster();
    let client = cluster.pod("cli").netns();
    cluster.node("node-a").netns().run(|| {
        let mut node = proxy(Sizes::default());
        node.change(web(&cluster, ""));
        let open = |target: SocketAddr| {
            let probe = Probe::tcp(target).source_port(23_456);
            sluice_lab::Session::open(client, probe).unwrap()
        };
        let mut sessions = vec![open(([10, 96, 0, 10], 80).into())];
        sessions.extend(["web-1", "web-2"].map(|it| open((cluster.pod(it).ipv4(), 8080).into())));
        for session in &mut sessions {
            session.ping().unwrap();
        }
        for session in sessions.iter_mut().rev() {
            session.ping().unwrap();
        }
    });
}

/// What `sluice status` and the metrics show.
#[test]
fn maps_tell_how_full_they_are() {
    require_netns!();
    let (cluster, _servers) = cluster();
    let client = cluster.pod("cli").netns();
    let small = Sizes {
        flows: 1_024,
        ..Sizes::default()
    };
    cluster.node("node-a").netns().run(|| {
        let mut node = proxy(small);
        let plane = node.reconciler_mut().backend_mut();
        let fills = plane.table_fills().unwrap();
        let of = |table: &str| fills().into_iter().find(|it| it.table == table).unwrap();
        let mut flows = Maps::open(plane.programs().pins()).unwrap().flows;
        for port in 0..900 {
            let key = abi::Tuple {
                source_port: port,
                protocol: abi::TCP.into(),
                ..abi::Tuple::default()
            };
            flows.insert(&key, &reply()).unwrap();
        }
        node.change(web(&cluster, "affinity=60"));
        let frontends = of("FRONTENDS");
        assert_eq!(frontends.entries, 1);
        assert_eq!(frontends.capacity, u64::from(small.frontends));
        assert_eq!(of("ENDPOINTS").entries, 2);
        let fills_up = || of("FLOWS").needs_room().then_some(());
        let full = eventually(SOON, fills_up);
        full.unwrap_or_else(|| panic!("{:?}", of("FLOWS")));
        let when_full = of("FLOWS").when_full.unwrap();
        assert!(when_full.contains("--ebpf-flows"), "{when_full}");
        // A client that stays with its endpoint.
        assert!(Probe::tcp(VIP.into()).from(client).name().is_some());
        let is_counted = || (of("AFFINITY").entries == 1).then_some(());
        eventually(SOON, is_counted).expect("the client is counted");
        assert!(!of("AFFINITY").needs_room());
    });
}

/// An entry that stays for a minute.
fn reply() -> abi::Flow {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap().tv_sec();
    abi::Flow {
        kind: abi::FlowKind::Reply as u8,
        seen_seconds: now.try_into().unwrap(),
        ..abi::Flow::default()
    }
}

/// The kernel gives no larger map: what there is room for is written, the rest is an error, and both say which map.
#[test]
fn maps_that_cannot_grow_are_named() {
    require_netns!();
    let (cluster, _servers) = cluster();
    let small = Sizes {
        frontends: 8,
        ..Sizes::default()
    };
    let more = |number: u8| {
        let name = format!("default/other-{number}");
        let mut events = vec![service(&format!("{name} 10.96.1.{number} :80"))];
        events.extend(endpoints(&name, "10.244.0.77:8080@"));
        events
    };
    cluster.node("node-a").netns().run(|| {
        let mut node = proxy(small);
        let plane = node.reconciler_mut().backend_mut();
        let fills = plane.table_fills().unwrap();
        let refused = || -> Vec<&str> {
            let refused = fills().into_iter().filter(|it| it.refused.is_some());
            refused.map(|it| it.table).collect()
        };
        // The larger map would be pinned here.
        let taken = plane.programs().pins().maps().join("FRONTENDS-new");
        fs::create_dir(&taken).unwrap();
        node.change(web(&cluster, ""));
        assert!(refused().is_empty());
        for number in 1..8 {
            node.change(more(number));
        }
        assert_eq!(refused(), ["FRONTENDS"]);
        let mut events = more(8);
        let [_, two] = ["web-1", "web-2"].map(|it| cluster.pod(it).ipv4());
        events.extend(endpoints("default/web", &format!("{two}:8080@")));
        let error = node.try_change(events).unwrap_err();
        assert!(
            error.to_string().contains("make room in FRONTENDS"),
            "{error}"
        );
        for _ in 0..8 {
            let answer = Probe::tcp(VIP.into()).from(cluster.pod("cli").netns());
            assert_eq!(answer.name(), Some("web-2"), "others follow");
        }
        fs::remove_dir(&taken).unwrap();
        node.change(more(9));
        assert!(refused().is_empty());
        assert!(node.resync().is_empty());
    });
}
