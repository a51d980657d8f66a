//! Tests of the metrics and announcements of the agent.

use sluice_plan::testing;

use super::*;

/// The value of one line of the exposition.
fn value(world: &World, series: &str) -> f64 {
    let text = world.metrics.text().expect("complete");
    let mut lines = text.lines();
    let line = lines.find_map(|it| it.strip_prefix(series)?.strip_prefix(' '));
    let line = line.unwrap_or_else(|| panic!("no {series} in\n{text}"));
    line.parse().expect("a number")
}

#[track_caller]
fn check(world: &World, expected: &[(&str, f64)]) {
    for (series, expected) in expected {
        assert_eq!(value(world, series), *expected, "{series}");
    }
}

fn node(leaving: bool) -> Event {
    testing::node(if leaving { "node-a leaving" } else { "node-a" })
}

/// A slice whose change happened this many milliseconds after `since`.
fn triggered(service: &str, endpoint: &str, at: i64) -> Event {
    match slice(service, &[endpoint]) {
        Event::EndpointSlice(Change::Set(slice)) => {
            let mut slice = Arc::unwrap_or_clone(slice);
            slice.triggered = Some(at);
            Event::EndpointSlice(Change::Set(Arc::new(slice)))
        }
        other => other,
    }
}

#[test]
fn what_is_planned_is_counted_as_it_comes_and_goes() {
    let mut world = World::synced();
    world.say(web());
    world.say([testing::service(
        "both 10.96.0.7 fd00:96::7 192.0.2.7 http:80@30080 NodePort itp=local etp=local",
    )]);
    world.say(testing::endpoints("both:http", "10.0.1.5:80 [fd00::5]:80"));
    world.step();
    let v4 = |name: &str| format!("sluice_{name}{{ip_family=\"IPv4\"}}");
    check(
        &world,
        &[
            ("sluice_services", 2.0),
            (&v4("service_ports"), 2.0),
            (&v4("frontends"), 3.0),
            (&v4("endpoints"), value(&world, &v4("endpoints"))),
            ("sluice_service_ports{ip_family=\"IPv6\"}", 1.0),
        ],
    );
    let dropped = |policy: &str, family: &str| {
        let name = "kubeproxy_sync_proxy_rules_no_local_endpoints_total";
        format!("{name}{{ip_family=\"{family}\",traffic_policy=\"{policy}\"}}")
    };
    for family in ["IPv4", "IPv6"] {
        assert_eq!(value(&world, &dropped("internal", family)), 1.0);
        assert_eq!(value(&world, &dropped("external", family)), 1.0);
    }
    world.say([
        Event::Service(Change::Delete(name("both"))),
        Event::Service(Change::Delete(name("both"))),
        Event::Service(Change::Delete(name("web"))),
    ]);
    world.step();
    check(
        &world,
        &[
            ("sluice_services", 0.0),
            (&v4("service_ports"), 0.0),
            (&v4("frontends"), 0.0),
            (&v4("endpoints"), 0.0),
            (&dropped("internal", "IPv6"), 0.0),
            (&dropped("external", "IPv4"), 0.0),
        ],
    );
}

#[test]
fn changes_wait_until_a_sync_succeeds() {
    let mut world = World::synced();
    world.kernel.0.borrow_mut().failures = 1;
    world.say(web());
    world.say(web());
    let pending = |kind: &str| format!("kubeproxy_sync_proxy_rules_{kind}_changes_pending");
    let total = |kind: &str| format!("kubeproxy_sync_proxy_rules_{kind}_changes_total");
    let failures = "kubeproxy_sync_proxy_rules_nftables_sync_failures_total{ip_family=\"IPv6\"}";
    let synced = "sluice_sync_total{result=\"success\"}";
    for (step, waiting, failed, succeeded) in
        [(0, 1.0, 0.0, 1.0), (1, 1.0, 1.0, 1.0), (2, 0.0, 1.0, 2.0)]
    {
        if step > 0 {
            world.step_after(10 * SECOND);
        }
        for kind in ["service", "endpoint"] {
            assert_eq!(value(&world, &pending(kind)), waiting, "{step}: {kind}");
        }
        // kube-proxy's trackers of both families count a Service.
        check(
            &world,
            &[(&total("service"), 4.0), (&total("endpoint"), 2.0)],
        );
        check(&world, &[(failures, failed), (synced, succeeded)]);
        let last = value(&world, "sluice_last_sync_succeeded");
        assert_eq!(last, f64::from(u8::from(step != 1)));
    }
    let count = "kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family=\"IPv4\"}";
    check(
        &world,
        &[
            (count, 3.0),
            ("sluice_objects_written_total{op=\"add\"}", 2.0),
            ("sluice_source_synced", 1.0),
        ],
    );
}

