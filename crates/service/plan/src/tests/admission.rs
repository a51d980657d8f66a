//! Addresses that Services take for themselves.

use std::collections::BTreeSet;

use super::*;
use sluice_model::LocalAddresses;

fn machine(all: &[&str], default_route: &[&str]) -> Event {
    let list = |list: &[&str]| list.iter().map(|it| it.parse().unwrap()).collect();
    let all: Vec<std::net::IpAddr> = list(all);
    Event::LocalAddresses(LocalAddresses {
        all: BTreeSet::from_iter(all),
        default_route: list(default_route),
    })
}

/// The addresses that are served, and the issues.
#[track_caller]
fn check(settings: Settings, about: &str, served: &[&str], issues: &[&str]) {
    let events = [
        node("node-a 192.168.0.1 10.244.0.0/24"),
        machine(&["192.168.0.1", "172.16.0.1", "127.0.0.1", "fe80::1"], &[]),
        service(&format!("web LoadBalancer {about} :80")),
    ];
    let planner = planner(settings, events);
    let ports = planner.plan().ports.values();
    let frontends = ports.flat_map(|it| &it.frontends);
    let found: Vec<String> = frontends.map(|it| it.frontend.to_string()).collect();
    assert_eq!(found, served);
    let found: Vec<String> = planner.issues().map(|it| it.to_string()).collect();
    assert_eq!(found, issues);
}

fn allowing(nets: &[&str]) -> Settings {
    let nets = nets.iter().map(|it| it.parse().unwrap()).collect();
    Settings {
        external_ips: Some(nets),
        ..here()
    }
}

fn refusing() -> Settings {
    Settings {
        refuse_shadowing: true,
        ..here()
    }
}

#[test]
fn every_external_ip_is_served_by_default() {
    let served = ["10.96.0.1:80/tcp", "192.0.2.1:80/tcp"];
    check(here(), "10.96.0.1 ext=192.0.2.1", &served, &[]);
}

#[test]
fn external_ips_outside_the_allowed_ranges_are_not_served() {
    let issue = "Service default/web: spec.externalIPs: 192.0.2.1 is not allowed on this node \
                 (--external-ip-allow): it is not served";
    check(
        allowing(&["198.51.100.0/24"]),
        "10.96.0.1 ext=192.0.2.1,198.51.100.7 lb=203.0.113.1",
        &[
            "10.96.0.1:80/tcp",
            "203.0.113.1:80/tcp",
            "198.51.100.7:80/tcp",
        ],
        &[issue],
    );
    let served = ["10.96.0.1:80/tcp"];
    check(allowing(&[]), "10.96.0.1 ext=192.0.2.1", &served, &[issue]);
}

#[test]
fn an_address_of_the_node_is_served_with_an_issue() {
    for (about, served, field) in [
        ("10.96.0.1 ext=172.16.0.1", "172.16.0.1", "spec.externalIPs"),
        (
            "10.96.0.1 lb=192.168.0.1",
            "192.168.0.1",
            "status.loadBalancer.ingress",
        ),
    ] {
        let issue = format!(
            "Service default/web: {field}: {served} is an address of this node: its ports lead \
             to the Service now"
        );
        let served = format!("{served}:80/tcp");
        check(here(), about, &["10.96.0.1:80/tcp", &served], &[&issue]);
    }
}

#[test]
fn a_load_balancer_may_bind_its_address_to_the_machine() {
    let served = ["10.96.0.1:80/tcp", "172.16.0.1:80/tcp"];
    check(refusing(), "10.96.0.1 lb=172.16.0.1", &served, &[]);
}

#[test]
fn addresses_of_nodes_and_pods_can_be_refused() {
    check(
        refusing(),
        "10.96.0.1 ext=172.16.0.1,10.244.0.9,192.0.2.1",
        &["10.96.0.1:80/tcp", "192.0.2.1:80/tcp"],
        &[
            "Service default/web: spec.externalIPs: 172.16.0.1 is an address of this node: it \
             is not served (--refuse-shadowing-vips)",
            "Service default/web: spec.externalIPs: 10.244.0.9 lies in the pods' range \
             10.244.0.0/24: it is not served (--refuse-shadowing-vips)",
        ],
    );
}

#[test]
fn a_cluster_ip_among_the_pods_is_served_and_told() {
    let told = "Service default/web: spec.clusterIPs: 10.244.0.9 lies in the pods' range 10.244.0.0/24: its \
                ports lead to the Service now";
    check(here(), "10.244.0.9", &["10.244.0.9:80/tcp"], &[told]);
}

#[test]
fn a_refused_cluster_ip_does_not_guard_its_address() {
    let events = [node("node-a 192.168.0.1"), service("web 192.168.0.1 :80")];
    let planner = planner(refusing(), events);
    assert!(planner.plan().ports.is_empty());
    let owner = planner
        .plan()
        .claims
        .cluster_ip_owner("192.168.0.1".parse().unwrap());
    assert_eq!(owner, None);
}

