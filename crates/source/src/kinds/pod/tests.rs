//! Converts Pods and Namespaces, and compares the model with the expected text.

use sluice_model::Protocol;

use super::*;
use crate::kinds::Namespace;

fn read(json: &str) -> Converted<model::Pod> {
    let api: Pod = serde_json::from_str(json).unwrap();
    api.convert(&mut Interner::default())
}

/// A pod of this `spec` and `status`.
fn a_pod(spec: &str, status: &str) -> Converted<model::Pod> {
    read(&format!(
        r#"{{"metadata": {{"name": "web", "namespace": "a"}}, "spec": {{{spec}}}, "status": {{{status}}}}}"#
    ))
}

#[track_caller]
fn check_addresses(status: &str, expected: &[&str], faults: &[&str]) {
    let converted = a_pod("", status);
    let addresses = converted.object.unwrap().addresses;
    let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    assert_eq!(addresses, expected, "{status}");
    let said: Vec<String> = converted.faults.iter().map(ToString::to_string).collect();
    assert_eq!(said, faults, "{status}");
}

/// `POLICY searches ndots` of a good pod.
#[track_caller]
fn check_dns(spec: &str, expected: &str) {
    let converted = a_pod(spec, "");
    assert_eq!(converted.faults, [], "{spec}");
    let dns = converted.object.unwrap().dns;
    let text = format!(
        "{:?} {} {:?}",
        dns.policy,
        dns.searches.join(","),
        dns.ndots
    );
    assert_eq!(text, expected, "{spec}");
}

#[track_caller]
fn check_refused(converted: &Converted<impl PartialEq + std::fmt::Debug>, expected: &[&str]) {
    let said: Vec<String> = converted.faults.iter().map(ToString::to_string).collect();
    assert_eq!(said, expected);
    assert_eq!(converted.object, None);
}

#[test]
fn defaults() {
    for json in [
        r#"{"metadata": {"name": "web"}}"#,
        r#"{"metadata": {"name": "web", "namespace": ""}, "spec": null, "status": null}"#,
        r#"{"metadata": {"name": "web"},
            "spec": {"nodeName": "", "dnsPolicy": "", "dnsConfig": null, "hostNetwork": null},
            "status": {"podIP": "", "podIPs": null, "phase": null}}"#,
    ] {
        let converted = read(json);
        assert_eq!(converted.faults, []);
        let pod = converted.object.unwrap();
        assert_eq!(pod.name.to_string(), "default/web");
        assert_eq!((pod.node, pod.host_network), (None, false));
        assert_eq!((pod.addresses, pod.dns), (Vec::new(), PodDns::default()));
    }
}

#[test]
fn labels_and_named_ports_are_shared() {
    let json = r#"{"metadata": {"name": "web", "labels": {"app": "web", "empty": null}}, "spec": {"containers": [
        {"name": "a", "ports": [{"name": "http", "containerPort": 80}, {"containerPort": 81}]},
        {"name": "b", "ports": [{"name": "dns", "containerPort": 53, "protocol": "UDP"},
                                {"name": "http", "containerPort": 82}]}, {"name": "c"}]}}"#;
    let api: Pod = serde_json::from_str(json).unwrap();
    let mut names = Interner::default();
    let mut convert = || api.convert(&mut names).object.unwrap();
    let (one, other) = (convert(), convert());
    assert_eq!(
        (one.labels.get("app"), one.labels.get("empty")),
        (Some("web"), Some(""))
    );
    let ports: Vec<String> = (one.ports.iter())
        .map(|it| format!("{} {}/{}", it.name, it.port, it.protocol))
        .collect();
    assert_eq!(ports, ["http 80/tcp", "dns 53/udp", "http 82/tcp"]);
    let number = |name, protocol| other.ports.number(name, protocol).map(u16::from);
    assert_eq!(number("http", Protocol::Tcp), Some(80));
    assert_eq!(
        (number("dns", Protocol::Tcp), number("dns", Protocol::Udp)),
        (None, Some(53))
    );
    assert_eq!(
        (one.labels.shares(), one.ports.shares()),
        (3, 3),
        "one is the interner's"
    );
    let bad = a_pod(
        r#""containers": [{"ports": [{"name": "a b", "containerPort": 80}, {"name": "x", "containerPort": 0}]}]"#,
        "",
    );
    let said: Vec<String> = bad.faults.iter().map(ToString::to_string).collect();
    assert!(
        said[0].starts_with("spec.containers[0].ports[0]: ") && said.len() == 2,
        "{said:?}"
    );
    assert!(bad.object.unwrap().ports.is_empty());
}

