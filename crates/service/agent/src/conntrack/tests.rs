use std::time::Duration;

use sluice_netlink::conntrack::Tuple;

use sluice_nftables::Nftables;

use super::*;

/// A table in memory that fails on demand.
#[derive(Debug, Default)]
struct Fake {
    flows: Vec<Flow>,
    dumps: usize,
    /// How many of the next dumps fail.
    failures: usize,
    /// Told after each dump.
    dumped: Option<Sender<usize>>,
}

impl FlowTable for Fake {
    fn flows(&mut self, filter: &FlowFilter) -> Result<Vec<Flow>, String> {
        self.dumps += 1;
        if let Some(dumped) = &self.dumped {
            dumped.send(self.dumps).expect("the test listens");
        }
        if self.failures > 0 {
            self.failures -= 1;
            return Err("busy".to_owned());
        }
        let flows = self.flows.iter().filter(|it| filter.matches(it));
        Ok(flows.copied().collect())
    }

    fn delete(&mut self, flow: &Flow) -> Result<(), String> {
        self.flows.retain(|it| it != flow);
        Ok(())
    }
}

fn addr(text: &str) -> SocketAddr {
    text.parse().expect("an address with a port")
}

/// A UDP flow: the address that the client dialled, and the endpoint that answers.
fn flow(dialled: &str, answers: &str) -> Flow {
    let (dialled, answers) = (addr(dialled), addr(answers));
    let client = addr(if dialled.is_ipv4() {
        "10.9.9.9:4000"
    } else {
        "[fd09::9]:4000"
    });
    let tuple = |src: SocketAddr, dst: SocketAddr| Tuple {
        src: src.ip(),
        dst: dst.ip(),
        protocol: 17,
        src_port: src.port(),
        dst_port: dst.port(),
    };
    Flow {
        original: tuple(client, dialled),
        reply: tuple(answers, client),
        id: None,
        zone: 0,
    }
}

fn address(text: &str, keep: &[&str]) -> StaleFlows {
    let it = addr(text);
    StaleFlows {
        frontend: Frontend::Address {
            addr: it.ip(),
            port: it.port(),
            protocol: Protocol::Udp,
        },
        keep: Keep::Endpoints(keep.iter().map(|it| addr(it)).collect()),
    }
}

fn node_port(port: u16, keep: &[&str]) -> StaleFlows {
    StaleFlows {
        frontend: Frontend::NodePort {
            family: IpFamily::V4,
            port,
            protocol: Protocol::Udp,
        },
        keep: Keep::Endpoints(keep.iter().map(|it| addr(it)).collect()),
    }
}

/// Flows that are left, as `dialled > answers`.
#[track_caller]
fn check(flows: &[(&str, &str)], stale: Vec<StaleFlows>, left: &[&str]) {
    let mut table = Fake {
        flows: flows.iter().map(|(a, b)| flow(a, b)).collect(),
        ..Fake::default()
    };
    let mut wanted = Wanted::new();
    merge(&mut wanted, stale);
    let (_, metrics) = crate::metrics::for_test::<Nftables>();
    let local = ["192.168.0.1", "127.0.0.1"].map(|it| it.parse().expect("an address"));
    clean(&mut table, &wanted, &local.into(), &metrics).expect("the fake does not fail");
    let remaining = table.flows.iter().map(|it| {
        let dialled = SocketAddr::new(it.original.dst, it.original.dst_port);
        let answers = SocketAddr::new(it.reply.src, it.reply.src_port);
        format!("{dialled} > {answers}")
    });
    assert_eq!(remaining.collect::<Vec<_>>(), left);
    let deleted = metrics.conntrack_deletions() as usize;
    assert_eq!(deleted, flows.len() - left.len());
}

#[test]
fn flows_to_endpoints_that_are_gone_are_deleted() {
    check(
        &[
            ("10.96.0.10:53", "10.0.0.1:53"),
            ("10.96.0.10:53", "10.0.0.2:53"),
            ("10.96.0.11:53", "10.0.0.1:53"),
            ("10.96.0.10:54", "10.0.0.1:53"),
        ],
        vec![address("10.96.0.10:53", &["10.0.0.2:53"])],
        &[
            "10.96.0.10:53 > 10.0.0.2:53",
            "10.96.0.11:53 > 10.0.0.1:53",
            "10.96.0.10:54 > 10.0.0.1:53",
        ],
    );
}

#[test]
fn flows_that_began_without_any_endpoint_are_deleted() {
    check(
        &[("10.96.0.10:53", "10.96.0.10:53")],
        vec![address("10.96.0.10:53", &["10.0.0.2:53"])],
        &[],
    );
}