#[test]
fn an_address_that_the_node_gets_later_is_refused_from_then_on() {
    let mut planner = planner(refusing(), [service("web 10.96.0.1 :80 ext=192.0.2.1")]);
    let served = |planner: &Planner| {
        let ports = planner.plan().ports.values();
        ports.map(|it| it.frontends.len()).sum::<usize>()
    };
    assert_eq!(served(&planner), 2);
    planner.absorb(machine(&["192.0.2.1"], &[]));
    assert!(!planner.replan().ports.is_empty());
    assert_eq!(served(&planner), 1);
    planner.absorb(machine(&[], &[]));
    let _ = planner.replan();
    assert_eq!(served(&planner), 2);
}

#[test]
fn other_choices_count_at_once() {
    let mut planner = planner(here(), [service("web 10.96.0.1 :80 ext=192.0.2.1")]);
    planner.configure(allowing(&[]));
    assert_eq!(planner.replan().ports.len(), 1);
    planner.configure(allowing(&[]));
    assert!(planner.replan().is_empty());
}

/// An external address in a ServiceCIDR leads to its Service, as with kube-proxy, until a Service has it as its ClusterIP: that
/// one has it alone, with all its ports.
#[test]
fn a_cluster_ip_is_never_taken() {
    let web = "web LoadBalancer 10.96.0.1 :80 ext=10.96.0.9,10.96.0.1 lb=10.96.0.8";
    let events = [
        node("node-a 192.168.0.1"),
        cidr("10.96.0.0/16"),
        service(web),
    ];
    let mut planner = planner(here(), events);
    let served = |planner: &Planner, addr: &str| {
        let ports = planner.plan().ports.values();
        let frontends = ports.flat_map(|it| it.frontends.iter().map(move |that| (it, that)));
        let found = frontends.filter(|(_, it)| it.frontend.to_string().starts_with(addr));
        let found = found.map(|(port, it)| format!("{} {}", port.key.name.service, it.frontend));
        found.collect::<Vec<String>>()
    };
    let issues = |planner: &Planner| {
        let all = planner.issues().map(|it| it.to_string());
        all.collect::<Vec<String>>()
    };
    assert_eq!(
        served(&planner, "10.96.0.9"),
        ["default/web 10.96.0.9:80/tcp"]
    );
    assert_eq!(
        served(&planner, "10.96.0.8"),
        ["default/web 10.96.0.8:80/tcp"]
    );
    let outcome = "its ports lead to the Service until another one gets it as its ClusterIP";
    assert_eq!(
        issues(&planner),
        [
            format!(
                "Service default/web: status.loadBalancer.ingress: 10.96.0.8 lies in the \
                 ServiceCIDR 10.96.0.0/16: {outcome}"
            ),
            format!(
                "Service default/web: spec.externalIPs: 10.96.0.9 lies in the ServiceCIDR \
                 10.96.0.0/16: {outcome}"
            ),
        ]
    );
    planner.absorb(service("owner created=9 10.96.0.9 :443"));
    let _ = planner.replan();
    assert_eq!(
        served(&planner, "10.96.0.9"),
        ["default/owner 10.96.0.9:443/tcp"]
    );
    planner.configure(refusing());
    let _ = planner.replan();
    assert_eq!(served(&planner, "10.96.0.8"), [""; 0]);
    let refused = "ServiceCIDR 10.96.0.0/16: it is not served (--refuse-shadowing-vips)";
    assert!(issues(&planner).iter().any(|it| it.ends_with(refused)));
}

/// As with kube-proxy, ranges of one family leave the other one's addresses open.
#[test]
fn source_ranges_are_of_both_families() {
    let about = "10.96.0.1 fd00:10:96::1 lb=203.0.113.1,2001:db8::1";
    let served = [
        "10.96.0.1:80/tcp",
        "203.0.113.1:80/tcp",
        "[fd00:10:96::1]:80/tcp",
        "[2001:db8::1]:80/tcp",
    ];
    let issue = |family: &str, addr: &str| {
        format!(
            "Service default/web: spec.loadBalancerSourceRanges: no prefix is of {family}, so \
             everybody may connect to {addr}: add some"
        )
    };
    for (ranges, issues) in [
        ("", vec![]),
        ("ranges=10.0.0.0/8,fd00::/8", vec![]),
        ("ranges=10.0.0.0/8", vec![issue("IPv6", "2001:db8::1")]),
        ("ranges=fd00::/8", vec![issue("IPv4", "203.0.113.1")]),
    ] {
        let issues: Vec<&str> = issues.iter().map(String::as_str).collect();
        check(here(), &format!("{about} {ranges}"), &served, &issues);
    }
    let v4 = "10.96.0.1 lb=203.0.113.1 ranges=10.0.0.0/8";
    check(here(), v4, &served[..2], &[]);
}