#[test]
fn the_time_from_a_change_to_its_rules_is_measured() {
    let mut world = World::synced();
    let now = Timestamp::now().as_millisecond();
    let v4 = "kubeproxy_network_programming_duration_seconds_count{ip_family=\"IPv4\"}";
    world.say([service("web", "10.96.0.1")]);
    // Before the process started, twice the same, gone again: none of them counts.
    world.say([triggered("web", "10.0.0.1", now - 1_000_000)]);
    world.step();
    check(&world, &[(v4, 0.0)]);
    world.kernel.0.borrow_mut().failures = 1;
    world.say([
        triggered("web", "10.0.0.2", now + 1),
        triggered("web", "10.0.0.3", now + 1),
        triggered("web", "10.0.0.4", now + 2),
    ]);
    world.step();
    check(&world, &[(v4, 0.0)]);
    world.step_after(10 * SECOND);
    check(&world, &[(v4, 2.0)]);
    world.say([
        triggered("web", "10.0.0.5", now + 3),
        Event::EndpointSlice(Change::Delete(name("web"))),
    ]);
    world.step();
    check(&world, &[(v4, 2.0)]);
}

#[test]
fn a_family_that_is_not_served_is_not_counted_as_synced() {
    let mut world = World::new();
    world.kernel.0.borrow_mut().unserved = Some(no_ipv6());
    world.kernel.0.borrow_mut().failures = 1;
    let now = Timestamp::now().as_millisecond();
    world.say([testing::service("web 10.96.0.1 fd00:96::1 :53")]);
    world.say([triggered("web", "fd00::1", now + 1), Event::SYNCED]);
    let shown = |world: &World, family: &str| {
        let of = |name: &str| value(world, &format!("{name}{{ip_family=\"{family}\"}}"));
        let last = of("kubeproxy_sync_proxy_rules_last_timestamp_seconds");
        (
            of("sluice_unserved"),
            of("kubeproxy_sync_proxy_rules_duration_seconds_count"),
            of("kubeproxy_sync_proxy_rules_nftables_sync_failures_total"),
            of("kubeproxy_network_programming_duration_seconds_count"),
            last > 0.0,
        )
    };
    world.step();
    assert_eq!(shown(&world, "IPv4"), (0.0, 1.0, 1.0, 0.0, false));
    assert_eq!(shown(&world, "IPv6"), (1.0, 0.0, 0.0, 0.0, false));
    world.step_after(SECOND);
    assert_eq!(shown(&world, "IPv4"), (0.0, 2.0, 1.0, 0.0, true));
    assert_eq!(shown(&world, "IPv6"), (1.0, 0.0, 0.0, 0.0, false));
    let report = |world: &World| {
        let health = &world.health;
        health.report(Probe::Healthz, Instant::now(), Timestamp::now())
    };
    assert!(report(&world).healthy && report(&world).status["IPv4"].healthy);
    assert!(!report(&world).status["IPv6"].healthy);
    world.kernel.0.borrow_mut().unserved = None;
    world.say([triggered("web", "fd00::2", now + 2)]);
    world.step_after(SECOND);
    assert_eq!(shown(&world, "IPv6"), (0.0, 1.0, 0.0, 2.0, true));
    assert!(report(&world).status["IPv6"].healthy);
}

