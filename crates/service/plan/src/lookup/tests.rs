use super::*;
use crate::Event;
use crate::settings::{LocalDetector, NodePortAddresses, Settings};
use crate::testing::{NODE, cidr, endpoints, host, node, packet, planner, service};

fn print(lookup: &Lookup<'_>) -> String {
    let pool = lookup.pool.into_iter().flat_map(Pool::endpoints);
    let pool: Vec<_> = pool.map(|it| it.addr.to_string()).collect();
    match lookup.verdict {
        Some(Verdict::Balance(_)) => {
            let masquerade = if lookup.masquerade {
                " masqueraded"
            } else {
                ""
            };
            format!("{}{masquerade}", pool.join(" "))
        }
        Some(verdict) => format!("{verdict:?}: {}", lookup.reason).to_lowercase(),
        None => "not a service".into(),
    }
}

#[track_caller]
fn check_with(settings: Settings, events: Vec<Event>, table: &[(&str, &str)]) {
    let planner = planner(settings, events);
    for (text, expected) in table {
        let packet = packet(text);
        let lookup = planner.plan().lookup(&packet, &host());
        assert_eq!(print(&lookup), *expected, "{text}");
    }
}

fn here() -> Settings {
    Settings {
        fallback_node_ips: vec![
            "192.168.0.1".parse().unwrap(),
            "fd00:168::1".parse().unwrap(),
        ],
        ..Settings::for_node(NODE)
    }
}

/// `web`: two endpoints, one here, with a ClusterIP, an external IP and a NodePort.
fn web(about: &str) -> Vec<Event> {
    let mut events = endpoints("web", "10.244.0.5:8080@ 10.244.1.6:8080");
    let web = format!("web NodePort 10.96.0.1 :80@30080 ext=192.0.2.1 {about}");
    events.extend([service(&web), cidr("10.96.0.0/16")]);
    events
}

const BOTH: &str = "10.244.0.5:8080 10.244.1.6:8080";
const BOTH_MASQUERADED: &str = "10.244.0.5:8080 10.244.1.6:8080 masqueraded";

#[test]
fn addresses_of_no_service() {
    check_with(
        here(),
        web(""),
        &[
            ("10.244.0.9 > 10.96.0.1:80", BOTH),
            (
                "10.244.0.9 > 10.96.0.1:81",
                "reject: the clusterip has no such port",
            ),
            (
                "10.244.0.9 > 10.96.0.1:80/udp",
                "reject: the clusterip has no such port",
            ),
            (
                "10.244.0.9 > 10.96.0.7:80",
                "drop: no service has this address of the servicecidr",
            ),
            ("10.244.0.9 > 10.97.0.7:80", "not a service"),
            ("10.244.0.9 > 192.0.2.1:81", "not a service"),
            ("10.244.0.9 > 192.168.0.1:80", "not a service"),
        ],
    );
}

#[test]
fn which_addresses_answer_on_node_ports() {
    let none = "not a service";
    let table = |other: &'static str| {
        [
            (
                "198.51.100.1 > 192.168.0.1:30080 via eth0",
                BOTH_MASQUERADED,
            ),
            ("198.51.100.1 > 192.168.5.1:30080 via eth0", other),
            ("198.51.100.1 > 192.168.9.9:30080 via eth0", none),
            ("127.0.0.1 > 127.0.0.1:30080", none),
            ("198.51.100.1 > 192.168.0.1:30080/udp via eth0", none),
        ]
    };
    let within = |nets: &[&str]| Settings {
        node_ports: NodePortAddresses::Within(nets.iter().map(|it| it.parse().unwrap()).collect()),
        ..here()
    };
    check_with(here(), web(""), &table(none));
    check_with(within(&["192.168.0.0/24"]), web(""), &table(none));
    check_with(
        within(&["192.168.0.0/16", "127.0.0.0/8"]),
        web(""),
        &table(BOTH_MASQUERADED),
    );
    check_with(within(&[]), web(""), &table(BOTH_MASQUERADED));
}

