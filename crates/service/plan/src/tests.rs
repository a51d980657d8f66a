//! Which frontends there are, who owns them and what they lead to.

mod admission;
mod claims;
mod health_check;
mod limit;
mod node_dns;
mod port_names;

use super::*;
use crate::Event;
use crate::settings::Settings;
use crate::testing::{NODE, cidr, endpoints, node, planner, service, slices};
use crate::{Route, Verdict};
use sluice_model::{Change, LocalAddresses};

fn print_verdict(port: &PortPlan, verdict: Verdict) -> String {
    let scope = match verdict {
        Verdict::Drop => return "drop".into(),
        Verdict::Reject => return "reject".into(),
        Verdict::Balance(scope) => scope,
    };
    let pool = port.pool(scope).expect("a balance has its pool");
    let members = pool.endpoints().iter();
    let members = members.map(|it| format!("{}{}", it.addr, if it.may_be_here { "@" } else { "" }));
    members.collect::<Vec<_>>().join(" ")
}

/// A line for each frontend: its route and who may use it.
fn print(plan: &Plan) -> Vec<String> {
    let mut lines = Vec::new();
    for port in plan.ports.values() {
        for it in &port.frontends {
            let to = |verdict| print_verdict(port, verdict);
            let route = match it.route {
                Route::Internal(verdict) => format!("internal -> {}", to(verdict)),
                Route::External(verdict) => format!("external -> {}", to(verdict)),
                Route::ExternalLocal { far } => {
                    let near = to(Verdict::Balance(Scope::Cluster));
                    format!("near -> {near}, far -> {}", to(far))
                }
            };
            let sources = it.allowed_sources.iter();
            let sources: String = sources.map(|it| format!(" from {it:?}")).collect();
            lines.push(format!(
                "{} {} {route}{sources}",
                port.key.name, it.frontend
            ));
        }
    }
    lines
}

fn here() -> Settings {
    Settings::for_node(NODE)
}

#[track_caller]
fn check_events(events: Vec<Event>, expected: &[&str]) {
    let planner = planner(here(), events);
    assert_eq!(print(planner.plan()), expected);
}

/// `about`: the words that follow `web 10.96.0.1 :80`. `members`: its endpoints. The node is in
/// the zone `east`. The only caller of the planner for one Service.
#[track_caller]
fn check(about: &str, members: &str, expected: &[&str]) {
    let mut events = endpoints("web", members);
    events.push(service(&format!("web 10.96.0.1 :80 {about}")));
    events.push(node("node-a 192.168.0.1 zone=east"));
    let expected: Vec<String> = expected
        .iter()
        .map(|it| format!("default/web {it}"))
        .collect();
    check_events(
        events,
        &expected.iter().map(String::as_str).collect::<Vec<_>>(),
    );
}

mod service_ports {
    use super::*;

    #[test]
    fn every_kind_of_frontend_of_the_family() {
        let mut events = endpoints("web", "10.0.1.5:8080 [fd00::5]:8080");
        events.push(service(
            "web LoadBalancer 10.96.0.1 fd00:96::1 :80@30080 ext=192.0.2.1,2001:db8::1 \
             lb=203.0.113.1 lb-proxy=203.0.113.2",
        ));
        check_events(
            events,
            &[
                "default/web 10.96.0.1:80/tcp internal -> 10.0.1.5:8080",
                "default/web 203.0.113.1:80/tcp external -> 10.0.1.5:8080",
                "default/web 192.0.2.1:80/tcp external -> 10.0.1.5:8080",
                "default/web IPv4 NodePort 30080/tcp external -> 10.0.1.5:8080",
                "default/web [fd00:96::1]:80/tcp internal -> [fd00::5]:8080",
                "default/web [2001:db8::1]:80/tcp external -> [fd00::5]:8080",
                "default/web IPv6 NodePort 30080/tcp external -> [fd00::5]:8080",
            ],
        );
    }

