use proptest::prelude::*;

use super::*;
use crate::explain::{Decision, answer};
use crate::settings::Settings;
use crate::testing::{NODE, endpoints, node, planner, service as object};

#[track_caller]
fn address(text: &str, ip: &str, port: Option<u16>, protocol: Option<Protocol>) {
    let ip = ip.parse().expect("an address");
    let target = parse_target(text).expect("a target");
    assert_eq!(target, Target::Address { ip, port, protocol });
}

#[track_caller]
fn service(text: &str, name: &str, port: Option<&str>, protocol: Option<Protocol>) {
    let target = parse_target(text).expect("a target");
    let expected = Target::Service {
        name: NamespacedName::new("default", name),
        port: port.map(str::to_owned),
        protocol,
    };
    assert_eq!(target, expected);
}

#[test]
fn of_addresses() {
    let udp = Some(Protocol::Udp);
    address("10.96.0.10:53/udp", "10.96.0.10", Some(53), udp);
    address("10.96.0.10:53/UDP", "10.96.0.10", Some(53), udp);
    address("10.96.0.10:53", "10.96.0.10", Some(53), None);
    address("[fd00::1]:80", "fd00::1", Some(80), None);
    address("10.96.0.10", "10.96.0.10", None, None);
    address("10.96.0.10/udp", "10.96.0.10", None, udp);
    address("fd00::1", "fd00::1", None, None);
    address("[fd00::1]", "fd00::1", None, None);
    for half in ["[fd00::1", "fd00::1]", "[[fd00::1]]"] {
        assert!(parse_target(half).is_err(), "{half}");
        assert!(parse_sender(half).is_err(), "{half}");
    }
    // The machine of a lab that stands outside is no name: what to say instead is in the refusal.
    let refused = parse_sender("client").unwrap_err().to_string();
    let hint = "`outside` for any machine outside the cluster (the `client` of a lab is one)";
    assert!(
        refused.contains("FROM \"client\"") && refused.contains(hint),
        "{refused}"
    );
}

#[test]
fn of_services() {
    service("default/web", "web", None, None);
    service("default/web:http", "web", Some("http"), None);
    service("default/dns:53/udp", "dns", Some("53"), Some(Protocol::Udp));
    service("default/tcp", "tcp", None, None);
}

#[test]
fn of_dns_names() {
    service("web.default", "web", None, None);
    service("web.default.svc:http", "web", Some("http"), None);
    service("web.default.svc.cluster.local", "web", None, None);
    service("web.default.svc.cluster.local.:80", "web", Some("80"), None);
    let udp = Some(Protocol::Udp);
    service("dns.default.svc:53/udp", "dns", Some("53"), udp);
}

#[test]
fn hosts_are_names_alone() {
    let host = |text| {
        let Host {
            name,
            port,
            protocol,
        } = host_of(text)?;
        let protocol = protocol.map(|it| format!("/{it}")).unwrap_or_default();
        let port = port.map(|it| format!(":{it}")).unwrap_or_default();
        Some(format!("{name}{port}{protocol}"))
    };
    for name in [
        "web",
        "web:http",
        "web.default.svc.",
        "web:53/udp",
        "_http._tcp.web",
    ] {
        assert_eq!(host(name), Some(name.to_owned()));
    }
    for other in [
        "default/web",
        "default/web:53/udp",
        "10.96.0.10",
        "10.96.0.10:53/udp",
        "10.96.0.300:53",
        "fd00::1",
        "[fd00::1]:80",
        "fd00::x",
        "",
    ] {
        assert_eq!(host(other), None, "{other}");
    }
}

#[test]
fn what_is_neither() {
    let words = [
        "web",
        "a/b/c/d",
        "10.96.0.10:53/icmp",
        "",
        "/web",
        "www.example.com",
        "web-0.web.default.svc",
    ];
    for text in words {
        let error = parse_target(text).expect_err(text).to_string();
        assert!(error.starts_with("TO "), "{error}");
    }
}

#[test]
fn near_names() {
    for (one, other) in [
        ("web", "wbe"),
        ("web", "web2"),
        ("web", "we"),
        ("web", "wep"),
    ] {
        assert!(is_near(one, other), "{one} {other}");
    }
    for (one, other) in [("web", "api"), ("web", "webby"), ("web", "bew")] {
        assert!(!is_near(one, other), "{one} {other}");
    }
}

#[test]
fn senders() {
    let parse = |text| parse_sender(text).expect("a sender");
    assert_eq!(parse("node"), Sender::Node);
    assert_eq!(parse("outside"), Sender::Outside);
    assert_eq!(
        parse("[::1]"),
        Sender::Address("::1".parse().expect("an address"))
    );
    let pod = Sender::Pod(NamespacedName::new("default", "web-1"));
    assert_eq!(parse("default/web-1"), pod);
    assert!(parse_sender("web-1").is_err());
}