#[test]
fn addresses_are_one_of_each_family() {
    let first = r#""podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]"#;
    check_addresses(first, &["10.0.0.1", "fd00::1"], &[]);
    check_addresses(r#""podIP": "fd00::1""#, &["fd00::1"], &[]);
    check_addresses(r#""podIP": "10.0.0.1", "podIPs": []"#, &["10.0.0.1"], &[]);
    check_addresses(
        r#""podIPs": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}, {"ip": "127.0.0.1"}, {}, {"ip": "fd00::1"}]"#,
        &["10.0.0.1", "fd00::1"],
        &[
            "status.podIPs[1].ip: 10.0.0.2 is a second IPv4 address: ignored",
            "status.podIPs[2].ip: 127.0.0.1 is a loopback address: ignored",
            r#"status.podIPs[3].ip: "" is not an IP address: ignored"#,
        ],
    );
    let bad = r#""podIP": "::ffff:10.0.0.1""#;
    let why = r#"status.podIP: "::ffff:10.0.0.1" is IPv4 written as IPv6: write the IPv4 address: ignored"#;
    check_addresses(bad, &[], &[why]);
}

#[test]
fn pods_that_have_ended_have_no_address() {
    let status = |phase: &str| format!(r#""phase": "{phase}", "podIP": "10.0.0.1""#);
    for phase in ["Pending", "Running", "Unknown", ""] {
        check_addresses(&status(phase), &["10.0.0.1"], &[]);
    }
    for phase in ["Succeeded", "Failed"] {
        check_addresses(&status(phase), &[], &[]);
    }
}

#[test]
fn place_of_a_pod() {
    let pod = a_pod(r#""nodeName": "n1", "hostNetwork": true"#, "");
    let pod = pod.object.unwrap();
    assert_eq!((pod.node.as_deref(), pod.host_network), (Some("n1"), true));
    let rule = "is not a DNS subdomain (at most 253 of a-z, 0-9, '-' and '.')";
    let expected = format!(r#"spec.nodeName: "N 1" {rule}"#);
    check_refused(&a_pod(r#""nodeName": "N 1""#, ""), &[&expected]);
}

#[test]
fn dns_policies() {
    for policy in ["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"] {
        let spec = format!(r#""dnsPolicy": "{policy}""#);
        check_dns(&spec, &format!("{policy}  None"));
    }
    check_refused(
        &a_pod(r#""dnsPolicy": "clusterfirst""#, ""),
        &[
            r#"spec.dnsPolicy: "clusterfirst" is not one of ClusterFirst, ClusterFirstWithHostNet, Default, None"#,
        ],
    );
}

#[test]
fn search_domains() {
    check_dns(
        r#""dnsConfig": {"searches": ["a.example", "b.example.", "_tcp.c_d", "."], "nameservers": ["192.0.2.1"]}"#,
        "ClusterFirst a.example,b.example,_tcp.c_d,. None",
    );
    let spec = |searches: &[String]| {
        let searches = serde_json::to_string(searches).unwrap();
        format!(r#""dnsConfig": {{"searches": {searches}}}"#)
    };
    for bad in [
        "",
        "A.example",
        "a b",
        "a..b",
        "..",
        "a\nb",
        &"a".repeat(254),
    ] {
        let converted = a_pod(&spec(&["ok".to_owned(), bad.to_owned()]), "");
        let fault = converted.faults[0].to_string();
        assert!(fault.starts_with("spec.dnsConfig.searches[1]: "), "{fault}");
        assert!(!fault.contains('\n'), "{fault:?}");
        assert_eq!((converted.object, converted.faults.len()), (None, 1));
    }
    let of = |count, length| vec!["a".repeat(length); count];
    assert_eq!(a_pod(&spec(&of(32, 63)), "").faults, []);
    for (too_many, count, length) in [(of(33, 1), 33, 65), (of(32, 64), 32, 2_079)] {
        let why = format!("{count} domains of {length} characters, the limits are 32 and 2048");
        let expected = format!("spec.dnsConfig.searches: {why}");
        check_refused(&a_pod(&spec(&too_many), ""), &[&expected]);
    }
}

#[test]
fn ndots() {
    for (options, expected) in [
        (r#"{"name": "ndots", "value": "2"}"#, "Some(2)"),
        (r#"{"name": "ndots", "value": "0"}"#, "Some(0)"),
        (r#"{"name": "ndots", "value": "16"}"#, "Some(15)"),
        (
            r#"{"name": "ndots", "value": "99999999999999999999999"}"#,
            "Some(15)",
        ),
        (
            r#"{"name": "ndots", "value": "1"}, {"name": "ndots", "value": "3"}, {"name": "edns0"}"#,
            "Some(3)",
        ),
        (
            r#"{"name": "ndots", "value": "1"}, {"name": "ndots"}"#,
            "None",
        ),
        (r#"{"name": "ndots", "value": "-1"}"#, "None"),
        (r#"{"name": "ndots", "value": "+1"}"#, "None"),
        (r#"{"name": "ndots", "value": ""}"#, "None"),
        (r#"{"name": "timeout", "value": "2"}, {}"#, "None"),
        ("", "None"),
    ] {
        let spec = format!(r#""dnsConfig": {{"options": [{options}]}}"#);
        check_dns(&spec, &format!("ClusterFirst  {expected}"));
    }
}

#[test]
fn namespaces() {
    let read = |name: &str| {
        let json =
            format!(r#"{{"metadata": {{"name": {name}}}, "status": {{"phase": "Terminating"}}}}"#);
        let api: Namespace = serde_json::from_str(&json).unwrap();
        api.convert(&mut Interner::default())
    };
    assert_eq!(
        &*read(r#""kube-system""#).object.unwrap().name,
        "kube-system"
    );
    check_refused(&read("null"), &["metadata.name: is required"]);
    let rule = "is not a DNS label (at most 63 of a-z, 0-9 and '-', no '-' at the ends)";
    let expected = format!(r#"metadata.name: "a.b" {rule}"#);
    check_refused(&read(r#""a.b""#), &[&expected]);
}