    #[test]
    fn a_family_without_cluster_ip_has_no_frontend() {
        check(
            "NodePort ext=2001:db8::1",
            "",
            &["10.96.0.1:80/tcp internal -> reject"],
        );
    }

    #[test]
    fn name_and_protocol_are_the_identity() {
        let mut events = endpoints("dns:dns/udp", "10.0.1.5:53");
        events.extend(slices("tcp", "dns:dns/tcp", "10.0.1.6:53"));
        events.extend(slices("other", "dns:other/tcp", "10.0.1.7:53"));
        events.push(service("dns 10.96.0.1 dns:53/udp dns:53/tcp"));
        check_events(
            events,
            &[
                "default/dns:dns 10.96.0.1:53/tcp internal -> 10.0.1.6:53",
                "default/dns:dns 10.96.0.1:53/udp internal -> 10.0.1.5:53",
            ],
        );
    }

    #[test]
    fn none_of_ours() {
        let events = vec![
            service("a headless :80"),
            service("b 10.96.0.1 ExternalName :80"),
            service("c 10.96.0.2 :80 proxy-name=cilium"),
            service("d :80"),
            service("e 10.96.0.3"),
        ];
        let planner = planner(here(), events);
        assert_eq!(print(planner.plan()), Vec::<String>::new());
        let issues: Vec<_> = planner.issues().map(|it| it.kind.name()).collect();
        assert_eq!(issues, ["NoNode"]);
    }

    /// Fields that remain from an earlier type of the Service have no effect.
    #[test]
    fn external_policy_counts_only_where_it_is_external() {
        let expected = [
            "10.96.0.1:80/tcp internal -> 10.0.1.5:80",
            "203.0.113.1:80/tcp external -> 10.0.1.5:80",
        ];
        check("etp=local lb=203.0.113.1", "10.0.1.5:80", &expected);
        let expected = [
            "10.96.0.1:80/tcp internal -> 10.0.1.5:80",
            "192.0.2.1:80/tcp near -> 10.0.1.5:80, far -> drop",
        ];
        check("etp=local ext=192.0.2.1", "10.0.1.5:80", &expected);
    }

    #[test]
    fn affinity_is_kept_in_seconds() {
        for (about, seconds) in [("", None), ("affinity=600", Some(600))] {
            let web = service(&format!("web 10.96.0.1 :80 {about}"));
            let planner = planner(here(), [web]);
            let port = planner.plan().ports.values().next().unwrap();
            assert_eq!(port.affinity_seconds, seconds);
        }
    }

    #[test]
    fn source_ranges_guard_load_balancer_addresses_only() {
        check(
            "LoadBalancer lb=203.0.113.1 ext=192.0.2.1 ranges=198.51.100.0/24,fd00::/8",
            "",
            &[
                "10.96.0.1:80/tcp internal -> reject",
                "203.0.113.1:80/tcp external -> reject from [198.51.100.0/24]",
                "192.0.2.1:80/tcp external -> reject",
            ],
        );
    }

    #[test]
    fn source_ranges_with_the_node_admit_every_virtual_ip() {
        let from = "from [192.168.0.0/24, 203.0.113.1/32, 203.0.113.9/32]";
        check(
            "LoadBalancer lb=203.0.113.1,203.0.113.9 lb-proxy=203.0.113.5 ranges=192.168.0.7/24",
            "",
            &[
                "10.96.0.1:80/tcp internal -> reject",
                &format!("203.0.113.1:80/tcp external -> reject {from}"),
                &format!("203.0.113.9:80/tcp external -> reject {from}"),
            ],
        );
    }

    #[test]
    fn source_ranges_that_admit_everyone_vanish() {
        for ranges in ["10.0.0.0/8,0.0.0.0/0", "fd00::/8"] {
            check(
                &format!("LoadBalancer lb=203.0.113.1 ranges={ranges}"),
                "",
                &[
                    "10.96.0.1:80/tcp internal -> reject",
                    "203.0.113.1:80/tcp external -> reject",
                ],
            );
        }
    }
}

