use sluice_source::kind::Interner;

use super::*;
use crate::kinds::words;

/// The policy with this spec, and its faults.
fn convert(spec: &str) -> (plan::ClusterNetworkPolicy, Vec<String>) {
    let json = format!(r#"{{"metadata": {{"name": "p"}}, "spec": {spec}}}"#);
    let written: ClusterNetworkPolicy = serde_json::from_str(&json).expect("JSON");
    let converted = written.convert(&mut Interner::default());
    let policy = converted.object.expect("it has a name");
    (policy, words::faults(&converted.faults))
}

/// A policy with the only rule for this direction, as far as it was understood.
#[track_caller]
fn check_in(direction: Direction, rule: &str, expected: &str, expected_faults: &[&str]) {
    let spec = format!(
        r#"{{"tier": "Admin", "priority": 7, "subject": {{"namespaces": {{}}}}, "{direction}": [{rule}]}}"#
    );
    let (policy, faults) = convert(&spec);
    assert_eq!((policy.tier, policy.priority), (Tier::Admin, 7));
    assert_eq!(policy.subject.to_string(), "every namespace, every pod");
    let converted = &policy.rules(direction)[0];
    assert_eq!(faults, expected_faults, "{rule}");
    let found = format!("{:?} {}", converted.action, words::of(converted));
    assert_eq!(found, expected, "{rule}");
}

#[track_caller]
fn check(rule: &str, expected: &str, expected_faults: &[&str]) {
    check_in(Direction::Egress, rule, expected, expected_faults);
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
        r#"{"action": "Deny", "to": [{"namespaces": {}}], "protocols": [
            {"tcp": {"destinationPort": {"number": 80}}},
            {"udp": {"destinationPort": {"range": {"start": 5, "end": 9}}}}, {"sctp": {}},
            {"destinationNamedPort": "web"}]}"#,
        r#"Deny every namespace, every pod; tcp Range(80, 80) | udp Range(5, 9) | sctp Any | tcp Named("web") | udp Named("web") | sctp Named("web")"#,
        &[],
    );
}

