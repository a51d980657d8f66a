use sluice_source::kind::{Fault, Interner};

use super::*;

/// The rules of a policy in the namespace a, and its faults. Converted from the JSON of a spec.
fn convert(spec: &str) -> (Option<plan::NetworkPolicy>, Vec<String>) {
    let json = format!(r#"{{"metadata": {{"name": "p", "namespace": "a"}}, "spec": {spec}}}"#);
    let written: NetworkPolicy = serde_json::from_str(&json).expect("JSON of the right types");
    let converted = written.convert(&mut Interner::default());
    let faults = converted.faults.iter().map(Fault::to_string).collect();
    (converted.object, faults)
}

#[track_caller]
fn types_are(spec: &str, expected: (bool, bool)) {
    let (policy, faults) = convert(spec);
    assert_eq!(faults, Vec::<String>::new(), "{spec}");
    let policy = policy.expect("it is not refused");
    let found = (policy.ingress.is_some(), policy.egress.is_some());
    assert_eq!(found, expected, "{spec}");
}

/// The peers and ports of the only rule for ingress, in words.
#[track_caller]
fn rule_is(rule: &str, expected: &str, expected_faults: &[&str]) {
    let spec = format!(r#"{{"podSelector": {{}}, "ingress": [{rule}]}}"#);
    let (policy, faults) = convert(&spec);
    assert_eq!(faults, expected_faults, "{rule}");
    let policy = policy.expect("it is not refused");
    let rule = &policy.ingress.expect("it is about ingress")[0];
    let peer = |it: &Peer| match it {
        Peer::Pods(pods) => pods.to_string(),
        Peer::Block(block) => {
            let except: Vec<String> = block.except.iter().map(ToString::to_string).collect();
            format!("{} but {}", block.cidr, except.join(" "))
        }
    };
    let port = |it: &plan::Port| format!("{} {:?}", it.protocol, it.number);
    let all =
        |list: Option<Vec<String>>| list.map_or_else(|| "all".to_owned(), |it| it.join(" | "));
    let peers = all(rule.peers.as_ref().map(|it| it.iter().map(peer).collect()));
    let ports = all(rule.ports.as_ref().map(|it| it.iter().map(port).collect()));
    assert_eq!(format!("{peers}; {ports}"), expected);
}

#[test]
fn types_follow_from_the_rules() {
    types_are("{}", (true, false));
    types_are(r#"{"egress": []}"#, (true, false));
    types_are(r#"{"egress": [{}]}"#, (true, true));
    types_are(r#"{"policyTypes": ["Egress"]}"#, (false, true));
    types_are(
        r#"{"policyTypes": ["Ingress"], "egress": [{}]}"#,
        (true, false),
    );
    types_are(r#"{"policyTypes": ["Ingress", "Egress"]}"#, (true, true));
}

#[test]
fn peers() {
    rule_is("{}", "all; all", &[]);
    rule_is(r#"{"from": [], "ports": null}"#, "all; all", &[]);
    rule_is(
        r#"{"from": [{"podSelector": {"matchLabels": {"x": "1"}}}, {"namespaceSelector": {}}]}"#,
        "namespace a, pods x=1 | every namespace, every pod; all",
        &[],
    );
    rule_is(
        r#"{"from": [{"podSelector": {"matchExpressions": [{"key": "x", "operator": "Exists"}]},
                      "namespaceSelector": {"matchLabels": {"n": "1"}}}]}"#,
        "namespaces n=1, pods x; all",
        &[],
    );
    rule_is(
        r#"{"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}]}"#,
        "10.0.0.0/8 but 10.1.0.0/16; all",
        &[],
    );
}

#[test]
fn a_peer_that_is_not_understood_allows_nothing() {
    for (peer, why) in [
        (
            "{}",
            "one of podSelector, namespaceSelector, ipBlock is required",
        ),
        (r#"{"podSelectr": {}}"#, r#"unknown field "podSelectr""#),
        (
            r#"{"podSelector": {"labels": {}}}"#,
            r#"unknown field "labels""#,
        ),
        (
            r#"{"ipBlock": {"cidr": "10.0.0.0"}}"#,
            r#""10.0.0.0" is not a prefix such as 10.0.0.0/8 or fd00::/8"#,
        ),
        (
            r#"{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16"]}}"#,
            r#"except "11.0.0.0/16" is not a part of 10.0.0.0/8"#,
        ),
        (
            r#"{"ipBlock": {"cidr": "10.0.0.0/8"}, "podSelector": {}}"#,
            "ipBlock stands alone, without podSelector and namespaceSelector",
        ),
    ] {
        let fault = format!("spec.ingress[0].from[0]: {why}: it allows nothing");
        rule_is(&format!(r#"{{"from": [{peer}]}}"#), "; all", &[&fault]);
    }
    rule_is(
        r#"{"form": [{"podSelector": {}}]}"#,
        "; all",
        &[r#"spec.ingress[0]: unknown field "form": this rule allows nothing"#],
    );
    rule_is(
        r#"{"to": [{"podSelector": {}}]}"#,
        "; all",
        &[r#"spec.ingress[0]: unknown field "to": this rule allows nothing"#],
    );
}

#[test]
fn ports() {
    rule_is(
        r#"{"ports": [{}, {"port": 80}, {"port": "http", "protocol": "UDP"},
                      {"port": 80, "endPort": 90, "protocol": "SCTP"}]}"#,
        r#"all; tcp Any | tcp Range(80, 80) | udp Named("http") | sctp Range(80, 90)"#,
        &[],
    );
    for (port, why) in [
        (r#"{"port": 0}"#, "is not in 1..=65535"),
        (r#"{"port": 70000}"#, "is not in 1..=65535"),
        (
            r#"{"port": "http", "endPort": 90}"#,
            "endPort needs a port that is a number",
        ),
        (
            r#"{"endPort": 90}"#,
            "endPort needs a port that is a number",
        ),
        (
            r#"{"port": 90, "endPort": 80}"#,
            "endPort 80 is before port 90",
        ),
        (
            r#"{"protocol": "ICMP"}"#,
            r#""ICMP" is not one of TCP, UDP, SCTP"#,
        ),
        (r#"{"prot": "TCP"}"#, r#"unknown field "prot""#),
    ] {
        let fault = format!("spec.ingress[0].ports[0]: {why}: it allows nothing");
        rule_is(&format!(r#"{{"ports": [{port}]}}"#), "all; ", &[&fault]);
    }
}

#[test]
fn a_policy_whose_pods_are_not_understood_is_refused() {
    let (policy, faults) =
        convert(r#"{"podSelector": {"matchExpressions": [{"key": "x", "operator": "Is"}]}}"#);
    assert!(policy.is_none());
    assert_eq!(
        faults,
        [r#"spec.podSelector: x Is (): "Is" is not one of In, NotIn, Exists, DoesNotExist"#]
    );
    let (policy, faults) = convert(r#"{"policyTypes": ["ingress"]}"#);
    assert!(policy.is_none());
    assert_eq!(
        faults,
        [r#"spec.policyTypes[0]: "ingress" is not one of Ingress, Egress"#]
    );
}
