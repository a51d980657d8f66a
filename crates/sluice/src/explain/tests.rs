use std::ffi::OsString;
use std::fs;

use tempfile::TempDir;

use crate::cli::{self, Command};
use crate::view::View;

/// A Service with all kinds of frontends, endpoints on this node and another, and policies that tell
/// clients apart.
const MANY_WAYS: &str = r#"
apiVersion: v1
kind: Node
metadata: {name: node-a}
status: {addresses: [{type: InternalIP, address: 192.168.0.10}, {type: ExternalIP, address: 203.0.113.10}]}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec:
  type: LoadBalancer
  externalTrafficPolicy: Local
  loadBalancerSourceRanges: [198.51.100.0/24]
  clusterIP: 10.96.0.10
  clusterIPs: [10.96.0.10]
  ipFamilies: [IPv4]
  externalIPs: [203.0.113.77]
  ports: [{name: http, port: 80, nodePort: 30080}]
status: {loadBalancer: {ingress: [{ip: 203.0.113.1}]}}
---
apiVersion: v1
kind: Service
metadata: {name: open, namespace: default}
spec:
  type: NodePort
  clusterIP: 10.96.0.11
  clusterIPs: [10.96.0.11]
  ipFamilies: [IPv4]
  sessionAffinity: ClientIP
  ports: [{name: http, port: 80, nodePort: 30081}]
---
apiVersion: v1
kind: Service
metadata: {name: empty, namespace: default}
spec:
  clusterIP: 10.96.0.12
  clusterIPs: [10.96.0.12]
  ipFamilies: [IPv4]
  ports: [{port: 80}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: default, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [10.244.0.5], nodeName: node-a}, {addresses: [10.244.1.5], nodeName: node-b}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: open-1, namespace: default, labels: {kubernetes.io/service-name: open}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [10.244.0.6], nodeName: node-a}, {addresses: [10.244.1.6], nodeName: node-b}]
"#;

const MODES: [&str; 4] = ["nftables", "iptables", "ipvs", "ebpf"];

fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary directory");
    fs::write(folder.path().join("all.yaml"), MANY_WAYS).expect("writable");
    folder
}

/// The plan of node-a in each mode.
fn views(folder: &TempDir, more: &[&str]) -> [View; 4] {
    let folder = folder.path().to_str().expect("a temporary path is text");
    MODES.map(|mode| {
        let args = ["sluice", "explain", "FROM", "TO", "--manifests", folder];
        let node = ["--hostname-override=node-a", "--cluster-cidr=10.244.0.0/16"];
        let args = [&args[..], &node, &["--proxy-mode", mode], more].concat();
        let Command::Explain(args) = cli::parse(args.into_iter().map(OsString::from)) else {
            panic!("another command");
        };
        View::of(&args.node, &args.socket).expect("a plan")
    })
}

/// The explanation of a packet in each mode.
fn explained(views: &[View; 4], from: &str, to: &str) -> [String; 4] {
    let explain = |it: &View| it.explain(from, to, None).expect("an answer").to_string();
    views.each_ref().map(explain)
}

#[test]
fn explain_answers_alike_in_all_modes() {
    let folder = folder();
    let clients = [
        "node",
        "10.244.0.5",
        "10.244.1.9",
        "198.51.100.7",
        "192.0.2.7",
    ];
    let dialled = [
        ("10.96.0.10:80", "default/web:http"),
        ("203.0.113.1:80", "default/web:http"),
        ("203.0.113.77:80", "default/web:http"),
        ("192.168.0.10:30080", "default/web:http"),
        ("192.168.0.10:30081", "default/open:http"),
        ("10.96.0.11:80", "default/open:http"),
        ("10.96.0.12:80", "reject"),
        ("10.96.0.10:81", "reject"),
        ("192.0.2.200:80", "not"),
    ];
    let views = views(&folder, &[]);
    for from in clients {
        for (to, expected) in dialled {
            let [nftables, iptables, ipvs, ebpf] = explained(&views, from, to);
            assert!(nftables.contains(expected), "{from} {to}: {nftables}");
            assert_eq!(nftables, iptables, "{from} {to}");
            assert_eq!(nftables, ipvs, "{from} {to}");
            assert_eq!(nftables, ebpf, "{from} {to}");
        }
    }
}

/// As kube-proxy's modes differ: which addresses answer unless the operator says, and loopback.
#[test]
fn explain_knows_where_node_ports_answer_in_each_mode() {
    let folder = folder();
    let answers = |to: &str, more: &[&str]| {
        let all = explained(&views(&folder, more), "node", to);
        all.map(|it| it.contains("balance over 2 endpoints"))
    };
    assert_eq!(answers("192.168.0.10:30081", &[]), [true; 4]);
    assert_eq!(
        answers("203.0.113.10:30081", &[]),
        [false, true, true, false]
    );
    let everywhere = ["--nodeport-addresses=0.0.0.0/0"];
    assert_eq!(answers("203.0.113.10:30081", &everywhere), [true; 4]);
    let primary = ["--nodeport-addresses=primary"];
    assert_eq!(answers("203.0.113.10:30081", &primary), [false; 4]);

    assert_eq!(answers("127.0.0.1:30081", &[]), [false, true, false, false]);
    assert_eq!(
        answers("127.0.0.1:30081", &everywhere),
        [false, true, false, false]
    );
    assert_eq!(answers("127.0.0.1:30081", &primary), [false; 4]);
    let from_loopback = explained(&views(&folder, &[]), "127.0.0.1", "127.0.0.1:30081");
    let expected = [false, true, false, false];
    assert_eq!(
        from_loopback.map(|it| it.contains("balance over")),
        expected
    );
    // The guard of CVE-2020-8558.
    let from_afar = explained(&views(&folder, &[]), "10.244.1.9", "127.0.0.1:30081");
    assert_eq!(from_afar.map(|it| it.contains("balance over")), [false; 4]);
    let off = ["--iptables-localhost-nodeports=false"];
    assert_eq!(answers("127.0.0.1:30081", &off), [false; 4]);
}