/// What is in a rule that accepts, denies or passes, and why it is not understood.
#[track_caller]
fn closes(direction: Direction, part: &str, why: &str) {
    let place = format!("spec.{direction}[0]");
    check_in(
        direction,
        &format!(r#"{{"action": "Accept", {part}}}"#),
        "Accept ; all",
        &[&format!("{place}: {why}: this rule accepts nothing")],
    );
    for action in ["Deny", "Pass"] {
        check_in(
            direction,
            &format!(r#"{{"action": "{action}", {part}}}"#),
            "Deny all; all",
            &[&format!("{place}: {why}: this rule denies everything")],
        );
    }
}

/// "If it is not understood, it closes": the standard on unknown fields. An API server with the standard's definition refuses
/// the other ones.
#[test]
fn a_rule_that_is_not_understood_closes() {
    let one = "exactly one of namespaces, pods is required";
    let one_peer = "exactly one of namespaces, pods, networks is required";
    let one_port = "exactly one of tcp, udp, sctp, destinationNamedPort is required";
    for (part, why) in [
        (
            r#""to": [{"domainNames": ["example.org"]}]"#,
            r#"unknown field "domainNames""#,
        ),
        (r#""to": [{"nodes": {}}]"#, r#"unknown field "nodes""#),
        (r#""to": [{}]"#, one),
        (r#""to": [{"namespaces": {}, "pods": {}}]"#, one),
        (
            r#""to": [{"networks": ["x"]}]"#,
            r#""x" is not a prefix such as 10.0.0.0/8 or fd00::/8"#,
        ),
        (
            r#""to": [{"networks": ["10.0.0.1/8"]}]"#,
            r#""10.0.0.1/8" has bits beyond its prefix: write 10.0.0.0/8, or a longer prefix"#,
        ),
        (r#""to": [{"networks": []}]"#, one_peer),
        (
            r#""to": [{"networks": ["10.0.0.0/8"], "pods": {}}]"#,
            one_peer,
        ),
        (
            r#""to": [{"networks": ["10.0.0.0/8"]}], "protocols": [{"destinationNamedPort": "web"}]"#,
            "addresses of networks have no port for destinationNamedPort",
        ),
        (
            r#""to": [{"namespaces": {"matchExpressions": [{"key": "x", "operator": "Exists", "value": "y"}]}}]"#,
            r#"unknown field "value""#,
        ),
        (r#""to": []"#, "to is required"),
        (r#""ot": []"#, r#"unknown field "ot""#),
        (r#""from": [{"pods": {}}]"#, r#"unknown field "from""#),
        (
            r#""to": [{"pods": {}}], "protocols": [{"icmp": {}}]"#,
            r#"unknown field "icmp""#,
        ),
        (r#""to": [{"pods": {}}], "protocols": [{}]"#, one_port),
        (
            r#""to": [{"pods": {}}], "protocols": [{"tcp": {}, "udp": {}}]"#,
            one_port,
        ),
        (
            r#""to": [{"pods": {}}], "protocols": [{"tcp": {"destinationPort": {}}}]"#,
            "one of number, range is required",
        ),
    ] {
        closes(Direction::Egress, part, why);
    }
    for (part, why) in [
        (
            r#""from": [{"networks": ["10.0.0.0/8"]}]"#,
            r#"unknown field "networks""#,
        ),
        (
            r#""from": [{"pods": {}}], "to": [{"pods": {}}]"#,
            r#"unknown field "to""#,
        ),
    ] {
        closes(Direction::Ingress, part, why);
    }
}

#[test]
fn a_rule_of_unknown_action_or_type_denies() {
    check(
        r#"{"action": "Allow", "to": [{"networks": ["10.0.0.0/8"]}]}"#,
        "Deny 10.0.0.0/8; all",
        &[r#"spec.egress[0].action: "Allow" is not one of Accept, Deny, Pass: this rule denies"#],
    );
    check(
        r#"{"action": "Accept", "to": {}}"#,
        "Deny all; all",
        &["spec.egress[0]: invalid type: map, expected a sequence: this rule denies everything"],
    );
    let (policy, faults) = convert(
        r#"{"tier": "Admin", "priority": 7, "subject": {"namespaces": {}}, "ingress": "none"}"#,
    );
    assert_eq!(words::of(&policy.ingress[0]), "all; all");
    assert_eq!(policy.ingress[0].action, Action::Deny);
    let why = r#"spec.ingress: invalid type: string "none", expected a sequence: the policy denies everything"#;
    assert_eq!(faults, [why]);
}

/// A policy that may be about any pod denies what it denies to all of them, and accepts nothing.
#[test]
fn a_policy_about_unknown_pods_denies() {
    let rules = r#"[{"action": "Accept", "from": [{"pods": {}}]}, {"action": "Pass", "from": [{"pods": {}}]},
        {"action": "Deny", "from": [{"namespaces": {"matchLabels": {"n": "1"}}}]}]"#;
    let good = r#""subject": {"namespaces": {"matchLabels": {"a": "1"}}}"#;
    let only = "of this policy only the rules that deny count";
    for (fields, subject, why) in [
        (
            r#""tier": "Admin", "priority": 7, "subject": {"nodes": {}}"#.to_owned(),
            "every namespace, every pod",
            r#"spec.subject: unknown field "nodes""#,
        ),
        (
            r#""tier": "Admin", "priority": 7, "subject": []"#.to_owned(),
            "every namespace, every pod",
            "spec.subject: invalid type: sequence, expected a mapping",
        ),
        (
            r#""tier": "Admin", "priority": 7, "subject": {"pods": {"namespaceSelector": {"matchLabels": {"a": "1"}},
                "podSelector": {"labels": {}}}}"#
                .to_owned(),
            "namespaces a=1, every pod",
            r#"spec.subject: unknown field "labels""#,
        ),
        (
            format!(r#""tier": "First", "priority": 7, {good}"#),
            "namespaces a=1, every pod",
            r#"spec.tier: "First" is not one of Admin, Baseline"#,
        ),
        (
            format!(r#""tier": "Admin", "priority": "7", {good}"#),
            "namespaces a=1, every pod",
            r#"spec.priority: invalid type: string "7", expected i64"#,
        ),
        (
            format!(r#""tier": "Admin", "priority": 7, "until": 1, {good}"#),
            "namespaces a=1, every pod",
            r#"spec: unknown field "until""#,
        ),
    ] {
        let (policy, faults) = convert(&format!(r#"{{{fields}, "ingress": {rules}}}"#));
        assert_eq!(faults, [format!("{why}: {only}")]);
        assert_eq!(policy.subject.to_string(), subject);
        let rules = policy.ingress.iter();
        let rules: Vec<String> = rules
            .map(|it| format!("{:?} {}", it.action, words::of(it)))
            .collect();
        assert_eq!(
            rules,
            [
                "Accept ; all",
                "Accept ; all",
                "Deny namespaces n=1, every pod; all"
            ]
        );
    }
    let (policy, faults) = convert(r#""all""#);
    assert_eq!(policy.tier, Tier::Admin);
    assert_eq!(policy.subject.to_string(), "every namespace, every pod");
    assert_eq!(words::of(&policy.egress[0]), "all; all");
    assert_eq!(faults.len(), 1);
}