mod which_endpoints {
    use super::*;

    #[track_caller]
    fn check_cluster_ip(about: &str, members: &str, expected: &str) {
        check(
            about,
            members,
            &[&format!("10.96.0.1:80/tcp internal -> {expected}")],
        );
    }

    #[test]
    fn ready_ones() {
        let members = "10.0.1.5:80@ 10.0.1.6:80! 10.0.1.7:80 10.0.1.8:80~";
        check_cluster_ip("", members, "10.0.1.5:80@ 10.0.1.7:80");
    }

    #[test]
    fn ports_may_differ_from_slice_to_slice() {
        check_cluster_ip("", "10.0.1.5:80 10.0.1.5:81", "10.0.1.5:80 10.0.1.5:81");
    }

    #[test]
    fn terminating_ones_when_nothing_is_ready() {
        let members = "10.0.1.5:80~ 10.0.1.6:80! 10.0.1.7:80~! 10.0.1.8:80~=west";
        check_cluster_ip("", members, "10.0.1.5:80 10.0.1.8:80");
    }

    #[test]
    fn ready_though_it_terminates_counts_as_ready() {
        check_cluster_ip("", "10.0.1.5:80+ 10.0.1.6:80~", "10.0.1.5:80");
    }

    #[test]
    fn no_endpoint_rejects() {
        check_cluster_ip("", "", "reject");
        check_cluster_ip("", "10.0.1.6:80! 10.0.1.7:80~!", "reject");
        check_cluster_ip("itp=local", "10.0.1.6:80@!", "reject");
    }

    #[test]
    fn internal_policy_local() {
        check_cluster_ip("itp=local", "10.0.1.5:80@ 10.0.1.6:80", "10.0.1.5:80@");
        check_cluster_ip("itp=local", "10.0.1.5:80@~ 10.0.1.6:80", "10.0.1.5:80@");
        check_cluster_ip("itp=local", "10.0.1.6:80", "drop");
        check_cluster_ip("itp=local", "10.0.1.6:80~", "drop");
    }

    #[test]
    fn internal_policy_local_ignores_hints() {
        let members = "10.0.1.5:80@=west 10.0.1.6:80=east";
        check_cluster_ip("itp=local", members, "10.0.1.5:80@");
    }

    #[test]
    fn hints_for_our_zone() {
        check_cluster_ip("", "10.0.1.5:80=west 10.0.1.6:80=east", "10.0.1.6:80");
        check_cluster_ip("", "10.0.1.5:80=west=east 10.0.1.6:80=west", "10.0.1.5:80");
    }

    #[test]
    fn hints_that_not_every_ready_endpoint_has_do_not_count() {
        check_cluster_ip(
            "",
            "10.0.1.5:80 10.0.1.6:80=east",
            "10.0.1.5:80 10.0.1.6:80",
        );
        let not_ready = "10.0.1.5:80! 10.0.1.6:80=east 10.0.1.7:80=west";
        check_cluster_ip("", not_ready, "10.0.1.6:80");
    }

    #[test]
    fn hints_that_name_only_others_do_not_count() {
        check_cluster_ip(
            "",
            "10.0.1.5:80=west 10.0.1.6:80=west",
            "10.0.1.5:80 10.0.1.6:80",
        );
        let ours_not_ready = "10.0.1.5:80=west 10.0.1.6:80=east!";
        check_cluster_ip("", ours_not_ready, "10.0.1.5:80");
    }

    #[test]
    fn hints_for_our_node_come_first() {
        let members = "10.0.1.5:80=east#node-b 10.0.1.6:80=west#node-a";
        check_cluster_ip("", members, "10.0.1.6:80");
        let not_all = "10.0.1.5:80=east 10.0.1.6:80=west#node-a";
        check_cluster_ip("", not_all, "10.0.1.5:80");
    }

