//! Connections that rules of an earlier proxy have opened, where FLOWS has no room for them.

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::process::Stdio;

use sluice_bpf_abi::{flow_flags, node_flags};
use sluice_ebpf::{Ebpf, Facts, Patterns, Sizes};
use sluice_lab::{Cluster, Netns, Probe, Protocol, Server, Session, require_netns};
use sluice_plan::testing::{endpoints, service};
use sluice_plane::{DataPlane as _, Proxy};
use sluice_scenarios::{Drive as _, golden};

/// How many connections are open. Each has three entries.
const OPEN: usize = 12;
/// The room that the table has at first.
const ROOM: u32 = 16;

/// Adds a table that leads the Service to the endpoint, or removes it.
fn nft(node: &Netns, rules: &str) {
    let mut command = node.command("nft", &["-f", "-"]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(rules.as_bytes()).unwrap();
    drop(input);
    assert!(child.wait().unwrap().success(), "{rules}");
}

fn is_waiting(node: &mut Proxy<Ebpf>) -> bool {
    let maps = node.reconciler_mut().backend_mut().programs().maps();
    maps.node().unwrap().flags & node_flags::WAITS != 0
}

fn refusal(node: &mut Proxy<Ebpf>) -> Option<String> {
    let fills = node.reconciler_mut().backend_mut().table_fills().unwrap()();
    let flows = fills.into_iter().find(|it| it.table == "FLOWS").unwrap();
    flows.refused
}

/// The programs wait, and the rules go on, until there is room for every connection; then all of them live on.
#[test]
fn connections_of_rules_get_room_before_programs_open_any() {
    require_netns!();
    let cluster = Cluster::builder()
        .node("node-a")
        .pod("web", "node-a")
        .pod("cli", "node-a")
        .build()
        .unwrap();
    let [web, cli] = ["web", "cli"].map(|it| cluster.pod(it));
    let _server = Server::start(web.netns(), "web", 8080, Protocol::Tcp).unwrap();
    let target = SocketAddr::from(([10, 96, 0, 10], 80));
    let netns = cluster.node("node-a").netns();
    let (ip, to) = (target.ip(), web.ipv4());
    nft(
        netns,
        &format!(
            "table ip earlier {{ chain services {{ type nat hook prerouting priority -100; \
             ip daddr {ip} tcp dport 80 dnat to {to}:8080; }}; }}\n"
        ),
    );
    let sessions = (0..OPEN).map(|_| Session::connect(cli.netns(), target).unwrap());
    let mut sessions: Vec<Session> = sessions.collect();
    netns.run(|| {
        let sizes = Sizes {
            flows: ROOM,
            ..Sizes::default()
        };
        let plane = crate::common::open(Patterns::none(), sizes, Facts::default());
        // The kernel makes no larger map where its pin cannot be.
        let pins = plane.programs().pins().maps();
        let barrier = pins.join("FLOWS-new");
        fs::create_dir(&barrier).unwrap();
        let mut node = Proxy::new(golden::settings(), plane);
        let mut events = vec![service("default/web 10.96.0.10 :80")];
        events.extend(endpoints("default/web", &format!("{to}:8080@")));
        for _ in 0..2 {
            let failure = node.try_change(std::mem::take(&mut events)).unwrap_err();
            assert!(failure.operation.contains("FLOWS"), "{failure}");
            assert!(is_waiting(&mut node) && refusal(&mut node).is_some());
            sessions.iter_mut().for_each(|it| it.ping().unwrap());
            let outcome = Probe::tcp(target).from(cli.netns());
            assert_eq!(outcome.name(), Some("web"), "{outcome}");
        }
        fs::remove_dir(&barrier).unwrap();
        node.synced();
        assert!(!is_waiting(&mut node));
        assert_eq!(refusal(&mut node), None);
        node.reconciler_mut()
            .backend_mut()
            .started(Box::new(|_| {}));
        nft(netns, "delete table ip earlier\n");
        sessions.iter_mut().for_each(|it| it.ping().unwrap());
        let maps = node.reconciler_mut().backend_mut().programs().maps();
        let entries = maps.flows.entries().unwrap().into_iter();
        let kept = entries.filter(|(_, it)| it.flags & flow_flags::NETFILTER != 0);
        assert!(kept.count() >= 3 * OPEN);
        for _ in 0..2 * OPEN {
            let outcome = Probe::tcp(target).from(cli.netns());
            assert_eq!(outcome.name(), Some("web"), "{outcome}");
        }
        // The next agent tells at once what is in the table, before its first sync.
        let next = crate::common::open(Patterns::none(), sizes, Facts::default());
        let fills = next.table_fills().unwrap()();
        let flows = fills.iter().find(|it| it.table == "FLOWS").unwrap();
        let least = u64::try_from(3 * OPEN).unwrap();
        assert!(
            flows.entries >= least && flows.capacity > 2 * least,
            "{flows:?}"
        );
    });
}
