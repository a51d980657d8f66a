//! The owner of a frontend that several Services claim.

use super::*;
use crate::Role;
use crate::testing::packet;

/// `expected`: each frontend that is served with its Service, and all issues.
#[track_caller]
fn check(settings: &Settings, events: Vec<Event>, expected: &[&str], issues: &[&str]) {
    for order in [events.clone(), events.into_iter().rev().collect()] {
        let planner = planner(settings.clone(), [node("node-a")].into_iter().chain(order));
        let ports = planner.plan().ports.values();
        let served = ports.flat_map(|port| {
            let service = &port.key.name.service.name;
            port.frontends
                .iter()
                .map(move |it| format!("{service} {}", it.frontend))
        });
        assert_eq!(served.collect::<Vec<_>>(), expected);
        let found: Vec<String> = planner.issues().map(|it| it.to_string()).collect();
        assert_eq!(found, issues);
    }
}

#[test]
fn a_cluster_ip_belongs_to_its_service() {
    check(
        &here(),
        vec![
            service("thief LoadBalancer created=1 10.96.0.66 :80 x:81 ext=10.96.0.1 lb=10.96.0.1"),
            service("victim created=2 10.96.0.1 :80"),
        ],
        &[
            "thief 10.96.0.66:80/tcp",
            "thief 10.96.0.66:81/tcp",
            "victim 10.96.0.1:80/tcp",
        ],
        &[
            "Service default/thief: status.loadBalancer.ingress: 10.96.0.1 is the ClusterIP of \
             Service default/victim: it is not served",
            "Service default/thief: spec.externalIPs: 10.96.0.1 is the ClusterIP of Service \
             default/victim: it is not served",
        ],
    );
}

#[test]
fn undefined_ports_of_a_cluster_ip_are_rejected_whoever_names_it() {
    let mut planner = planner(
        here(),
        [service("thief created=1 10.96.0.66 :81 ext=10.96.0.1")],
    );
    let reason = |planner: &Planner| {
        let packet = packet("10.244.0.5 > 10.96.0.1:81 via cni0");
        planner.plan().lookup(&packet, &Default::default()).reason
    };
    assert_eq!(reason(&planner), "no endpoint anywhere answers");
    planner.absorb(service("victim created=2 10.96.0.1 :80"));
    let _ = planner.replan();
    assert_eq!(reason(&planner), "the ClusterIP has no such port");
    planner.absorb(Event::Service(Change::Delete(NamespacedName::new(
        "default", "victim",
    ))));
    let _ = planner.replan();
    assert_eq!(reason(&planner), "no endpoint anywhere answers");
    assert_eq!(
        planner
            .issues()
            .map(|it| it.kind.name())
            .collect::<Vec<_>>(),
        ["NoNode"]
    );
}

#[test]
fn a_service_may_name_its_own_cluster_ip() {
    let web = service("web created=1 10.96.0.1 :80 ext=10.96.0.1");
    let events = vec![web, cidr("10.96.0.0/16")];
    check(&here(), events, &["web 10.96.0.1:80/tcp"], &[]);
}

#[test]
fn a_load_balancers_address_comes_before_an_external_ip() {
    check(
        &here(),
        vec![
            service("a created=1 10.96.0.1 :80 ext=192.0.2.1"),
            service("b LoadBalancer created=2 10.96.0.2 :80 lb=192.0.2.1"),
        ],
        &[
            "a 10.96.0.1:80/tcp",
            "b 10.96.0.2:80/tcp",
            "b 192.0.2.1:80/tcp",
        ],
        &[
            "Service default/a: 192.0.2.1:80/tcp belongs to Service default/b (a ClusterIP comes \
             before a load balancer's address, that before an external IP; then the older, else \
             the first by name, keeps it): give one of them another address or port",
        ],
    );
}

#[test]
fn node_ports_outside_the_range_are_not_served() {
    let settings = Settings {
        node_port_range: Some(30_000..=32_767),
        ..here()
    };
    let web = || service("web LoadBalancer 10.96.0.1 :80@22 b:81@30000 etp=local health=29999");
    check(
        &settings,
        vec![web()],
        &[
            "web 10.96.0.1:80/tcp",
            "web 10.96.0.1:81/tcp",
            "web IPv4 NodePort 30000/tcp",
        ],
        &[
            "Service default/web: spec.ports.nodePort: 22 is outside 30000-32767 \
             (--service-node-port-range): it is not served",
            "Service default/web: spec.healthCheckNodePort: 29999 is outside 30000-32767 \
             (--service-node-port-range): it is not served",
        ],
    );
    let planner = planner(here(), [node("node-a"), web()]);
    assert_eq!(
        planner.issues().count(),
        0,
        "an API server has its own range"
    );
    assert_eq!(planner.plan().health_checks.len(), 1);
}

#[test]
fn ports_of_this_process_are_nobodys() {
    let settings = Settings {
        own_ports: [10256].into(),
        ..here()
    };
    check(
        &settings,
        vec![
            node("node-a 192.168.0.1"),
            service("a NodePort 10.96.0.1 :80@10256 udp:80/udp@10256"),
            service("b LoadBalancer 10.96.0.2 :80 etp=local health=10256"),
            service("c 10.96.0.3 :10256 d:80 ext=192.168.0.1"),
        ],
        &[
            "a 10.96.0.1:80/tcp",
            "a 10.96.0.1:80/udp",
            "a IPv4 NodePort 10256/udp",
            "b 10.96.0.2:80/tcp",
            "c 10.96.0.3:10256/tcp",
            "c 10.96.0.3:80/tcp",
            "c 192.168.0.1:80/tcp",
        ],
        &[
            "Service default/a: spec.ports.nodePort: 10256 is a port of Sluice's own servers: it \
             is not served",
            "Service default/b: spec.healthCheckNodePort: 10256 is a port of Sluice's own servers: \
             it is not served",
            "Service default/c: spec.externalIPs: 192.168.0.1 is an address of this node: its \
             ports lead to the Service now",
        ],
    );
}

#[test]
fn node_ports_and_health_checks_are_one_space() {
    let check_node = |name: &str, ip: u8, created: u8| {
        service(&format!(
            "{name} LoadBalancer created={created} 10.96.0.{ip} :80 etp=local health=30001"
        ))
    };
    let node_port =
        |created: u8| service(&format!("n NodePort created={created} 10.96.0.9 :80@30001"));
    let found = |events: Vec<Event>| {
        let planner = planner(here(), [node("node-a")].into_iter().chain(events));
        let plan = planner.plan();
        let checks = plan.health_checks.keys().map(|it| it.name.to_string());
        let frontends = plan.ports.values().flat_map(|it| &it.frontends);
        let node_ports = frontends.filter(|it| it.role == Role::NodePort);
        let mut found: Vec<String> = checks
            .chain(node_ports.map(|it| it.frontend.to_string()))
            .collect();
        found.extend(planner.issues().map(|it| it.to_string()));
        found
    };
    assert_eq!(
        found(vec![
            check_node("a", 1, 1),
            check_node("b", 2, 2),
            node_port(3)
        ]),
        [
            "a",
            "Service default/b: spec.healthCheckNodePort: 30001 is the health check node port of \
             Service default/a: it is not served",
            "Service default/n: spec.ports.nodePort: 30001 is the health check node port of \
             Service default/a: it is not served",
        ]
    );
    assert_eq!(
        found(vec![check_node("a", 1, 2), node_port(1)]),
        [
            "IPv4 NodePort 30001/tcp",
            "Service default/a: spec.healthCheckNodePort: 30001 is a NodePort of Service \
             default/n: it is not served",
        ]
    );
}