    #[test]
    fn hints_mean_nothing_on_a_node_without_zone() {
        let mut events = endpoints("web", "10.0.1.5:80=west 10.0.1.6:80=east");
        events.extend([service("web 10.96.0.1 :80"), node("node-a")]);
        let both = "default/web 10.96.0.1:80/tcp internal -> 10.0.1.5:80 10.0.1.6:80";
        check_events(events, &[both]);
    }

    #[test]
    fn duplicates_count_once_and_the_living_one_wins() {
        let slice = |name, members| slices(name, "web", members);
        for (first, second, expected) in [
            ("10.0.1.5:80", "10.0.1.5:80", "10.0.1.5:80"),
            ("10.0.1.5:80~", "10.0.1.5:80@", "10.0.1.5:80@"),
            ("10.0.1.5:80@", "10.0.1.5:80~", "10.0.1.5:80@"),
            ("10.0.1.5:80!", "10.0.1.5:80@", "10.0.1.5:80@"),
            ("10.0.1.5:80@", "10.0.1.5:80!", "reject"),
        ] {
            let mut events = slice("first", first);
            events.extend(slice("second", second));
            events.push(service("web 10.96.0.1 :80"));
            check_events(
                events,
                &[&format!(
                    "default/web 10.96.0.1:80/tcp internal -> {expected}"
                )],
            );
        }
    }

    /// The lines of the ClusterIP and of an external IP.
    #[track_caller]
    fn check_both(about: &str, members: &str, internal: &str, external: &str) {
        check(
            &format!("ext=192.0.2.1 {about}"),
            members,
            &[
                &format!("10.96.0.1:80/tcp internal -> {internal}"),
                &format!("192.0.2.1:80/tcp {external}"),
            ],
        );
    }

    #[test]
    fn external_policy_local() {
        let both = "10.0.1.5:80@ 10.0.1.6:80";
        let far = |to: &str| format!("near -> {both}, far -> {to}");
        check_both("etp=local", both, both, &far("10.0.1.5:80@"));
        let remote = "10.0.1.6:80";
        check_both(
            "etp=local",
            remote,
            remote,
            "near -> 10.0.1.6:80, far -> drop",
        );
        let terminating = "10.0.1.5:80@~ 10.0.1.6:80";
        check_both(
            "etp=local",
            terminating,
            remote,
            "near -> 10.0.1.6:80, far -> 10.0.1.5:80@",
        );
        check_both("etp=local", "10.0.1.5:80@!", "reject", "external -> reject");
    }

    #[test]
    fn policies_do_not_touch_each_other() {
        let both = "10.0.1.5:80@ 10.0.1.6:80";
        check_both(
            "itp=local",
            both,
            "10.0.1.5:80@",
            &format!("external -> {both}"),
        );
        let remote = "10.0.1.6:80";
        check_both("itp=local", remote, "drop", "external -> 10.0.1.6:80");
        let far = "near -> 10.0.1.6:80, far -> drop";
        check_both("itp=local etp=local", remote, "drop", far);
    }

    #[test]
    fn an_endpoint_of_the_other_family_is_none_of_ours() {
        let mut events = endpoints("web", "10.0.1.5:80");
        if let Some(Event::EndpointSlice(Change::Set(slice))) = events.first_mut() {
            let slice = std::sync::Arc::make_mut(slice);
            slice.endpoints[0].address = "fd00::5".parse().unwrap();
        }
        events.push(service("web 10.96.0.1 :80"));
        check_events(events, &["default/web 10.96.0.1:80/tcp internal -> reject"]);
    }

    #[test]
    fn a_headless_slice_is_left_alone() {
        let mut events = endpoints("web", "10.0.1.5:80");
        if let Some(Event::EndpointSlice(Change::Set(slice))) = events.first_mut() {
            std::sync::Arc::make_mut(slice).headless = true;
        }
        events.push(service("web 10.96.0.1 :80"));
        check_events(events, &["default/web 10.96.0.1:80/tcp internal -> reject"]);
    }
}

