//! Search paths of a node's pods: the agent completes a name where it knows the client's path, and only there.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::process::Command;

use simple_dns::{RCODE, TYPE};
use sluice_lab::{Netns, eventually, require_netns};

use crate::common::WITHIN;
use crate::dns::client::{Answer, ask, ask_again};
use crate::dns::cluster::{NODE_LOCAL, NODE_LOCAL_V6, World, address, cluster_first};

/// `api.example`, `printer.office` and `cart` are names of the cluster, too, by the search path of namespace `e2e`.
const OBJECTS: &str = "
apiVersion: v1
kind: Service
metadata: {name: kubernetes}
spec: {clusterIP: 10.96.0.1, ports: [{name: https, port: 443}]}
---
apiVersion: v1
kind: Service
metadata: {name: cart, namespace: e2e}
spec: {clusterIP: 10.96.0.40, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: example, namespace: e2e}
spec: {clusterIP: None, ports: [{port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: example-a, namespace: e2e, labels: {kubernetes.io/service-name: example}}
addressType: IPv4
ports: [{port: 80}]
endpoints: [{addresses: [10.244.1.41], hostname: api}]
---
apiVersion: v1
kind: Service
metadata: {name: printer, namespace: office}
spec: {clusterIP: 10.96.0.42, ports: [{port: 80}]}
";

const OUTSIDE: &str = "192.0.2.80 www.example.test
192.0.2.81 api.example
192.0.2.82 printer.office
192.0.2.83 cart
192.0.2.84 intranet.corp.test
192.0.2.85 thing.extra.test
192.0.2.86 thing";

const EXTERNAL: &str = "www.example.test";

/// What a resolver asks first for [`EXTERNAL`] with the path of namespace `e2e`.
const FIRST_STEP: &str = "www.example.test.e2e.svc.cluster.local";

/// Pods whose path the agent knows, does not know, or knows to be no path of the cluster's.
const PODS: [(&str, Option<&str>); 6] = [
    ("client", Some("dnsPolicy: ClusterFirst")),
    ("extra", Some("dnsConfig: {searches: [extra.test]}")),
    (
        "host",
        Some("hostNetwork: true, dnsPolicy: ClusterFirstWithHostNet"),
    ),
    ("stranger", None),
    ("default", Some("dnsPolicy: Default")),
    (
        "none",
        Some("dnsPolicy: None, dnsConfig: {nameservers: [169.254.20.10], searches: [extra.test]}"),
    ),
];

fn world() -> World {
    World::new(&PODS, OBJECTS, OUTSIDE)
}

/// A [`world`] whose agent knows the pods' paths: it answers as soon as it knows the names.
fn completing_world() -> World {
    let world = world();
    let client = world.cluster.pod("client").netns();
    world.until(
        client,
        NODE_LOCAL,
        FIRST_STEP,
        TYPE::A,
        &["192.0.2.80", EXTERNAL],
    );
    world
}

/// Resolves with glibc. The addresses, and how many queries that cost.
fn costs(world: &World, pod: &str, resolv_conf: &str, name: &str) -> (BTreeSet<String>, u64) {
    let before = world.queries();
    let found = world.resolve(pod, resolv_conf, name);
    (found, world.queries() - before)
}

fn set(addresses: &[&str]) -> BTreeSet<String> {
    addresses.iter().map(|it| (*it).to_owned()).collect()
}

/// One query of each family, where a path of four domains would make five of each.
#[test]
fn a_short_name_costs_one_query_of_each_family() {
    require_netns!();
    let world = completing_world();
    let usual = cluster_first(NODE_LOCAL, "");
    let extra = cluster_first(NODE_LOCAL, " extra.test");
    let none = format!("nameserver {NODE_LOCAL}\nsearch extra.test\noptions ndots:5\n");
    for (pod, resolv_conf, name, found, families) in [
        ("client", &usual, EXTERNAL, &["192.0.2.80"][..], 1),
        ("client", &usual, "intranet", &["192.0.2.84"], 1),
        // The first name of the path wins.
        ("client", &usual, "cart", &["10.96.0.40"], 1),
        ("client", &usual, "api.example", &["10.244.1.41"], 1),
        ("client", &usual, "printer.office", &["10.96.0.42"], 1),
        ("extra", &extra, "thing", &["192.0.2.85"], 1),
        ("extra", &extra, EXTERNAL, &["192.0.2.80"], 1),
        ("client", &usual, "thing", &["192.0.2.86"], 1),
        // Missing only after every step.
        ("client", &usual, "missing.example.test", &[], 5),
        ("extra", &extra, "missing.example.test", &[], 6),
        // Asked as usual.
        ("stranger", &usual, EXTERNAL, &["192.0.2.80"], 5),
        ("stranger", &usual, "cart", &["10.96.0.40"], 1),
        ("host", &usual, EXTERNAL, &["192.0.2.80"], 5),
        ("host", &usual, "cart", &["10.96.0.40"], 1),
        ("none", &none, "thing", &["192.0.2.85"], 1),
        ("none", &none, EXTERNAL, &["192.0.2.80"], 2),
    ] {
        let cost = costs(&world, pod, resolv_conf, name);
        assert_eq!(cost, (set(found), 2 * families), "{name} in {pod}");
    }
}

/// The answer has the name that was asked for, as an alias. Without a certain path it is what is true of that name.
#[test]
fn names_are_completed_for_pods_of_the_node_whose_path_is_known() {
    require_netns!();
    let world = completing_world();
    let completed = Answer {
        code: RCODE::NoError,
        records: vec!["192.0.2.80".to_owned(), EXTERNAL.to_owned()],
    };
    let as_usual = Answer {
        code: RCODE::NameError,
        records: Vec::new(),
    };
    let pod = |name| world.cluster.pod(name).netns();
    let at_agent = |from: &Netns, name| world.ask(from, NODE_LOCAL, name, TYPE::A);
    assert_eq!(at_agent(pod("client"), FIRST_STEP), completed);
    assert_eq!(at_agent(pod("extra"), FIRST_STEP), completed);
    let over_ipv6 = world.ask(pod("client"), NODE_LOCAL_V6, FIRST_STEP, TYPE::A);
    assert_eq!(over_ipv6, completed);
    // CoreDNS's way, which needs all pods of the cluster.
    let central = world.cluster.pod("central");
    let corefile = format!(
        ".:5354 {{\nkubernetes cluster.local {{\npods verified\n}}\nautopath @kubernetes\nforward . {}\n}}\n",
        world.upstream_ip()
    );
    let _server = world.serve(central.netns(), "autopath.conf", &corefile);
    let server = SocketAddr::new(central.ipv4().into(), 5354);
    let found = eventually(WITHIN, || {
        let answer = pod("client").run(|| ask(server, FIRST_STEP, TYPE::A))?;
        (answer == completed).then_some(())
    });
    assert!(found.is_some());
    let stranger = pod("stranger").run(|| ask_again(server, FIRST_STEP, TYPE::A));
    assert_eq!(stranger, as_usual);
    for (who, from) in [
        ("no Pod of this node", pod("stranger")),
        ("dnsPolicy Default", pod("default")),
        ("dnsPolicy None", pod("none")),
        ("hostNetwork", pod("host")),
    ] {
        assert_eq!(at_agent(from, FIRST_STEP), as_usual, "{who}");
        let found = at_agent(from, EXTERNAL);
        assert_eq!(found.records, ["192.0.2.80"], "{who}");
    }
    // Later steps of a path, and of another namespace, are not the first one of anybody.
    for name in [
        "www.example.test.svc.cluster.local",
        "www.example.test.shop.svc.cluster.local",
    ] {
        assert_eq!(at_agent(pod("client"), name), as_usual, "{name}");
    }
    // Nothing of the node's own address reaches another node.
    assert_eq!(
        central
            .netns()
            .run(|| ask(address(NODE_LOCAL), FIRST_STEP, TYPE::A)),
        None
    );
}

/// Nobody knows whether the upstream has the name: its absence is never said.
#[test]
fn without_an_upstream_a_name_is_not_missing() {
    require_netns!();
    let mut world = world();
    world.end_upstream();
    let client = world.cluster.pod("client").netns();
    // The upstream is tried again until its health check fails.
    let code = |name| world.ask(client, NODE_LOCAL, name, TYPE::A).code;
    assert_eq!(code(EXTERNAL), RCODE::ServerFailure);
    // True of this name; a resolver goes on to the one above.
    assert_eq!(code(FIRST_STEP), RCODE::NameError);
    assert_eq!(code("cart.e2e.svc.cluster.local"), RCODE::NoError);
}

/// busybox's `nslookup` and glibc's resolver are no relatives.
#[test]
fn busybox_takes_an_alias() {
    require_netns!();
    if Command::new("busybox").output().is_err() && std::env::var_os("CI").is_none() {
        eprintln!("SKIP: no busybox on PATH: run `make setup`");
        return;
    }
    let world = completing_world();
    let client = world.cluster.pod("client").netns();
    let program = ["busybox", "nslookup", FIRST_STEP];
    let usual = cluster_first(NODE_LOCAL, "");
    let mut command = world.with_resolv_conf(client, &usual, &program);
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}");
    for line in [
        &format!("{FIRST_STEP}\tcanonical name = {EXTERNAL}"),
        "Address: 192.0.2.80",
    ] {
        assert!(said.lines().any(|it| it == line), "{line}: {said}");
    }
}
