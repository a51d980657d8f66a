//! Network policies between the lab's pods.

use std::process::Command;

use serde_json::Value;

use crate::lab::{Lab, SLUICE, text};

const PODS: &str = "
apiVersion: v1
kind: Pod
metadata: {name: server, labels: {app: server}}
spec: {containers: [{name: c, image: any, ports: [{containerPort: 8080}]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: friend, labels: {app: friend}}
spec: {containers: [{name: c, image: any}]}
---
apiVersion: v1
kind: Pod
metadata: {name: stranger, labels: {app: stranger}}
spec: {containers: [{name: c, image: any}]}
---
apiVersion: v1
kind: Service
metadata: {name: api}
spec: {selector: {app: server}, ports: [{port: 80, targetPort: 8080}]}
";

const POLICY: &str = "
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: server}
spec:
  podSelector: {matchLabels: {app: server}}
  ingress: [{from: [{podSelector: {matchLabels: {app: friend}}}], ports: [{port: 8080}]}]
";

#[test]
fn a_policy_has_its_effect() {
    let Some(lab) = Lab::up(&["--nodes", "2"]) else {
        return;
    };
    let applied = lab.apply(PODS);
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    let reaches = |pod: &str| {
        let output = lab.run(&["probe", pod, "svc/api", "-n", "1"]);
        output.status.success()
    };
    let wait = |pod: &str, is_allowed: bool| {
        lab.until(&format!("{pod} reaches api: {is_allowed}"), || {
            (reaches(pod) == is_allowed).then_some(())
        });
    };
    wait("friend", true);
    wait("stranger", true);
    let applied = lab.apply(POLICY);
    assert!(applied.status.success());
    // Somebody acts upon it.
    assert!(
        !text(&applied.stderr).contains("not acted upon"),
        "{applied:?}"
    );
    let mut command = Command::new(SLUICE);
    command.args(["policy", "wait", "server", "-o=json"]);
    let output = command.arg(format!("--lab={}", lab.name)).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let answers: Value = serde_json::from_slice(&output.stdout).unwrap();
    let answers = answers.as_array().unwrap();
    let nodes: Vec<&str> = answers
        .iter()
        .map(|it| it["agent"].as_str().unwrap())
        .collect();
    assert_eq!(nodes, ["node-a", "node-b"]);
    wait("stranger", false);
    wait("friend", true);
    // The pod's users are told.
    lab.until("an Event", || {
        let events = lab.run(&["get", "events", "-o", "yaml"]);
        let events = text(&events.stdout);
        let words = [
            "NetworkPolicyDropped",
            "isolated by NetworkPolicy default/server",
        ];
        words.iter().all(|it| events.contains(it)).then_some(())
    });
    // The doctor names it.
    let node = lab.json(&["pod", "server"])["spec"]["nodeName"].clone();
    let doctor = |from: &str| {
        let words = ["doctor", "default/api", "--from", from];
        let on_node = ["exec", node.as_str().unwrap(), "--", "sluice"];
        text(&lab.run(&[&on_node[..], &words].concat()).stdout)
    };
    let found = doctor("default/stranger");
    let line = found.lines().find(|it| it.starts_with("  FAIL  policy"));
    assert!(
        line.is_some_and(|it| it.contains("default/server") && it.contains("1 of 1 endpoints")),
        "{found}"
    );
    assert_eq!(found.matches("  policy  ").count(), 1, "{found}");
    let found = doctor("default/friend");
    assert!(!found.contains("policy  "), "{found}");
    lab.good(&["delete", "networkpolicy", "server"]);
    wait("stranger", true);
}