/// DNS names objects that a proxy leaves alone: they change neither rules nor issues.
#[test]
fn what_only_dns_needs_is_left_alone() {
    let mut events = vec![
        node(NODE),
        service("web 10.96.0.1 http:80@30080 NodePort lb=203.0.113.1"),
        service("db headless http:5432"),
        service(
            "other 10.96.0.2 http:80@30080 LoadBalancer lb=203.0.113.1 ext=203.0.113.2 proxy-name=x",
        ),
        service("far ExternalName http:80"),
    ];
    let mut slices = Vec::new();
    for name in ["web", "db", "other", "far"] {
        slices.extend(endpoints(&format!("{name}:http"), "10.0.1.5:8080"));
    }
    if let Some(Event::EndpointSlice(Change::Set(slice))) = slices.get_mut(1) {
        std::sync::Arc::make_mut(slice).headless = true;
    }
    events.extend(slices);
    let planner = planner(here(), events);
    let lines = print(planner.plan());
    assert!(!lines.is_empty());
    assert!(
        lines.iter().all(|it| it.starts_with("default/web:http ")),
        "{lines:?}"
    );
    let issues: Vec<String> = planner.issues().map(|it| it.to_string()).collect();
    assert_eq!(issues, [""; 0]);
}

mod conflicts {
    use super::*;
    use sluice_model::NamespacedName;

    fn delete(name: &str) -> Event {
        Event::Service(Change::Delete(NamespacedName::new("default", name)))
    }

    /// `expected`: who has a frontend, and the issues, each up to its colon-separated advice.
    #[track_caller]
    fn check(events: Vec<Event>, owners: &[&str], issues: &[&str]) {
        let mut all = vec![node(NODE)];
        all.extend(events);
        let mut planner = Planner::new(here());
        for event in all {
            planner.absorb(event);
            let _ = planner.replan();
        }
        let plan = planner.plan();
        let ports = plan.ports.values();
        let found = ports.flat_map(|port| {
            let frontends = port.frontends.iter();
            frontends.map(|it| format!("{} {}", port.key.name.service.name, it.frontend))
        });
        assert_eq!(found.collect::<Vec<_>>(), owners);
        let found: Vec<String> = planner.issues().map(|it| it.to_string()).collect();
        assert_eq!(found.len(), issues.len(), "{found:#?}");
        for (found, expected) in found.iter().zip(issues) {
            assert!(found.starts_with(expected), "{found}");
        }
    }

    const BY_NAME: &[&str] = &["a 10.96.0.1:80/tcp"];

    #[test]
    fn the_first_by_name_wins_among_equals() {
        let issues = [
            "Service default/b: spec.clusterIPs: 10.96.0.1 is also the ClusterIP of Service default/a",
            "Service default/b: 10.96.0.1:80/tcp belongs to Service default/a",
        ];
        let (a, b) = (service("a 10.96.0.1 :80"), service("b 10.96.0.1 :80"));
        check(vec![a.clone(), b.clone()], BY_NAME, &issues);
        check(vec![b, a], BY_NAME, &issues);
    }

    #[test]
    fn the_older_wins_over_the_name() {
        let events = vec![
            service("a 10.96.0.1 :80 created=9"),
            service("b 10.96.0.2 :80@30080 created=5 NodePort"),
            service("c 10.96.0.3 :80@30080 created=3 NodePort"),
            service("d 10.96.0.4 :80@30080 NodePort"),
        ];
        let owners = [
            "a 10.96.0.1:80/tcp",
            "b 10.96.0.2:80/tcp",
            "c 10.96.0.3:80/tcp",
            "c IPv4 NodePort 30080/tcp",
            "d 10.96.0.4:80/tcp",
        ];
        let issues = [
            "Service default/b: IPv4 NodePort 30080/tcp belongs to Service default/c",
            "Service default/d: IPv4 NodePort 30080/tcp belongs to Service default/c",
        ];
        check(events, &owners, &issues);
    }

