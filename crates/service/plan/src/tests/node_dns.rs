//! The addresses of the node's DNS server lead to the cluster's while that server does not answer.

use super::*;
use crate::explain::explain;
use crate::settings::NodeDns;
use crate::testing::packet;

fn settings() -> Settings {
    Settings {
        dns: Some(NodeDns {
            service: sluice_model::NamespacedName::new("kube-system", "kube-dns"),
            ..NodeDns::usual()
        }),
        ..here()
    }
}

fn cluster_dns() -> Vec<Event> {
    let mut events = endpoints("kube-system/kube-dns:dns/udp", "10.0.1.5:53 [fd00::5]:53");
    events.push(service(
        "kube-system/kube-dns 10.96.0.10 fd00:96::a dns:53/udp",
    ));
    events.push(node("node-a 192.168.0.1"));
    events
}

#[test]
fn the_addresses_are_frontends_of_the_clusters_dns() {
    let planner = planner(settings(), cluster_dns());
    assert_eq!(
        print(planner.plan()),
        [
            "kube-system/kube-dns:dns 10.96.0.10:53/udp internal -> 10.0.1.5:53",
            "kube-system/kube-dns:dns 169.254.20.10:53/udp internal -> 10.0.1.5:53",
            "kube-system/kube-dns:dns [fd00:96::a]:53/udp internal -> [fd00::5]:53",
            "kube-system/kube-dns:dns [fd00:169:254:20::10]:53/udp internal -> [fd00::5]:53",
        ]
    );
    assert_eq!(planner.issues().count(), 0);
}

#[test]
fn a_family_without_a_cluster_ip_has_none() {
    let mut events = endpoints("kube-system/kube-dns:dns/udp", "10.0.1.5:53");
    events.push(service("kube-system/kube-dns 10.96.0.10 dns:53/udp"));
    let planner = planner(settings(), events);
    assert_eq!(planner.plan().ports.len(), 1);
}

#[test]
fn no_service_gets_such_an_address_whatever_comes_first() {
    let thieves = [
        service("a created=1 10.96.0.1 :53/udp ext=169.254.20.10"),
        service("b LoadBalancer created=1 10.96.0.2 :80 lb=169.254.20.10"),
        service("c created=1 169.254.20.10 :81"),
        service("kube-system/kube-dns 10.96.0.10 dns:53/udp ext=169.254.20.10"),
    ];
    let mut events = vec![node("node-a 192.168.0.1")];
    events.extend(thieves);
    let mut reversed = events.clone();
    reversed.reverse();
    for events in [events, reversed] {
        let planner = planner(settings(), events);
        let claims = &planner.plan().claims;
        for port in planner.plan().ports.values() {
            for it in &port.frontends {
                let is_dns = it.frontend.to_string().starts_with("169.254.20.10");
                assert_eq!(claims.owner(&it.frontend), Some(&port.key));
                assert_eq!(is_dns, it.role == Role::NodeDns, "{it:?}");
            }
            assert_ne!(
                port.owned_cluster_ip,
                Some("169.254.20.10".parse().unwrap())
            );
        }
        let issues: Vec<String> = planner.issues().map(|it| it.to_string()).collect();
        let refused = |service: &str, field: &str| {
            format!(
                "Service {service}: {field}: 169.254.20.10 is the address of this node's DNS server: it \
                 is not served"
            )
        };
        assert_eq!(
            issues,
            [
                refused("default/a", "spec.externalIPs"),
                refused("default/b", "status.loadBalancer.ingress"),
                refused("default/c", "spec.clusterIPs"),
                refused("kube-system/kube-dns", "spec.externalIPs"),
            ]
        );
    }
}

#[test]
fn the_node_itself_is_masqueraded_and_its_pods_are_not() {
    let planner = planner(settings(), cluster_dns());
    let host = planner.state().host_addresses(NODE);
    let seen = |text: &str| {
        let found = explain(&planner, &packet(text), &host).service.unwrap();
        (found.masquerade, found.role)
    };
    let own = seen("169.254.20.10 > 169.254.20.10:53/udp");
    assert_eq!(own, (true, "NodeDNS".to_owned()));
    let pod = seen("10.244.0.5 > 169.254.20.10:53/udp via cni0");
    assert_eq!(pod, (false, "NodeDNS".to_owned()));
    let v6 = seen("fd00:169:254:20::10 > [fd00:169:254:20::10]:53/udp");
    assert_eq!(v6, (true, "NodeDNS".to_owned()));
}

/// The kernel takes a ClusterIP on loopback as the source of the node's own connections to it.
#[test]
fn so_it_is_at_a_cluster_ip_that_the_node_answers() {
    let mut settings = settings();
    let own = packet("10.96.0.10 > 10.96.0.10:53/udp");
    let masquerades = |settings: &Settings| {
        let planner = planner(settings.clone(), cluster_dns());
        let lookup = planner.plan().lookup(&own, &Default::default());
        lookup.masquerade
    };
    assert!(!masquerades(&settings));
    let dns = settings.dns.as_mut().unwrap();
    dns.cluster_ips.push("10.96.0.10".parse().unwrap());
    assert!(masquerades(&settings));
}

#[test]
fn other_ports_of_the_address_are_left_alone() {
    let planner = planner(settings(), cluster_dns());
    let packet = packet("10.244.0.5 > 169.254.20.10:80 via cni0");
    let lookup = planner.plan().lookup(&packet, &Default::default());
    assert_eq!(lookup.verdict, None);
}

#[test]
fn settings_that_change_move_the_addresses() {
    let mut planner = planner(here(), cluster_dns());
    planner.configure(settings());
    let changes = planner.replan();
    assert!(changes.node);
    assert_eq!(print(planner.plan()).len(), 4);
    planner.configure(here());
    let _ = planner.replan();
    assert_eq!(print(planner.plan()).len(), 2);
}

#[test]
fn what_the_cluster_does_not_have_is_an_issue_once_all_is_known() {
    let mut settings = settings();
    let dns = settings.dns.as_mut().unwrap();
    dns.cluster_ips = ["10.96.0.10", "10.96.0.11"]
        .map(|it| it.parse().unwrap())
        .to_vec();
    let issues =
        |planner: &Planner| -> Vec<String> { planner.issues().map(|it| it.to_string()).collect() };
    let mut planner = planner(settings, vec![node("node-a 192.168.0.1")]);
    assert_eq!(issues(&planner), [""; 0]);
    planner.absorb(Event::SYNCED);
    assert_eq!(
        issues(&planner),
        [
            "--dns-service: Service kube-system/kube-dns does not exist, or has no ClusterIP: nobody answers \
             the DNS queries of this node while its own server does not"
        ]
    );
    for it in cluster_dns() {
        planner.absorb(it);
    }
    let _ = planner.replan();
    assert_eq!(
        issues(&planner),
        [
            "--dns-cluster-ip: 10.96.0.11 is no ClusterIP of Service kube-system/kube-dns: the cluster's \
             DNS does not answer there while the DNS server of this node does not"
        ]
    );
}