#[test]
fn the_time_of_a_sync_is_booked_once() {
    let mut world = World::synced();
    let of = |world: &World, series: &str, family: &str| {
        let name = "kubeproxy_sync_proxy_rules_duration_seconds";
        value(world, &format!("{name}_{series}{{ip_family=\"{family}\"}}"))
    };
    // A sync without service ports belongs to both.
    assert_eq!(of(&world, "count", "IPv4"), 1.0);
    assert_eq!(of(&world, "count", "IPv6"), 1.0);
    let both = of(&world, "sum", "IPv4");
    assert_eq!(of(&world, "sum", "IPv6"), both);
    world.say([service("web", "10.96.0.1")]);
    world.step();
    assert_eq!(of(&world, "count", "IPv4"), 2.0);
    assert_eq!(of(&world, "count", "IPv6"), 1.0);
    let web = of(&world, "sum", "IPv4") - both;
    let status = world.agent.service_status();
    let last = status.last_sync.expect("there was one").elapsed_seconds;
    assert!((web - last).abs() < 1e-9, "{web} {last}");
}

#[test]
fn a_family_that_is_lost_in_a_sync_has_failed() {
    let mut world = World::synced();
    world.kernel.0.borrow_mut().failures = 1;
    world.kernel.0.borrow_mut().loses = Some(no_ipv6());
    world.say([testing::service("web 10.96.0.1 fd00:96::1 :53")]);
    let shown = |world: &World| {
        ["IPv4", "IPv6"].map(|family| {
            let of = |name: &str| value(world, &format!("{name}{{ip_family=\"{family}\"}}"));
            (
                of("kubeproxy_sync_proxy_rules_duration_seconds_count"),
                of("kubeproxy_sync_proxy_rules_nftables_sync_failures_total"),
            )
        })
    };
    world.step();
    assert_eq!(shown(&world), [(2.0, 0.0), (2.0, 1.0)]);
    world.step_after(SECOND);
    assert_eq!(shown(&world), [(3.0, 0.0), (2.0, 1.0)]);
    // Retries that fail are that family's alone.
    if let Some(it) = &mut world.kernel.0.borrow_mut().unserved {
        it.retries = 3;
    }
    world.say([testing::service("more 10.96.0.2 fd00:96::2 :53")]);
    world.step_after(SECOND);
    assert_eq!(shown(&world), [(4.0, 0.0), (2.0, 4.0)]);
    let at = |seconds| {
        let now = Instant::now() + Duration::from_secs(seconds);
        let report = world.health.report(Probe::Livez, now, Timestamp::now());
        (report.healthy, report.status["IPv4"].healthy)
    };
    // It was served before.
    assert_eq!((at(0), at(3600)), ((true, true), (false, true)));
}

/// Otherwise an alert would last for ever where machines have IPv6 and the cluster has not.
#[test]
fn a_family_that_no_service_has_is_not_missed() {
    let mut world = World::synced();
    world.kernel.0.borrow_mut().unserved = Some(no_ipv6());
    let dual = || testing::service("dual 10.96.0.7 fd00:96::7 :53");
    let gone = || Event::Service(Change::Delete(name("dual")));
    for (event, is_missed) in [
        (service("web", "10.96.0.1"), false),
        (dual(), true),
        (gone(), false),
    ] {
        world.say([event]);
        world.step();
        let gauge = value(&world, "sluice_unserved{ip_family=\"IPv6\"}");
        assert_eq!(gauge, f64::from(u8::from(is_missed)));
        let now = (Instant::now(), Timestamp::now());
        let report = world.health.report(Probe::Healthz, now.0, now.1);
        assert_eq!(report.status["IPv6"].healthy, !is_missed);
        assert!(report.healthy && report.status["IPv4"].healthy);
    }
}