    #[test]
    fn the_next_in_line_inherits_and_issues_follow_the_holder() {
        let mut events = vec![
            service("a 10.96.0.1 :80 ext=192.0.2.1"),
            service("b 10.96.0.2 :80 ext=192.0.2.1"),
            service("c 10.96.0.3 :80 ext=192.0.2.1"),
        ];
        let issue = |loser: &str, holder: &str| {
            format!("Service default/{loser}: 192.0.2.1:80/tcp belongs to Service default/{holder}")
        };
        let owners = [
            "a 10.96.0.1:80/tcp",
            "a 192.0.2.1:80/tcp",
            "b 10.96.0.2:80/tcp",
            "c 10.96.0.3:80/tcp",
        ];
        check(
            events.clone(),
            &owners,
            &[&issue("b", "a"), &issue("c", "a")],
        );
        events.push(delete("a"));
        let owners = [
            "b 10.96.0.2:80/tcp",
            "b 192.0.2.1:80/tcp",
            "c 10.96.0.3:80/tcp",
        ];
        check(events.clone(), &owners, &[&issue("c", "b")]);
        events.push(service("b 10.96.0.2 :80"));
        let owners = [
            "b 10.96.0.2:80/tcp",
            "c 10.96.0.3:80/tcp",
            "c 192.0.2.1:80/tcp",
        ];
        check(events.clone(), &owners, &[]);
        events.push(service("b 10.96.0.2 :80 ext=192.0.2.1 created=1"));
        let owners = [
            "b 10.96.0.2:80/tcp",
            "b 192.0.2.1:80/tcp",
            "c 10.96.0.3:80/tcp",
        ];
        check(events, &owners, &[&issue("c", "b")]);
    }

    #[test]
    fn a_shared_cluster_ip_serves_both_where_ports_differ() {
        let events = vec![service("a 10.96.0.1 :80"), service("b 10.96.0.1 :81")];
        let shared = "Service default/b: spec.clusterIPs: 10.96.0.1 is also the ClusterIP of \
                      Service default/a";
        check(
            events,
            &["a 10.96.0.1:80/tcp", "b 10.96.0.1:81/tcp"],
            &[shared],
        );
    }

    #[test]
    fn the_guard_of_a_shared_cluster_ip_is_inherited() {
        let events = [
            service("a 10.96.0.1 x:80 y:81"),
            service("b 10.96.0.1 z:82"),
        ];
        let mut planner = planner(here(), events);
        let owners = |planner: &Planner| -> Vec<String> {
            let ports = planner.plan().ports.values();
            let owners = ports.filter(|it| it.owned_cluster_ip.is_some());
            owners.map(|it| it.key.name.to_string()).collect()
        };
        assert_eq!(owners(&planner), ["default/a:x"]);
        planner.absorb(service("a 10.96.0.1 y:81"));
        let _ = planner.replan();
        assert_eq!(owners(&planner), ["default/a:y"]);
        planner.absorb(delete("a"));
        let _ = planner.replan();
        assert_eq!(owners(&planner), ["default/b:z"]);
    }

    #[test]
    fn ports_of_one_service_can_collide_too() {
        let events = vec![service("a 10.96.0.1 x:80 y:80")];
        let issue = "Service default/a:y: 10.96.0.1:80/tcp belongs to Service default/a:x";
        check(events, BY_NAME, &[issue]);
    }
}

mod the_node {
    use super::*;
    use crate::settings::{LocalDetector, NodePortAddresses};
    use sluice_model::IpFamily;

    #[track_caller]
    fn check(
        settings: Settings,
        events: Vec<Event>,
        seen: impl Fn(&FamilyPlan) -> String,
        expected: [&str; 2],
    ) {
        let planner = planner(settings, events);
        let found = IpFamily::ALL.map(|it| seen(planner.plan().node.family(it)));
        assert_eq!(found, expected);
    }

