use super::*;

#[track_caller]
fn address(text: &str, addr: &str, protocol: Protocol) {
    let addr = addr.parse().expect("an address with a port");
    let target = parse_target(text).expect("a target");
    assert_eq!(target, Target::Address { addr, protocol });
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
fn addresses() {
    address("10.96.0.10:53/udp", "10.96.0.10:53", Protocol::Udp);
    address("10.96.0.10:53/UDP", "10.96.0.10:53", Protocol::Udp);
    address("10.96.0.10:53", "10.96.0.10:53", Protocol::Tcp);
    address("[fd00::1]:80", "[fd00::1]:80", Protocol::Tcp);
}

#[test]
fn services() {
    service("default/web", "web", None, None);
    service("default/web:http", "web", Some("http"), None);
    service("default/dns:53/udp", "dns", Some("53"), Some(Protocol::Udp));
}

#[test]
fn what_is_neither() {
    for text in ["web", "10.96.0.10", "a/b/c/d", "10.96.0.10:53/icmp", ""] {
        let error = parse_target(text).expect_err(text).to_string();
        assert!(error.starts_with("TO "), "{error}");
    }
}

#[test]
fn senders() {
    let parse = |text| parse_sender(text).expect("a sender");
    assert_eq!(parse("node"), Sender::Node);
    assert_eq!(
        parse("[::1]"),
        Sender::Address("::1".parse().expect("an address"))
    );
    let pod = Sender::Pod(NamespacedName::new("default", "web-1"));
    assert_eq!(parse("default/web-1"), pod);
    assert!(parse_sender("web-1").is_err());
}
