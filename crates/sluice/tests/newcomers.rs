//! Manifests as newcomers write them: each that is of no use gets a word that says what to write
//! instead, in the agent's log, in `status` and from `render --strict`. Needs root.

use std::fs;
use std::process::Command;

use sluice_lab::{Netns, eventually, require_netns};

use crate::common::{Agent, Files, SLUICE, WITHIN};

/// A Service with a port, and a slice for it.
const GOOD: &str = "
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  clusterIP: 10.96.0.1
  ports: [{name: http, port: 80}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [10.0.0.1]}]
";

/// What replaces a line of [`GOOD`], and the word about it.
const MISTAKES: [(&str, &str, &str); 14] = [
    (
        "ports: [{name: http, port: 8080}]",
        "ports: [{name: web, port: 8080}]",
        "Service default/web: port http/TCP has no endpoint: EndpointSlice default/web-1 has only \
         port web/TCP: give both the same name and protocol",
    ),
    (
        "ports: [{name: http, port: 8080}]",
        "ports: [{port: 8080, protocol: UDP}]",
        "Service default/web: port http/TCP has no endpoint: EndpointSlice default/web-1 has only \
         port \"\"/UDP: give both the same name and protocol",
    ),
    (
        "ports: [{name: http, port: 8080}]",
        "ports: [{name: http}]",
        "m.yaml:13: EndpointSlice default/web-1: ports[0].port: is missing, and a proxy ignores \
         such a port: write its number",
    ),
    (
        "spec:",
        "spec:\n  type: NodePort",
        "m.yaml:8: Service default/web: spec.ports[0].nodePort: is not set and nothing here \
         allocates one: write a port that is free on every node, such as one of 30000-32767",
    ),
    (
        "  clusterIP: 10.96.0.1",
        "  sessionAffinity: None",
        "m.yaml:5: Service default/web: spec.clusterIP: is not set and nothing here allocates one, \
         so the Service is not served: write an address, or None for a headless Service",
    ),
    (
        "  clusterIP: 10.96.0.1",
        "  clusterIp: 10.96.0.1",
        "m.yaml:6: Service default/web: spec.clusterIp: is no field of the API and is ignored: \
         write clusterIP",
    ),
    (
        "ports: [{name: http, port: 80}]",
        "ports: [{name: http, port: 80, nodeport: 30080}]",
        "m.yaml:7: Service default/web: spec.ports[0].nodeport: is no field of the API and is \
         ignored: write nodePort",
    ),
    (
        "  clusterIP: 10.96.0.1",
        "  clusterIP: 10.96.0.1\n  nodePort: 30080",
        "m.yaml:7: Service default/web: spec.nodePort: is no field of the API and is ignored: \
         nodePort belongs in spec.ports[]",
    ),
    (
        "  clusterIP: 10.96.0.1",
        "  {clusterIP: 10.96.0.1, externalIps: [192.0.2.1], ports: [{name: http, port: 80}]}\nx:",
        "m.yaml:6: Service default/web: spec.externalIps: is no field of the API and is ignored: \
         write externalIPs",
    ),
    (
        "  clusterIP: 10.96.0.1",
        "  clusterIP: 10.96.0.1\n  type: LoadBalancer\n  loadBalancerIP: 203.0.113.1",
        "m.yaml:8: Service default/web: spec.loadBalancerIP: asks a load balancer for an address, \
         and there is none here: write the address as ip in status.loadBalancer.ingress",
    ),
    (
        "labels: {kubernetes.io/service-name: web}",
        "labels: {app: web}",
        "m.yaml:11: EndpointSlice default/web-1: metadata.labels: the label \
         kubernetes.io/service-name is missing, so no Service has these endpoints: write the name \
         of the Service",
    ),
    (
        "labels: {kubernetes.io/service-name: web}",
        "labels: {kubernetes.io/service-name: wbe}",
        "m.yaml:9: EndpointSlice default/web-1: no file has a Service default/wbe that can be \
         read, so nobody reaches these endpoints: write the Service, or the name of another one",
    ),
    (
        "kind: Service",
        "kind: service",
        "m.yaml:3: kind: \"service\" is no kind: write Service",
    ),
    (
        "kind: EndpointSlice",
        "kind: Endpointslice",
        "m.yaml:10: kind: \"Endpointslice\" is no kind: write EndpointSlice",
    ),
];

fn mistaken(good: &str, bad: &str) -> String {
    assert!(GOOD.contains(good), "{good}");
    GOOD.replacen(good, bad, 1)
}