    fn with(detector: LocalDetector) -> Settings {
        Settings {
            local_detector: detector,
            ..here()
        }
    }

    #[test]
    fn a_node_without_pod_cidr_is_an_issue_while_the_detector_needs_it() {
        let reasons = |planner: &Planner| -> Vec<&str> {
            planner.issues().map(|it| it.kind.name()).collect()
        };
        let mut planner = planner(with(LocalDetector::NodeCidr), vec![]);
        assert_eq!(reasons(&planner), ["NoNode", "NoPodCIDR"]);
        planner.absorb(node("node-a 192.168.0.1"));
        let _ = planner.replan();
        assert_eq!(reasons(&planner), ["NoPodCIDR"]);
        planner.absorb(node("node-a 192.168.0.1 10.244.0.0/24"));
        let _ = planner.replan();
        assert_eq!(reasons(&planner), [""; 0]);
        planner.absorb(node("node-a 192.168.0.1"));
        planner.configure(with(LocalDetector::None));
        let _ = planner.replan();
        assert_eq!(reasons(&planner), [""; 0]);
    }

    #[test]
    fn its_first_address_of_each_family_is_primary() {
        let ip = |it: &FamilyPlan| format!("{:?}", it.node_ip);
        let a = "node-a 192.168.0.1 fd00::1 192.168.0.2";
        check(
            here(),
            vec![node(a), node("node-b 1.1.1.1")],
            ip,
            ["Some(192.168.0.1)", "Some(fd00::1)"],
        );
        let fallback = Settings {
            fallback_node_ips: vec!["10.0.0.1".parse().unwrap()],
            ..here()
        };
        check(fallback.clone(), vec![], ip, ["Some(10.0.0.1)", "None"]);
        check(
            fallback.clone(),
            vec![node("node-a fd00::1")],
            ip,
            ["None", "Some(fd00::1)"],
        );
        check(
            fallback,
            vec![node("node-a")],
            ip,
            ["Some(10.0.0.1)", "None"],
        );
    }

    #[test]
    fn each_detector() {
        let seen =
            |it: &FamilyPlan| format!("{:?} {:?}", it.local_traffic, it.cluster_ip_masquerade);
        let nets = vec![
            "10.244.0.9/16".parse().unwrap(),
            "10.245.0.0/16".parse().unwrap(),
        ];
        let nobody = "None Nobody";
        check(here(), vec![], seen, [nobody, nobody]);
        let of = "Some(From(10.244.0.0/16)) NotLocalPods";
        check(
            with(LocalDetector::ClusterCidrs(nets)),
            vec![],
            seen,
            [of, nobody],
        );
        let nodes = vec![node("node-a 10.244.7.0/24 10.244.8.0/24 fd00:7::/64")];
        let of = [
            "Some(From(10.244.7.0/24)) NotLocalPods",
            "Some(From(fd00:7::/64)) NotLocalPods",
        ];
        check(with(LocalDetector::NodeCidr), nodes, seen, of);
        check(
            with(LocalDetector::NodeCidr),
            vec![],
            seen,
            [nobody, nobody],
        );
        let of = "Some(Interface(\"cni0\")) NotLocalPods";
        check(
            with(LocalDetector::Bridge("cni0".into())),
            vec![],
            seen,
            [of, of],
        );
        let of = "Some(InterfacePrefix(\"veth\")) NotLocalPods";
        check(
            with(LocalDetector::InterfacePrefix("veth".into())),
            vec![],
            seen,
            [of, of],
        );
        let all = Settings {
            masquerade_all: true,
            ..here()
        };
        check(all, vec![], seen, ["None Everybody", "None Everybody"]);
    }

