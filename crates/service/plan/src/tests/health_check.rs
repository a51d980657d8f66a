//! Answers to the health checks of load balancers.

use super::*;

#[track_caller]
fn check(about: &str, members: &str, expected: Option<[Option<usize>; 2]>) {
    let mut events = endpoints("web", members);
    events.push(service(&format!("web {about}")));
    let planner = planner(here(), events);
    let checks = &planner.plan().health_checks;
    assert_eq!(checks.values().map(|it| it.local).next(), expected);
}

const ON_NODE: &str = "LoadBalancer 10.96.0.1 :80 etp=local health=32000";

#[test]
fn counts_ready_endpoints_of_this_node() {
    check(
        ON_NODE,
        "10.0.0.1:80@ 10.0.0.2:80@ 10.0.1.1:80",
        Some([Some(2), None]),
    );
    check(ON_NODE, "10.0.1.1:80", Some([Some(0), None]));
    check(ON_NODE, "", Some([Some(0), None]));
}

#[test]
fn an_address_counts_once_over_all_ports() {
    let mut events = endpoints("web:a", "10.0.0.1:80@ 10.0.0.2:80@");
    events.extend(endpoints("web:b", "10.0.0.1:81@"));
    events.push(service(
        "web LoadBalancer 10.96.0.1 a:80 b:81 etp=local health=32000",
    ));
    let planner = planner(here(), events);
    let found = planner.plan().health_checks.values().next();
    assert_eq!(found.map(|it| it.local), Some([Some(2), None]));
}

#[test]
fn each_family_for_itself() {
    let both = "LoadBalancer 10.96.0.1 fd00:96::1 :80 etp=local health=32000";
    check(both, "10.0.0.1:80@ [fd00::1]:80", Some([Some(1), Some(0)]));
}

#[test]
fn only_load_balancers_with_the_local_policy_have_one() {
    check("NodePort 10.96.0.1 :80 etp=local health=32000", "", None);
    check("LoadBalancer 10.96.0.1 :80 health=32000", "", None);
    check("LoadBalancer 10.96.0.1 :80 etp=local", "", None);
    check("LoadBalancer headless :80 etp=local health=32000", "", None);
}

#[test]
fn changes_are_told() {
    let mut planner = planner(here(), [service(&format!("web {ON_NODE}"))]);
    for event in endpoints("web", "10.0.0.1:80@") {
        planner.absorb(event);
    }
    assert!(planner.replan().health_checks);
    planner.absorb(service("web 10.96.0.1 :80"));
    assert!(planner.replan().health_checks);
    assert!(planner.plan().health_checks.is_empty());
}

#[test]
fn answers_where_node_ports_answer() {
    use crate::settings::NodePortAddresses;
    let local = ["127.0.0.1", "192.168.0.1", "10.0.0.1", "fe80::1", "fd00::1"];
    let local = local.iter().map(|it| it.parse().unwrap()).collect();
    let within = |nets: &[&str]| {
        NodePortAddresses::Within(nets.iter().map(|it| it.parse().unwrap()).collect())
    };
    for (node_ports, expected) in [
        (NodePortAddresses::Primary, "{192.168.0.1}"),
        (within(&["10.0.0.0/8"]), "{10.0.0.1, ::}"),
        (
            within(&["10.0.0.0/8", "fd00::/8", "fe80::/10"]),
            "{10.0.0.1, fd00::1}",
        ),
        (within(&[]), "{0.0.0.0, ::}"),
    ] {
        let settings = Settings {
            node_ports,
            ..here()
        };
        let planner = planner(settings, [node("node-a 192.168.0.1")]);
        let found = planner.plan().node.health_check_addresses(&local);
        assert_eq!(format!("{found:?}"), expected);
    }
}