#[test]
fn a_virtual_ip_comes_before_a_node_port() {
    let mut events = web("");
    events.extend(endpoints("own", "10.244.1.9:1"));
    events.push(service("own 10.96.0.2 :30080 ext=192.168.0.1"));
    let to_own = (
        "198.51.100.1 > 192.168.0.1:30080 via eth0",
        "10.244.1.9:1 masqueraded",
    );
    check_with(here(), events, &[to_own]);
}

#[test]
fn source_ranges_come_first() {
    let about = "LoadBalancer lb=203.0.113.1 ranges=198.51.100.0/24";
    let mut table = vec![
        ("198.51.100.1 > 203.0.113.1:80 via eth0", BOTH_MASQUERADED),
        (
            "198.51.101.1 > 203.0.113.1:80 via eth0",
            "drop: the source is outside loadbalancersourceranges",
        ),
        (
            "192.168.0.1 > 203.0.113.1:80",
            "drop: the source is outside loadbalancersourceranges",
        ),
        ("198.51.101.1 > 192.0.2.1:80 via eth0", BOTH_MASQUERADED),
        (
            "198.51.101.1 > 192.168.0.1:30080 via eth0",
            BOTH_MASQUERADED,
        ),
        ("198.51.101.1 > 10.96.0.1:80 via eth0", BOTH),
    ];
    check_with(here(), web(about), &table);
    let empty = service("web LoadBalancer 10.96.0.1 :80 lb=203.0.113.1 ranges=198.51.100.0/24");
    table.truncate(2);
    table[0].1 = "reject: no endpoint anywhere answers";
    check_with(here(), vec![empty], &table);
}

#[test]
fn a_range_with_the_node_admits_the_virtual_ip_as_source() {
    let about = "LoadBalancer lb=203.0.113.1 ranges=192.168.0.0/24";
    check_with(
        here(),
        web(about),
        &[
            ("203.0.113.1 > 203.0.113.1:80", BOTH_MASQUERADED),
            ("192.168.0.1 > 203.0.113.1:80", BOTH_MASQUERADED),
            (
                "192.168.5.1 > 203.0.113.1:80",
                "drop: the source is outside loadbalancersourceranges",
            ),
        ],
    );
}

mod masquerade {
    use super::*;

    const POD: &str = "10.244.0.9";
    const NODE_ITSELF: &str = "192.168.0.1";
    const OTHER: &str = "198.51.100.1";

    /// Each detector, with the packets of a local pod, the node and anyone else as they arrive.
    fn detectors() -> Vec<(Settings, [String; 3])> {
        let all = [
            LocalDetector::None,
            LocalDetector::ClusterCidrs(vec!["10.244.0.0/16".parse().unwrap()]),
            LocalDetector::NodeCidr,
            LocalDetector::Bridge("cni0".into()),
            LocalDetector::InterfacePrefix("cni".into()),
        ];
        let all = all.into_iter().map(|local_detector| {
            let settings = Settings {
                local_detector,
                ..here()
            };
            let to = |destination: &str| destination.to_owned();
            (settings, [to("via cni0"), String::new(), to("via eth0")])
        });
        all.collect()
    }

    /// Expected for: local pod, node, other; once with any detector, once with none.
    #[track_caller]
    fn check(about: &str, to: &str, with: [&str; 3], without: [&str; 3]) {
        check_if(about, to, with, without, |_| {});
    }

    #[track_caller]
    fn check_if(
        about: &str,
        to: &str,
        with: [&str; 3],
        without: [&str; 3],
        change: impl Fn(&mut Settings),
    ) {
        for (mut settings, via) in detectors() {
            change(&mut settings);
            let expected = match settings.local_detector {
                LocalDetector::None => without,
                _ => with,
            };
            let mut events = web(about);
            events.push(node("node-a 192.168.0.1 10.244.0.0/24"));
            let sources = [POD, NODE_ITSELF, OTHER];
            let packets: Vec<String> = sources
                .iter()
                .zip(&via)
                .map(|(source, via)| format!("{source} > {to} {via}").trim().to_owned())
                .collect();
            let table: Vec<_> = packets.iter().map(String::as_str).zip(expected).collect();
            check_with(settings, events, &table);
        }
    }