    #[test]
    fn node_port_addresses() {
        let seen = |it: &FamilyPlan| format!("{:?}", it.node_ports);
        let events = || vec![node("node-a 192.168.0.1")];
        check(
            here(),
            events(),
            seen,
            ["Only(Some(192.168.0.1))", "Only(None)"],
        );
        check(
            here(),
            vec![node("node-a 127.0.0.1 ::1")],
            seen,
            ["Only(None)", "Only(None)"],
        );
        let within = |nets: &[&str]| Settings {
            node_ports: NodePortAddresses::Within(
                nets.iter().map(|it| it.parse().unwrap()).collect(),
            ),
            ..here()
        };
        check(within(&[]), events(), seen, ["AnyLocal", "AnyLocal"]);
        check(
            within(&["10.0.0.0/8", "0.0.0.0/0"]),
            events(),
            seen,
            ["AnyLocal", "AnyLocal"],
        );
        let of = ["LocalWithin([10.0.0.0/8])", "AnyLocal"];
        check(within(&["10.0.0.7/8", "10.1.0.0/16"]), events(), seen, of);
    }

    #[test]
    fn loopback_answers_where_that_is_chosen_and_covered() {
        let seen = |it: &FamilyPlan| it.node_ports_on_loopback.to_string();
        let with = |nets: Option<&[&str]>| Settings {
            localhost_node_ports: true,
            node_ports: match nets {
                None => NodePortAddresses::Primary,
                Some(nets) => {
                    let nets = nets.iter().map(|it| it.parse().unwrap());
                    NodePortAddresses::Within(nets.collect())
                }
            },
            ..here()
        };
        let cases: [(Option<&[&str]>, &str); 4] = [
            (Some(&[]), "true"),
            (Some(&["127.0.0.0/8", "10.0.0.0/8"]), "true"),
            (Some(&["10.0.0.0/8"]), "false"),
            (None, "false"),
        ];
        for (nets, expected) in cases {
            check(with(nets), vec![], seen, [expected, "false"]);
        }
        let not_chosen = Settings {
            localhost_node_ports: false,
            ..with(Some(&[]))
        };
        check(not_chosen, vec![], seen, ["false", "false"]);
    }

    #[test]
    fn its_own_addresses_are_the_machines_or_else_the_node_objects() {
        let seen = |it: &FamilyPlan| format!("{:?} {:?}", it.addresses, it.node_port_addresses());
        let nodes = || node("node-a 192.168.0.1 fd00::1");
        let any = Settings {
            node_ports: NodePortAddresses::Within(vec!["192.168.0.0/16".parse().unwrap()]),
            ..here()
        };
        let of = ["[192.168.0.1] [192.168.0.1]", "[fd00::1] [fd00::1]"];
        check(any.clone(), vec![nodes()], seen, of);
        let all = [
            "127.0.0.1",
            "10.0.0.7",
            "192.168.0.9",
            "169.254.1.1",
            "::1",
            "fe80::1",
            "fd00::9",
        ];
        let machine = || {
            Event::LocalAddresses(LocalAddresses {
                all: all.iter().map(|it| it.parse().unwrap()).collect(),
                default_route: Vec::new(),
            })
        };
        let of = [
            "[10.0.0.7, 192.168.0.9] [192.168.0.9]",
            "[fd00::9] [fd00::9]",
        ];
        check(any, vec![nodes(), machine()], seen, of);
        let of = [
            "[10.0.0.7, 192.168.0.9] [192.168.0.1]",
            "[fd00::9] [fd00::1]",
        ];
        check(here(), vec![nodes(), machine()], seen, of);
    }

    #[test]
    fn ranges_of_cluster_ips_are_merged() {
        let seen = |it: &FamilyPlan| format!("{:?}", it.service_cidrs);
        let events = vec![cidr("10.96.0.0/16,10.96.7.0/24,fd00:96::/112")];
        check(here(), events, seen, ["[10.96.0.0/16]", "[fd00:96::/112]"]);
    }
}
