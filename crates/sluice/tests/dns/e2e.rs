//! Kubernetes' own DNS cases (`test/e2e/network/dns*.go`) as scenarios: each is asked at the ClusterIP of the cluster's DNS
//! and at the agent of the node. What a case asks for in `/etc/hosts` is kubelet's.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use simple_dns::TYPE;
use sluice_lab::{eventually, require_netns};

use crate::common::WITHIN;
use crate::dns::client::{ask_over_tcp, is_truncated};
use crate::dns::cluster::{CLUSTER_IP, NODE_LOCAL, World, address, cluster_first};

const WAYS: [&str; 2] = [CLUSTER_IP, NODE_LOCAL];

/// One question of a case, and the records of its answer.
type Question = (&'static str, TYPE, &'static [&'static str]);

/// Cases in which nothing changes, by their names in Kubernetes.
const CASES: [(&str, &[Question]); 5] = [
    (
        "should provide DNS for the cluster",
        &[
            (
                "kubernetes.default.svc.cluster.local",
                TYPE::A,
                &["10.96.0.1"],
            ),
            ("www.example.test", TYPE::A, &["192.0.2.80"]),
        ],
    ),
    (
        "should provide DNS for services",
        &[
            (
                "dns-test-service.e2e.svc.cluster.local",
                TYPE::A,
                &["10.244.1.30", "10.244.1.31"],
            ),
            (
                "test-service-2.e2e.svc.cluster.local",
                TYPE::A,
                &["10.96.0.30"],
            ),
            (
                "_http._tcp.dns-test-service.e2e.svc.cluster.local",
                TYPE::SRV,
                &[
                    "10-244-1-30.dns-test-service.e2e.svc.cluster.local:80",
                    "10-244-1-31.dns-test-service.e2e.svc.cluster.local:80",
                ],
            ),
            (
                "_http._tcp.test-service-2.e2e.svc.cluster.local",
                TYPE::SRV,
                &["test-service-2.e2e.svc.cluster.local:80"],
            ),
            (
                "30.0.96.10.in-addr.arpa",
                TYPE::PTR,
                &["test-service-2.e2e.svc.cluster.local"],
            ),
        ],
    ),
    (
        "should provide DNS for pods for Hostname",
        &[
            (
                "dns-querier.dns-test-service-2.e2e.svc.cluster.local",
                TYPE::A,
                &["10.244.1.40"],
            ),
            (
                "40.1.244.10.in-addr.arpa",
                TYPE::PTR,
                &["dns-querier.dns-test-service-2.e2e.svc.cluster.local"],
            ),
        ],
    ),
    (
        "should provide DNS for pods for Subdomain",
        &[(
            "dns-test-service-2.e2e.svc.cluster.local",
            TYPE::A,
            &["10.244.1.40"],
        )],
    ),
    (
        "pod records of kubeadm's Corefile",
        &[(
            "10-244-1-40.e2e.pod.cluster.local",
            TYPE::A,
            &["10.244.1.40"],
        )],
    ),
];

const OBJECTS: &str = "
apiVersion: v1
kind: Service
metadata: {name: kubernetes}
spec: {clusterIP: 10.96.0.1, ports: [{name: https, port: 443}]}
---
apiVersion: v1
kind: Service
metadata: {name: dns-test-service, namespace: e2e}
spec: {clusterIP: None, ports: [{name: http, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: dns-test-service-a, namespace: e2e, labels: {kubernetes.io/service-name: dns-test-service}}
addressType: IPv4
ports: [{name: http, port: 80}]
endpoints: [{addresses: [10.244.1.30]}, {addresses: [10.244.1.31]}]
---
apiVersion: v1
kind: Service
metadata: {name: test-service-2, namespace: e2e}
spec: {clusterIP: 10.96.0.30, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: dns-test-service-2, namespace: e2e}
spec: {clusterIP: None, ports: [{name: http, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: dns-test-service-2-a, namespace: e2e, labels: {kubernetes.io/service-name: dns-test-service-2}}
addressType: IPv4
ports: [{name: http, port: 80}]
endpoints: [{addresses: [10.244.1.40], hostname: dns-querier}]
";

/// What the upstream of all knows.
const OUTSIDE: &str = "192.0.2.80 www.example.test
192.0.2.81 foo.example.test
192.0.2.82 bar.example.test
192.0.2.83 notexistname.resolv.conf.test";

/// Search domains of `dnsConfig`: with kubelet's own more than 6, and longer than 256 characters.
fn long_search_path() -> Vec<String> {
    let domain = |number: usize| format!("{number}.{}.test", "search".repeat(7));
    (1..=7).map(domain).collect()
}

fn world() -> World {
    let searches = long_search_path().join(", ");
    let long = format!("dnsConfig: {{searches: [{searches}]}}");
    let own = "dnsPolicy: None, dnsConfig: {nameservers: [192.168.100.100], searches: [resolv.conf.test]}";
    let pods = [
        ("client", Some("dnsPolicy: ClusterFirst")),
        ("long", Some(&*long)),
        ("own", Some(own)),
    ];
    World::new(&pods, OBJECTS, OUTSIDE)
}

#[test]
fn names_are_answered_in_both_ways() {
    require_netns!();
    let world = world();
    let client = world.cluster.pod("client").netns();
    for way in WAYS {
        for (case, questions) in CASES {
            for (name, kind, wanted) in questions {
                let answer = world.ask(client, way, name, *kind);
                assert_eq!(answer.records, *wanted, "{case}: {name} at {way}");
                let over_tcp = eventually(WITHIN, || {
                    client.run(|| ask_over_tcp(address(way), name, *kind))
                });
                assert_eq!(over_tcp, Some(answer), "{case}: {name} at {way} over TCP");
            }
        }
        search_paths(&world, way);
        many_records(&world, way);
    }
}

/// "should resolve DNS of partial qualified names for the cluster", "… for services", "should work with the pod containing
/// more than 6 DNS search paths and longer than 256 search list characters", "should support configurable pod DNS
/// nameservers", "should support configurable pod resolv.conf".
fn search_paths(world: &World, way: &str) {
    let usual = cluster_first(way, "");
    let long = cluster_first(way, &format!(" {}", long_search_path().join(" ")));
    assert!(long.len() > 256);
    let own = format!(
        "search resolv.conf.test\noptions ndots:2\nnameserver {}\n",
        world.upstream_ip()
    );
    let at_way = format!("nameserver {way}\nsearch resolv.conf.test\noptions ndots:2\n");
    let over_tcp = format!("{usual}options use-vc edns0\n");
    let headless: &[&str] = &["10.244.1.30", "10.244.1.31"];
    for (pod, resolv_conf, name, wanted) in [
        ("client", &usual, "kubernetes.default", &["10.96.0.1"][..]),
        ("client", &usual, "kubernetes.default.svc", &["10.96.0.1"]),
        ("client", &usual, "dns-test-service", headless),
        ("client", &usual, "dns-test-service.e2e", headless),
        ("client", &usual, "dns-test-service.e2e.svc", headless),
        ("client", &usual, "www.example.test", &["192.0.2.80"]),
        ("client", &usual, "missing.example.test", &[]),
        ("client", &over_tcp, "dns-test-service", headless),
        ("client", &over_tcp, "www.example.test", &["192.0.2.80"]),
        ("client", &over_tcp, "missing.example.test", &[]),
        ("long", &long, "dns-test-service", headless),
        ("long", &long, "kubernetes.default", &["10.96.0.1"]),
        ("long", &long, "www.example.test", &["192.0.2.80"]),
        ("long", &long, "missing.example.test", &[]),
        ("own", &own, "notexistname", &["192.0.2.83"]),
        ("own", &at_way, "notexistname", &["192.0.2.83"]),
        ("own", &at_way, "kubernetes.default", &[]),
    ] {
        let wanted: BTreeSet<String> = wanted.iter().map(|it| (*it).to_owned()).collect();
        assert_eq!(
            world.resolve(pod, resolv_conf, name),
            wanted,
            "{name} in {pod} at {way}"
        );
    }
}

/// The most records of a headless Service that one answer has room for over TCP: over UDP it is cut, and the resolver asks
/// again.
fn many_records(world: &World, way: &str) {
    const MOST: u32 = 4000;
    let mut slices = String::from(
        "apiVersion: v1\nkind: Service\nmetadata: {name: many, namespace: e2e}\n\
         spec: {clusterIP: None, ports: [{port: 80}]}\n",
    );
    let addresses: Vec<String> = (0..MOST)
        .map(|it| format!("10.250.{}.{}", it / 250, it % 250 + 1))
        .collect();
    for (number, some) in addresses.chunks(1000).enumerate() {
        let endpoints = some.iter().map(|it| format!("{{addresses: [{it}]}}"));
        let endpoints: Vec<String> = endpoints.collect();
        writeln!(
            slices,
            "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\naddressType: IPv4\n\
             metadata: {{name: many-{number}, namespace: e2e, labels: {{kubernetes.io/service-name: many}}}}\n\
             ports: [{{port: 80}}]\nendpoints: [{}]",
            endpoints.join(", ")
        )
        .unwrap();
    }
    world.files.write("many.yaml", &slices);
    let name = "many.e2e.svc.cluster.local";
    let client = world.cluster.pod("client").netns();
    let cut = eventually(WITHIN, || {
        let cut = client.run(|| is_truncated(address(way), name))?;
        cut.then_some(())
    });
    assert!(cut.is_some(), "{name} at {way}");
    let mut found = BTreeSet::new();
    let wanted: BTreeSet<String> = addresses.into_iter().collect();
    let all = eventually(WITHIN, || {
        found = world.resolve("client", &cluster_first(way, ""), "many");
        (found == wanted).then_some(())
    });
    assert!(all.is_some(), "{} at {way}", found.len());
}

/// "should provide DNS for ExternalName services": its name changes, and it becomes a Service with a ClusterIP.
#[test]
fn an_external_name_changes() {
    require_netns!();
    let world = world();
    let client = world.cluster.pod("client").netns();
    let name = "dns-test-service-3.e2e.svc.cluster.local";
    for way in WAYS {
        for (spec, cname, addresses) in [
            (
                "type: ExternalName, externalName: foo.example.test",
                &["foo.example.test"][..],
                &["192.0.2.81", "foo.example.test"][..],
            ),
            (
                "type: ExternalName, externalName: bar.example.test",
                &["bar.example.test"],
                &["192.0.2.82", "bar.example.test"],
            ),
            (
                "clusterIP: 10.96.0.33, ports: [{name: http, port: 80}]",
                &[],
                &["10.96.0.33"],
            ),
        ] {
            let service = format!(
                "apiVersion: v1\nkind: Service\nmetadata: {{name: dns-test-service-3, namespace: e2e}}\n\
                 spec: {{{spec}}}\n"
            );
            world.files.write("external.yaml", &service);
            world.until(client, way, name, TYPE::A, addresses);
            world.until(client, way, name, TYPE::CNAME, cname);
        }
    }
}

/// `dns_configmap.go`: what an operator changes in CoreDNS's ConfigMap is a change of the Corefile here. An agent has
/// its own.
#[test]
fn stub_domains_and_upstreams_change() {
    require_netns!();
    let mut world = world();
    let client = world.cluster.pod("client").netns();
    let stub = ".:5353 {\nhosts {\n1.1.1.1 abc.acme.test\n2.2.2.2 def.acme.test\n3.3.3.3 widget.test\n\
                192.0.2.123 my.test\n192.0.2.124 dns.google.test\n}\n}\n";
    let _stub = world.serve(world.upstream(), "stub.conf", stub);
    let to_stub = format!("forward . {}:5353", world.upstream_ip());
    let external = "apiVersion: v1\nkind: Service\nmetadata: {name: dns-externalname, namespace: e2e}\n\
                    spec: {type: ExternalName, externalName: dns.google.test}\n";
    world.files.write("external.yaml", external);
    let alias = "dns-externalname.e2e.svc.cluster.local";
    let questions: [Question; 5] = [
        ("abc.acme.test", TYPE::A, &["1.1.1.1"]),
        ("def.acme.test", TYPE::A, &["2.2.2.2"]),
        ("widget.test", TYPE::A, &["3.3.3.3"]),
        ("123.2.0.192.in-addr.arpa", TYPE::PTR, &["my.test"]),
        (alias, TYPE::A, &["192.0.2.124", "dns.google.test"]),
    ];
    let blocks: String = [
        "acme.test",
        "widget.test",
        "2.0.192.in-addr.arpa",
        "google.test",
    ]
    .map(|zone| format!("{zone}:53 {{\nerrors\n{to_stub}\n}}\n"))
    .concat();
    world.until(client, CLUSTER_IP, alias, TYPE::CNAME, &["dns.google.test"]);
    for (name, kind, wanted) in questions {
        let before = world.ask(client, CLUSTER_IP, name, kind);
        assert_ne!(before.records, wanted, "{name}");
    }
    world.write_central(&blocks);
    for (name, kind, wanted) in questions {
        world.until(client, CLUSTER_IP, name, kind, wanted);
    }
    world.write_central("");
    for (name, kind, wanted) in questions {
        let gone = eventually(WITHIN, || {
            let now = world.ask(client, CLUSTER_IP, name, kind);
            (now.records != wanted).then_some(())
        });
        assert!(gone.is_some(), "{name}");
    }
    let own = "kubernetes cluster.local\nforward . /etc/resolv.conf";
    world.restart_agent(&format!("{blocks}.:53 {{\nerrors\n{own}\n}}\n"));
    let client = world.cluster.pod("client").netns();
    for (name, kind, wanted) in questions {
        world.until(client, NODE_LOCAL, name, kind, wanted);
    }
}
