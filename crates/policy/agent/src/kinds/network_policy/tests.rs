use sluice_policy_plan::Connections;
use sluice_source::kind::Interner;

use super::*;
use crate::kinds::words;

/// A policy in the namespace a, converted from the JSON of a spec, and its faults.
fn convert(spec: &str) -> (plan::NetworkPolicy, Vec<String>) {
    let json = format!(r#"{{"metadata": {{"name": "p", "namespace": "a"}}, "spec": {spec}}}"#);
    let written: NetworkPolicy = serde_json::from_str(&json).expect("JSON");
    let converted = written.convert(&mut Interner::default());
    let policy = converted.object.expect("it has a name");
    (policy, words::faults(&converted.faults))
}

#[track_caller]
fn types_are(spec: &str, expected: (bool, bool)) {
    let (policy, faults) = convert(spec);
    assert_eq!(faults, Vec::<String>::new(), "{spec}");
    let found = (policy.ingress.is_some(), policy.egress.is_some());
    assert_eq!(found, expected, "{spec}");
}

/// The peers and ports of the only rule for ingress, in words.
#[track_caller]
fn rule_is(rule: &str, expected: &str, expected_faults: &[&str]) {
    let spec = format!(r#"{{"podSelector": {{}}, "ingress": [{rule}]}}"#);
    let (policy, faults) = convert(&spec);
    assert_eq!(faults, expected_faults, "{rule}");
    let rule = &policy.ingress.expect("it is about ingress")[0];
    assert_eq!(words::of(rule), expected);
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

/// It is there, so pods that it may be about must not be open: not even after a restart, when nobody knows its last good
/// version.
#[test]
fn a_policy_that_is_not_understood_isolates() {
    let all = "the policy isolates all pods of its namespace and allows nothing";
    let some = "the policy isolates its pods and allows nothing";
    for (spec, pods, faults) in [
        (
            r#"{"podSelector": {"matchExpressions": [{"key": "x", "operator": "Is"}]}, "ingress": [{}]}"#,
            "",
            format!(
                r#"spec.podSelector: x Is (): "Is" is not one of In, NotIn, Exists, DoesNotExist: {all}"#
            ),
        ),
        (
            r#"{"podSelector": {"matchExpressions": [{"key": "x", "operator": "Exists", "value": "1"}]}}"#,
            "",
            format!(r#"spec.podSelector: unknown field "value": {all}"#),
        ),
        (
            r#"{"podSelector": {"matchLabels": {"x": 1}}}"#,
            "",
            format!("spec.podSelector: invalid type: integer `1`, expected a string: {all}"),
        ),
        (
            r#"{"podSelectr": {"matchLabels": {"x": "1"}}, "ingress": [{}]}"#,
            "",
            format!(r#"spec: unknown field "podSelectr": {all}"#),
        ),
        (
            r#"{"podSelector": {"matchLabels": {"x": "1"}}, "egres": [{}]}"#,
            "x=1",
            format!(r#"spec: unknown field "egres": {some}"#),
        ),
        (
            r#"{"podSelector": {"matchLabels": {"x": "1"}}, "policyTypes": ["ingress"]}"#,
            "x=1",
            format!(r#"spec.policyTypes: "ingress" is not one of Ingress, Egress: {some}"#),
        ),
        (
            r#"{"podSelector": {"matchLabels": {"x": "1"}}, "policyTypes": "Ingress"}"#,
            "x=1",
            format!(
                r#"spec.policyTypes: invalid type: string "Ingress", expected a sequence: {some}"#
            ),
        ),
        (
            "[{}]",
            "",
            format!("spec: invalid type: sequence, expected a mapping: {all}"),
        ),
    ] {
        let (policy, found) = convert(spec);
        assert_eq!(found, [faults], "{spec}");
        assert_eq!(policy.pods.to_string(), pods, "{spec}");
        let none = Some(Vec::new());
        assert_eq!((policy.ingress, policy.egress), (none.clone(), none));
    }
}

/// Only the part that has another type is closed.
#[test]
fn rules_of_another_type_allow_nothing() {
    let (policy, faults) = convert(r#"{"egress": {}, "ingress": [7, {}]}"#);
    assert_eq!(policy.egress, Some(Vec::new()));
    let ingress: Vec<String> = policy.ingress.iter().flatten().map(words::of).collect();
    assert_eq!(ingress, ["; all", "all; all"]);
    assert_eq!(
        faults,
        [
            "spec.ingress[0]: invalid type: integer `7`, expected a mapping: this rule allows nothing",
            "spec.egress: invalid type: map, expected a sequence: these rules allow nothing",
        ]
    );
}

/// Only the word keeps a policy from being enforced, and it does so for a policy that cannot be read, too.
#[test]
fn the_mode_is_an_annotation() {
    for (annotations, mode, faults) in [
        ("null", Mode::Enforce, &[][..]),
        (
            r#"{"sluice.dev/policy-mode": "enforce"}"#,
            Mode::Enforce,
            &[],
        ),
        (r#"{"sluice.dev/policy-mode": "audit"}"#, Mode::Audit, &[]),
        (
            r#"{"sluice.dev/policy-mode": "Audit"}"#,
            Mode::Enforce,
            &[
                "metadata.annotations[sluice.dev/policy-mode]: \"Audit\" is not one of enforce, audit: the policy is enforced",
            ],
        ),
    ] {
        let json = format!(
            r#"{{"metadata": {{"name": "p", "labels": {{"x": "1"}}, "annotations": {annotations}}}, "spec": {{}}}}"#
        );
        let written: NetworkPolicy = serde_json::from_str(&json).expect("JSON");
        let converted = written.convert(&mut Interner::default());
        assert_eq!(words::faults(&converted.faults), faults, "{annotations}");
        let found = converted.object.expect("it has a name").mode;
        assert_eq!(found, mode, "{annotations}");
    }
}

#[test]
fn open_connections_are_an_annotation() {
    for (word, connections, faults) in [
        ("keep", Some(Connections::Keep), &[][..]),
        ("cut", Some(Connections::Cut), &[]),
        (
            "close",
            None,
            &[
                "metadata.annotations[sluice.dev/policy-connections]: \"close\" is not one of keep, cut: ignored",
            ],
        ),
    ] {
        let json = format!(
            r#"{{"metadata": {{"name": "p", "annotations": {{"sluice.dev/policy-connections": "{word}"}}}}}}"#
        );
        let written: NetworkPolicy = serde_json::from_str(&json).expect("JSON");
        let converted = written.convert(&mut Interner::default());
        assert_eq!(words::faults(&converted.faults), faults, "{word}");
        let found = converted.object.expect("it has a name").connections;
        assert_eq!(found, connections, "{word}");
    }
}
