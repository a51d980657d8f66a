use sluice_source::kind::{Fault, Interner};

use super::*;

/// The only rule of a policy for egress, in words, and the faults.
fn convert(rule: &str) -> (String, Vec<String>) {
    let json = format!(
        r#"{{"metadata": {{"name": "p"}}, "spec": {{"tier": "Admin", "priority": 7,
            "subject": {{"namespaces": {{}}}}, "egress": [{rule}]}}}}"#
    );
    let written: ClusterNetworkPolicy =
        serde_json::from_str(&json).expect("JSON of the right types");
    let converted = written.convert(&mut Interner::default());
    let faults = converted.faults.iter().map(Fault::to_string).collect();
    let Some(policy) = converted.object else {
        return ("refused".to_owned(), faults);
    };
    assert_eq!((policy.tier, policy.priority), (Tier::Admin, 7));
    assert_eq!(policy.subject.to_string(), "every namespace, every pod");
    let rule = &policy.egress[0];
    let peer = |it: &Peer| match it {
        Peer::Pods(pods) => pods.to_string(),
        Peer::Block(block) => block.cidr.to_string(),
    };
    let port = |it: &plan::Port| format!("{} {:?}", it.protocol, it.number);
    let all =
        |list: Option<Vec<String>>| list.map_or_else(|| "all".to_owned(), |it| it.join(" | "));
    let peers = all(rule.peers.as_ref().map(|it| it.iter().map(peer).collect()));
    let ports = all(rule.ports.as_ref().map(|it| it.iter().map(port).collect()));
    (format!("{:?} {peers}; {ports}", rule.action), faults)
}

#[track_caller]
fn check(rule: &str, expected: &str, expected_faults: &[&str]) {
    let (found, faults) = convert(rule);
    assert_eq!(faults, expected_faults, "{rule}");
    assert_eq!(found, expected, "{rule}");
}

#[test]
fn rules() {
    check(
        r#"{"name": "one", "action": "Pass", "to": [{"namespaces": {"matchLabels": {"n": "1"}}},
            {"pods": {"namespaceSelector": {}, "podSelector": {"matchLabels": {"x": "1"}}}},
            {"networks": ["10.0.0.0/8", "fd00::/8"]}]}"#,
        "Pass namespaces n=1, every pod | every namespace, pods x=1 | 10.0.0.0/8 | fd00::/8; all",
        &[],
    );
    check(
        r#"{"action": "Deny", "to": [{"networks": ["0.0.0.0/0"]}], "protocols": [
            {"tcp": {"destinationPort": {"number": 80}}},
            {"udp": {"destinationPort": {"range": {"start": 5, "end": 9}}}}, {"sctp": {}},
            {"destinationNamedPort": "web"}]}"#,
        r#"Deny 0.0.0.0/0; tcp Range(80, 80) | udp Range(5, 9) | sctp Any | tcp Named("web") | udp Named("web") | sctp Named("web")"#,
        &[],
    );
}

/// "If it is not understood, it closes": the standard on unknown fields.
#[test]
fn a_rule_that_is_not_understood_closes() {
    for (part, why) in [
        (
            r#""to": [{"domainNames": ["example.org"]}]"#,
            r#"unknown field "domainNames""#,
        ),
        (r#""to": [{"nodes": {}}]"#, r#"unknown field "nodes""#),
        (r#""to": [{}]"#, "one of namespaces, pods is required"),
        (
            r#""to": [{"networks": ["x"]}]"#,
            r#""x" is not a prefix such as 10.0.0.0/8 or fd00::/8"#,
        ),
        (r#""ot": []"#, r#"unknown field "ot""#),
        (
            r#""to": [], "protocols": [{"icmp": {}}]"#,
            r#"unknown field "icmp""#,
        ),
        (
            r#""to": [], "protocols": [{"tcp": {"destinationPort": {}}}]"#,
            "one of number, range is required",
        ),
    ] {
        let fault = format!("spec.egress[0]: {why}: this rule accepts nothing");
        check(
            &format!(r#"{{"action": "Accept", {part}}}"#),
            "Accept ; all",
            &[&fault],
        );
        for action in ["Deny", "Pass"] {
            let fault = format!("spec.egress[0]: {why}: this rule denies everything");
            check(
                &format!(r#"{{"action": "{action}", {part}}}"#),
                "Deny all; all",
                &[&fault],
            );
        }
    }
    check(
        r#"{"action": "Allow", "to": []}"#,
        "refused",
        &[r#"spec.egress[0].action: "Allow" is not one of Accept, Deny, Pass"#],
    );
}