/// Exit code, stdout and stderr of `render --strict`.
fn render(files: &Files) -> (Option<i32>, String, String) {
    let mut command = Command::new(SLUICE);
    command.args([
        "render",
        "--strict",
        "--hostname-override=node-a",
        "--manifests",
    ]);
    let output = command
        .arg(files.manifests())
        .output()
        .expect("it was built");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

/// A Node, so that nothing is left to say.
const NODE: &str = "
apiVersion: v1
kind: Node
metadata: {name: node-a}
status: {addresses: [{type: InternalIP, address: 192.168.0.1}]}
";

#[test]
fn render_says_what_to_write_instead() {
    let files = Files::new();
    files.write("node.yaml", NODE);
    files.write("m.yaml", GOOD);
    let (code, rules, problems) = render(&files);
    assert_eq!((code, &*problems), (Some(0), ""));
    assert!(rules.contains("10.0.0.1 . 8080"), "{rules}");
    for (good, bad, word) in MISTAKES {
        files.write("m.yaml", &mistaken(good, bad));
        let (code, _, problems) = render(&files);
        assert_eq!(code, Some(1), "{bad}: {problems}");
        let said = problems.lines().any(|it| it.ends_with(word));
        assert!(said, "{bad}\n{problems}\nlacks\n{word}");
    }
}

/// Kinds that a proxy does not need are no problem.
#[test]
fn manifests_of_other_kinds_are_no_problem() {
    let files = Files::new();
    files.write("node.yaml", NODE);
    let others = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {replica: 1}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: web}
dta: {}
";
    files.write("m.yaml", &format!("{GOOD}---{others}"));
    assert_eq!(render(&files).0, Some(0));
}

/// A slice as people write it, without the fields that the API server sets, and Endpoints.
#[test]
fn short_slices_and_endpoints_are_served() {
    let files = Files::new();
    files.write("node.yaml", NODE);
    let short = GOOD.replace("name: http, ", "");
    let (service, _) = short.split_once("---").expect("two documents");
    let endpoints = "
apiVersion: v1
kind: Endpoints
metadata: {name: web}
subsets:
- addresses: [{ip: 10.0.0.1}]
  notReadyAddresses: [{ip: 10.0.0.2}]
  ports: [{port: 8080}]
";
    for text in [short.clone(), format!("{service}---{endpoints}")] {
        files.write("m.yaml", &text);
        let (code, rules, problems) = render(&files);
        assert_eq!((code, &*problems), (Some(0), ""), "{text}");
        assert!(rules.contains("10.0.0.1 . 8080"), "{rules}");
        assert!(!rules.contains("10.0.0.2"), "{rules}");
    }
    files.write("m.yaml", &format!("{short}---{endpoints}"));
    let (code, rules, problems) = render(&files);
    assert_eq!(code, Some(1));
    assert!(rules.contains("10.0.0.1 . 8080"), "{rules}");
    let expected = "m.yaml:16: Endpoints default/web: the Service has EndpointSlices in these \
                    files, which count: this object is ignored: remove it, or them";
    assert!(problems.contains(expected), "{problems}");
}

#[test]
fn agent_logs_and_status_shows_the_same() {
    require_netns!();
    let netns = Netns::new("node").expect("permitted");
    let files = Files::new();
    files.write("node.yaml", NODE);
    files.write("m.yaml", GOOD);
    let log = files.0.path().join("log");
    let file = fs::File::create(&log).expect("writable");
    let mut proxy = files.proxy(&netns);
    proxy.stderr(file);
    let _agent = Agent::run(&files, proxy);
    files.await_status("one endpoint", |it| it.synced && it.endpoints == 1);
    for (good, bad, word) in MISTAKES {
        files.write("m.yaml", &mistaken(good, bad));
        let mut shown = String::new();
        let said = eventually(WITHIN, || {
            let mut status = Command::new(SLUICE);
            let status = status.args(["status", "--socket"]).arg(files.socket());
            let output = status.output().expect("it was built");
            shown = String::from_utf8(output.stdout).expect("text");
            let logged = fs::read_to_string(&log).expect("the agent's log");
            (shown.contains(word) && logged.contains(word)).then_some(())
        });
        let logged = fs::read_to_string(&log).expect("the agent's log");
        assert!(said.is_some(), "{word}\n{shown}\n{logged}");
    }
    files.write("m.yaml", GOOD);
    files.await_status("served again", |it| {
        it.synced && it.endpoints == 1 && it.problems.is_empty() && it.issues.is_empty()
    });
}