    const EXTERNAL: [&str; 2] = ["192.0.2.1:80", "192.168.0.1:30080"];

    #[test]
    fn cluster_ip_for_all_but_local_pods() {
        let with = [BOTH, BOTH_MASQUERADED, BOTH_MASQUERADED];
        check("", "10.96.0.1:80", with, [BOTH; 3]);
    }

    #[test]
    fn cluster_ip_for_everybody() {
        let all = [BOTH_MASQUERADED; 3];
        check_if("", "10.96.0.1:80", all, all, |it| it.masquerade_all = true);
    }

    #[test]
    fn external_with_policy_cluster_always() {
        for to in EXTERNAL {
            check("", to, [BOTH_MASQUERADED; 3], [BOTH_MASQUERADED; 3]);
        }
    }

    #[test]
    fn external_with_policy_local() {
        let (local, own) = ("10.244.0.5:8080", BOTH_MASQUERADED);
        for to in EXTERNAL {
            check("etp=local", to, [BOTH, own, local], [local, own, local]);
        }
    }

    #[test]
    fn masquerade_all_is_for_cluster_ips_only() {
        let (local, own) = ("10.244.0.5:8080", BOTH_MASQUERADED);
        let change = |it: &mut Settings| it.masquerade_all = true;
        for to in EXTERNAL {
            check_if(
                "etp=local",
                to,
                [BOTH, own, local],
                [local, own, local],
                change,
            );
        }
    }

    /// In the interface modes, packets that the node sends have none.
    #[test]
    fn a_pod_is_known_by_its_interface_alone() {
        let settings = |local_detector| Settings {
            local_detector,
            ..here()
        };
        let table = [
            ("10.244.0.9 > 10.96.0.1:80", BOTH_MASQUERADED),
            ("10.244.0.9 > 10.96.0.1:80 via cni1", BOTH_MASQUERADED),
            ("198.51.100.1 > 10.96.0.1:80 via cni0", BOTH),
        ];
        check_with(
            settings(LocalDetector::Bridge("cni0".into())),
            web(""),
            &table,
        );
        let table = [
            ("10.244.0.9 > 10.96.0.1:80 via veth1", BOTH),
            ("10.244.0.9 > 10.96.0.1:80 via eth0", BOTH_MASQUERADED),
        ];
        check_with(
            settings(LocalDetector::InterfacePrefix("veth".into())),
            web(""),
            &table,
        );
    }

    #[test]
    fn a_local_endpoint_that_reaches_itself() {
        let planner = planner(here(), web(""));
        let masquerades = |source: &str, endpoint: &str| {
            let packet = packet(&format!("{source} > 10.96.0.1:80 via cni0"));
            let lookup = planner.plan().lookup(&packet, &host());
            lookup.masquerades(&packet, endpoint.parse().unwrap(), &host())
        };
        assert!(masquerades("10.244.0.5", "10.244.0.5"));
        assert!(!masquerades("10.244.0.5", "10.244.1.6"));
        assert!(
            !masquerades("10.244.1.6", "10.244.1.6"),
            "is on another node"
        );
        assert!(!masquerades("10.244.0.7", "10.244.0.5"));
    }

    #[test]
    fn what_is_delivered_on_the_node_keeps_its_source() {
        let mut events = endpoints("web", "192.168.0.1:8080@");
        events.push(service("web NodePort 10.96.0.1 :80@30080"));
        let planner = planner(here(), events);
        for (text, expected) in [
            ("198.51.100.1 > 192.168.0.1:30080 via eth0", false),
            ("192.168.0.1 > 192.168.0.1:30080", true),
        ] {
            let packet = packet(text);
            let lookup = planner.plan().lookup(&packet, &host());
            let endpoint = "192.168.0.1".parse().unwrap();
            assert_eq!(
                lookup.masquerades(&packet, endpoint, &host()),
                expected,
                "{text}"
            );
        }
    }
}