#[test]
fn what_a_service_does_not_get_is_announced_once() {
    let mut world = World::synced();
    world.kernel.0.borrow_mut().lacks = Some("10.96.0.2");
    world.say(web());
    world.say([service("zebra", "10.96.0.1"), service("api", "10.96.0.2")]);
    let said = |world: &World| -> Vec<(String, &'static str)> {
        let all = world.announcements.try_iter();
        let all = all.map(|it| {
            assert!(it.is_warning && it.action == "Sync", "{it:?}");
            (it.about.to_string(), it.reason)
        });
        let mut all: Vec<_> = all.collect();
        all.sort_unstable();
        all
    };
    world.step();
    let event = |(about, reason): (&str, _)| (about.to_owned(), reason);
    assert_eq!(
        said(&world),
        [event(("Service default/api", "ServiceRefused"))]
    );
    // An address that moves has two owners for a moment.
    world.step_after(6 * SECOND);
    let expected = [
        ("Service default/zebra", "ClusterIPShared"),
        ("Service default/zebra", "FrontendConflict"),
    ];
    assert_eq!(said(&world), expected.map(event));
    check(
        &world,
        &[
            ("sluice_refused_service_ports", 1.0),
            ("sluice_issues{reason=\"FrontendTaken\"}", 1.0),
        ],
    );
    world.say([service("other", "10.96.0.9")]);
    world.step_after(SECOND);
    assert_eq!(said(&world), [], "they know");
    world.say([Event::Service(Change::Delete(name("web")))]);
    world.step_after(SECOND);
    assert_eq!(said(&world), []);
    check(&world, &[("sluice_issues{reason=\"FrontendTaken\"}", 0.0)]);
    world.say(web());
    world.step_after(SECOND);
    assert_eq!(said(&world), []);
    world.step_after(6 * SECOND);
    assert_eq!(said(&world).len(), 2, "it is lost again");
}

#[test]
fn a_leaving_node_is_told_to_load_balancers() {
    let mut world = World::new();
    let eligible = |world: &World| {
        let report = world
            .health
            .report(Probe::Healthz, Instant::now(), Timestamp::now());
        report.node_eligible
    };
    world.say(web());
    assert_eq!(eligible(&world), Some(true), "nothing is known yet");
    world.say([Event::SYNCED]);
    assert_eq!(eligible(&world), Some(false), "there is no Node");
    world.say([node(false)]);
    assert_eq!(eligible(&world), Some(true));
    world.say([node(true)]);
    assert_eq!(eligible(&world), Some(false));
}

#[test]
fn service_ports_without_endpoints_are_counted_and_a_few_are_named() {
    let count = r#"sluice_service_ports_without_endpoints{ip_family="IPv4"}"#;
    let named = |world: &World| -> Vec<String> {
        let text = world.metrics.text().expect("complete");
        let lines = text.lines();
        let named = lines.filter(|it| it.starts_with("sluice_service_without_endpoints_info{"));
        let name = |it: &str| it.split('"').nth(9).map(str::to_owned);
        named.filter_map(name).collect()
    };
    let mut world = World::synced();
    for number in 10..35 {
        world.say([service(&format!("s{number}"), &format!("10.96.0.{number}"))]);
    }
    world.step();
    check(&world, &[(count, 25.0)]);
    let first = named(&world);
    assert_eq!((first.len(), &*first[0], &*first[19]), (20, "s10", "s29"));
    // A named port stays named, however many others come; a free place is used.
    world.say([service("a", "10.96.0.1"), slice("s12", &["10.1.1.1"])]);
    world.step();
    check(&world, &[(count, 25.0)]);
    let now = named(&world);
    assert_eq!((now.len(), now.contains(&"a".to_owned())), (20, true));
    assert!(!now.contains(&"s12".to_owned()));
    // Endpoints on other nodes count as endpoints.
    world.say([testing::service("far 10.96.0.2 :53 itp=local")]);
    world.say(testing::endpoints("far", "10.1.1.1:53@elsewhere"));
    world.say((10..35).map(|it| Event::Service(Change::Delete(name(&format!("s{it}"))))));
    world.step();
    check(&world, &[(count, 1.0)]);
    assert_eq!(named(&world), ["a"]);
}

#[test]
fn the_number_of_changes_that_were_not_logged_is_logged_without_another_change() {
    let mut world = World::synced();
    for number in 10..50 {
        world.say([service(&format!("s{number}"), &format!("10.96.0.{number}"))]);
    }
    world.step();
    let due = world.agent.changelog.due().expect("more than are shown");
    assert!(world.agent.due(world.now).is_some_and(|it| it <= due));
    world.step_after(2 * SECOND);
    assert_eq!(world.agent.changelog.due(), None);
}