#[test]
fn node_ports_are_those_of_this_node() {
    check(
        &[
            ("192.168.0.1:30053", "10.0.0.1:53"),
            ("192.168.0.2:30053", "192.168.0.2:30053"),
            ("127.0.0.1:30053", "127.0.0.1:30053"),
        ],
        vec![node_port(30053, &["10.0.0.2:53"])],
        &[
            "192.168.0.2:30053 > 192.168.0.2:30053",
            "127.0.0.1:30053 > 127.0.0.1:30053",
        ],
    );
}

#[test]
fn the_latest_list_of_endpoints_counts() {
    check(
        &[
            ("10.96.0.10:53", "10.0.0.1:53"),
            ("10.96.0.10:53", "10.0.0.2:53"),
        ],
        vec![
            address("10.96.0.10:53", &["10.0.0.2:53"]),
            address("10.96.0.10:53", &["10.0.0.1:53"]),
        ],
        &["10.96.0.10:53 > 10.0.0.1:53"],
    );
}

#[test]
fn many_frontends_cost_one_dump_per_family() {
    let v4 = (0..40).map(|it| address(&format!("10.96.0.{it}:53"), &[]));
    let v6 = address("[fd00::1]:53", &[]);
    let mut wanted = Wanted::new();
    merge(&mut wanted, v4.chain([v6]).collect());
    assert_eq!(filters(&wanted).len(), 2);
    let mut table = Fake {
        flows: vec![
            flow("10.96.0.7:53", "10.0.0.1:53"),
            flow("[fd00::1]:53", "[fd00::2]:53"),
            flow("10.96.1.7:53", "10.0.0.1:53"),
        ],
        ..Fake::default()
    };
    let (_, metrics) = crate::metrics::for_test::<Nftables>();
    clean(&mut table, &wanted, &BTreeSet::new(), &metrics).expect("the fake does not fail");
    assert_eq!(table.flows, [flow("10.96.1.7:53", "10.0.0.1:53")]);
    wanted.retain(|frontend, _| frontend.family() == IpFamily::V6);
    assert_eq!(filters(&wanted).len(), 1, "few are asked for one by one");
}

#[test]
fn a_failure_is_retried_and_nothing_is_forgotten() {
    let (sender, stale) = mpsc::channel();
    let (dumped, dumps) = mpsc::channel();
    let mut table = Fake {
        flows: vec![flow("10.96.0.10:53", "10.0.0.1:53")],
        failures: 1,
        dumped: Some(dumped),
        ..Fake::default()
    };
    let (of_process, metrics) = crate::metrics::for_test::<Nftables>();
    let count = metrics.clone();
    let running = thread::spawn(move || {
        run(&stale, &mut table, &count);
        table.flows
    });
    sender
        .send(vec![address("10.96.0.10:53", &[])])
        .expect("it runs");
    for expected in [1, 2] {
        let dump = dumps.recv_timeout(Duration::from_secs(10));
        assert_eq!(dump, Ok(expected), "the retry comes by itself");
    }
    drop(sender);
    assert_eq!(running.join().expect("no panic"), []);
    assert_eq!(metrics.conntrack_deletions(), 1);
    let text = of_process.text().expect("complete");
    let counted = r#"sluice_conntrack_deleted_total{protocol="udp"} 1"#;
    assert!(text.contains(counted), "{text}");
}

#[test]
fn what_was_never_translated_goes_and_the_rest_stays() {
    let untranslated = StaleFlows {
        keep: Keep::Translated,
        ..address("10.96.0.10:53", &[])
    };
    let flows = [
        ("10.96.0.10:53", "10.96.0.10:53"),
        ("10.96.0.10:53", "10.0.0.1:53"),
        ("10.96.0.11:53", "10.96.0.11:53"),
    ];
    let left = [
        "10.96.0.10:53 > 10.0.0.1:53",
        "10.96.0.11:53 > 10.96.0.11:53",
    ];
    check(&flows, vec![untranslated.clone()], &left);
    // A list of endpoints says more, whichever comes first.
    let nobody = address("10.96.0.10:53", &[]);
    let left = ["10.96.0.11:53 > 10.96.0.11:53"];
    check(&flows, vec![nobody.clone(), untranslated.clone()], &left);
    check(&flows, vec![untranslated, nobody], &left);
}

#[test]
fn after_a_repair_the_table_is_walked_twice() {
    let untranslated = StaleFlows {
        keep: Keep::Translated,
        ..address("10.96.0.10:53", &[])
    };
    let mut wanted = Wanted::new();
    merge(
        &mut wanted,
        vec![untranslated, address("10.96.0.11:53", &[])],
    );
    assert!(walked(&mut wanted));
    assert_eq!(wanted.len(), 1, "lists of endpoints are done at once");
    assert!(!walked(&mut wanted));
}