/// The answer to a question, in one line.
#[track_caller]
fn ask(planner: &Planner, from: &str, to: &str, expected: &str) {
    let answer = answer(planner, from, to, None);
    let line = match answer {
        Ok(it) => {
            let notes = it
                .notes
                .iter()
                .map(|it| format!("; {it}"))
                .collect::<String>();
            format!("{} > {}: {}{notes}", it.source, it.destination, it.reason)
        }
        Err(unclear) => unclear.to_string(),
    };
    assert_eq!(line, expected);
}

#[test]
fn questions_of_a_person() {
    let slices = [
        endpoints("web:http", "10.244.0.1:8080@*web-1"),
        endpoints("pods", "10.244.0.9:80"),
    ];
    let planner = planner(
        Settings::for_node(NODE),
        [
            node("node-a 192.168.0.1"),
            object("web 10.96.0.1 NodePort http:80@30080"),
            object("dns 10.96.0.10 dns:53/udp dns-tcp:53"),
            object("lb 10.96.0.3 LoadBalancer :443 lb=203.0.113.7"),
            object("alias ExternalName"),
            object("pods headless :80"),
        ]
        .into_iter()
        .chain(slices.concat()),
    );
    let yes = "balance over 1 endpoint";
    ask(
        &planner,
        "node",
        "default/web",
        &format!("192.168.0.1 > 10.96.0.1:80: {yes}"),
    );
    ask(
        &planner,
        "default/web-1",
        "web.default.svc:http",
        &format!("10.244.0.1 > 10.96.0.1:80: {yes}"),
    );
    // From outside: where clients outside come in.
    ask(
        &planner,
        "outside",
        "default/web",
        &format!("198.51.100.1 > 192.168.0.1:30080: {yes}"),
    );
    ask(
        &planner,
        "outside",
        "default/lb",
        "198.51.100.1 > 203.0.113.7:443: reject: no endpoint anywhere answers (no IPv4 EndpointSlice \
         has the label kubernetes.io/service-name=lb)",
    );
    ask(
        &planner,
        "node",
        "10.96.0.1",
        &format!("192.168.0.1 > 10.96.0.1:80: {yes}"),
    );
    ask(
        &planner,
        "node",
        "default/web:8443",
        "192.168.0.1 > 10.96.0.1:8443: reject: the ClusterIP has no such port; Service default/web \
         has at this address: 80/tcp",
    );
    ask(
        &planner,
        "node",
        "10.244.0.1:8080",
        "192.168.0.1 > 10.244.0.1:8080: not a service: no Service has this address and port; the \
         address is that of web-1 of Service default/web (EndpointSlice default/web-slice-v4-8080): \
         packets go straight to it",
    );
    ask(
        &planner,
        "node",
        "192.168.0.2:30080",
        "192.168.0.1 > 192.168.0.2:30080: not a service: no Service has this address and port; \
         30080/tcp is a NodePort of Service default/web:http, but the address is none of this node",
    );
    for (to, expected) in [
        (
            "default/wbe",
            "there is no Service default/wbe (from an API server, headless ones and those of another proxy are not read): did you mean default/web?",
        ),
        (
            "default/dns",
            "Service default/dns has several such ports, give one of them: dns 53/udp, dns-tcp 53/tcp",
        ),
        (
            "10.96.0.10",
            "10.96.0.10 has several ports, give one of them: 53/udp, 53/tcp",
        ),
        (
            "default/web:https",
            "Service default/web has no such port: it has http 80/tcp",
        ),
        (
            "default/alias",
            "Service default/alias is an ExternalName: a DNS alias, with which no packet has to do",
        ),
        (
            "default/pods",
            "Service default/pods is headless: its DNS name leads to the endpoints themselves, without a proxy: 10.244.0.9",
        ),
        (
            "[fd00::1]:80",
            "node has no IPv6 address that is known, and [fd00::1]:80 has no other",
        ),
    ] {
        ask(&planner, "node", to, expected);
    }
    ask(
        &planner,
        "default/none",
        "default/web",
        "pod default/none is in no EndpointSlice, which is where its address would be: give the address instead (kubectl -n default get pod none -o wide)",
    );
}

#[test]
fn nothing_is_known() {
    let planner = planner(Settings::for_node(NODE), []);
    let answer =
        answer(&planner, "10.0.0.1", "10.96.0.1:80", None).expect("addresses need nothing");
    assert_eq!(answer.verdict, Decision::NotService);
    assert!(
        answer.reason.contains("no Service is known at all"),
        "{answer}"
    );
}

proptest! {
    #[test]
    fn no_words_panic(from in "[a-z0-9:./\\[\\]]{0,24}", to in "[a-z0-9:./\\[\\]]{0,24}") {
        let planner = planner(Settings::for_node(NODE), [object("a 10.96.0.1 :80")]);
        let _ = answer(&planner, &from, &to, None);
    }
}
