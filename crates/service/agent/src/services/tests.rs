use std::sync::mpsc::{self, Receiver};
use std::thread;

use sluice_dns_agent::{NameEvent, Names};
use sluice_model::{Change, NamespacedName, Notice, Protocol};
use sluice_nftables::Nftables;
use sluice_node::metrics::Metrics;
use sluice_node::{Hold, Latest, NodeObject, Probe, Runtime};
use sluice_plan::Event;
use sluice_plan::stale::Keep;
use sluice_plane::{ServiceBackend as _, Unserved, testing};

use super::*;
use crate::health_check;
use crate::metrics;

mod metered;
mod names;
mod parts;

/// kube-proxy's default: twice its sync period.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(60);

const SECOND: Duration = Duration::from_secs(1);

type Fake = testing::Fake;

struct World {
    kernel: Fake,
    agent: Services<Fake>,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    of_services: Arc<ServiceMetrics>,
    announcements: Receiver<Announcement>,
    stale: Receiver<Vec<StaleFlows>>,
    taken_over: Receiver<Vec<IpFamily>>,
    names: Hold<NameEvent>,
    /// The events for a DNS server.
    named: Vec<NameEvent>,
    now: Instant,
}

impl World {
    fn new() -> Self {
        Self::with(Periods::default())
    }

    fn with(periods: Periods) -> Self {
        let kernel = Fake::default();
        let now = Instant::now();
        let node = NodeObject::Required;
        let health = Arc::new(Health::new(node, Timestamp::now()));
        let (metrics, of_services) = metrics::for_test::<Nftables>();
        let (announce, announcements) = mpsc::channel();
        let (sender, stale) = mpsc::channel();
        let (take_over, taken_over) = mpsc::channel();
        let outputs = Outputs {
            clock: health.clock(HEALTH_TIMEOUT, now),
            health: health.clone(),
            metrics: of_services.clone(),
            health_checks: health_check::health_checks().0,
            announce,
            stale: sender,
            foreign_changes: Some(Box::new(|_| {})),
            set_sysctls: Box::new(|_| {}),
            take_over: Box::new(move |families| take_over.send(families.to_vec()).unwrap()),
            awaited: true,
            carried: Carried::default(),
        };
        let settings = Settings::for_node("node-a");
        Self {
            agent: Services::new(settings, kernel.clone(), periods, outputs),
            kernel,
            health,
            metrics,
            of_services,
            announcements,
            stale,
            taken_over,
            names: Hold::new(Names::wait),
            named: Vec::new(),
            now,
        }
    }

    fn synced() -> Self {
        let mut world = Self::new();
        world.say([Event::SYNCED]);
        world.step();
        world
    }

    fn say(&mut self, events: impl IntoIterator<Item = Event>) {
        let events: Latest<TimedEvent> = events.into_iter().map(TimedEvent::from).collect();
        let events: Vec<TimedEvent> = events.into_iter().collect();
        let of_names = events.iter().filter_map(|it| names::event(&it.event));
        self.say_names(of_names.collect::<Vec<_>>());
        self.agent.absorb(events);
    }

    fn say_names(&mut self, events: Vec<NameEvent>) {
        self.named.extend(self.names.add(events));
    }

    /// One turn of the loop at the present time.
    fn step(&mut self) {
        self.step_at(self.now.max(Instant::now()));
    }

    /// One turn of the loop as if this time had passed.
    fn step_after(&mut self, time: Duration) {
        self.now = self.now.max(Instant::now()) + time;
        self.step_at(self.now);
    }

    fn step_at(&mut self, now: Instant) {
        if let Some(settled) = self.agent.step(now) {
            self.named.extend(self.names.settle(&settled));
        }
    }

    fn objects(&self) -> Vec<String> {
        let kernel = self.kernel.0.borrow();
        let lines = kernel.objects.iter();
        lines
            .filter(|(key, _)| *key != "table")
            .map(|(key, value)| format!("{key} -> {value}"))
            .collect()
    }

    fn applied(&self) -> usize {
        self.kernel.0.borrow().applied
    }

    fn observed(&self) -> usize {
        self.kernel.0.borrow().observed
    }

    fn is_healthy(&self, after: Duration) -> bool {
        let now = self.now.max(Instant::now()) + after;
        self.health.is_healthy(now)
    }
}

fn name(name: &str) -> NamespacedName {
    NamespacedName::new("default", name)
}

/// A Service with one port, UDP or TCP by its name.
fn service(service: &str, ip: &str) -> Event {
    let protocol = protocol(service);
    sluice_plan::testing::service(&format!("{service} {ip} :53/{protocol}"))
}

fn protocol(service: &str) -> Protocol {
    match service {
        "dns" => Protocol::Udp,
        _ => Protocol::Tcp,
    }
}

fn slice(service: &str, endpoints: &[&str]) -> Event {
    let ports = format!(":5353/{}", protocol(service));
    let slice = sluice_objects::slice(service, service, &ports, &endpoints.join(" "));
    Event::EndpointSlice(Change::Set(Arc::new(slice)))
}

fn web() -> [Event; 2] {
    [service("web", "10.96.0.1"), slice("web", &["10.0.0.1"])]
}

const WEB: &str = "10.96.0.1:53/tcp -> 10.0.0.1:5353";

#[test]
fn an_unsynced_source_writes_nothing() {
    let mut world = World::new();
    world.say(web());
    world.step_after(3600 * SECOND);
    assert_eq!(world.agent.due(world.now), None);
    assert_eq!((world.observed(), world.applied()), (0, 0));
    assert!(!world.is_healthy(Duration::ZERO), "it waits for too long");
    world.say([Event::SYNCED]);
    world.step();
    assert_eq!(world.objects(), [WEB]);
    assert!(world.is_healthy(Duration::ZERO));
}

#[test]
fn a_burst_costs_one_pass() {
    let mut world = World::synced();
    let before = world.applied();
    world.say(web());
    world.say([slice("web", &[])]);
    world.say([slice("web", &["10.0.0.1"])]);
    world.step();
    assert_eq!(world.applied(), before + 1);
    assert_eq!(world.objects(), [WEB]);
    world.step();
    assert_eq!(world.applied(), before + 1, "nothing more to write");
}

#[test]
fn a_failure_is_retried_and_no_change_is_lost() {
    let mut world = World::synced();
    world.kernel.0.borrow_mut().failures = 3;
    world.say(web());
    world.step();
    assert_eq!(world.objects(), [""; 0]);
    world.step();
    assert_eq!(world.applied(), 3, "a difference that failed: all at once");
    world.step();
    assert_eq!(world.applied(), 3, "not before the retry is due");

    // Other news in between: both changes are in the sync that succeeds.
    world.say([service("api", "10.96.0.2")]);
    world.step_after(SECOND);
    assert_eq!(world.objects(), [""; 0]);
    let status = world.agent.service_status();
    assert_eq!((status.failures, status.synced), (3, false));
    let error = status.last_sync.and_then(|it| it.error);
    assert_eq!(error.as_deref(), Some("apply: out of memory"));
    world.step_after(2 * SECOND);
    assert_eq!(world.objects(), [WEB, "10.96.0.2:53/tcp -> "]);
    assert_eq!(
        world.observed(),
        4,
        "the kernel was read after each failure"
    );
    assert!(world.agent.service_status().synced);
    assert_eq!(
        world.agent.service_status().repairs,
        0,
        "own failures are no drift"
    );
}

#[test]
fn what_had_to_wait_is_done_in_time_and_what_it_finds_is_repaired() {
    let mut world = World::synced();
    world.kernel.0.borrow_mut().waits = Some(5 * SECOND);
    world.say(web());
    world.step();
    let upkeeps = |world: &World| world.kernel.0.borrow().upkeeps;
    let before = upkeeps(&world);
    world.step_after(4 * SECOND);
    assert_eq!(upkeeps(&world), before, "not before its time");
    world.step_after(SECOND);
    assert_eq!(upkeeps(&world), before + 1);
    world.kernel.0.borrow_mut().objects.clear();
    world.kernel.0.borrow_mut().disturbed = Some("everything is gone".to_owned());
    world.step_after(5 * SECOND);
    assert_eq!(world.objects(), [WEB]);
    assert_eq!(world.agent.service_status().repairs, 1);
}

/// Several times in a row, too: no other program is involved.
#[test]
fn what_can_be_served_again_is_written_and_is_no_repair() {
    let mut world = World::synced();
    world.kernel.0.borrow_mut().waits = Some(SECOND);
    world.say(web());
    world.step();
    for _ in 0..5 {
        world.kernel.0.borrow_mut().objects.clear();
        world.kernel.0.borrow_mut().recovered = Some("IPv6 can be served now".to_owned());
        let observed = world.observed();
        world.step_after(SECOND);
        assert_eq!(world.observed(), observed + 1);
        assert_eq!(world.objects(), [WEB]);
    }
    assert_eq!(world.agent.service_status().repairs, 0);
    let metrics = &world.of_services.ours;
    assert_eq!(metrics.drift_repaired.get(), 0);
}

#[test]
fn a_failure_that_lasts_makes_the_node_unhealthy() {
    let mut world = World::synced();
    world.kernel.0.borrow_mut().failures = 100;
    world.say(web());
    world.step();
    assert!(world.is_healthy(59 * SECOND));
    world.step_after(40 * SECOND);
    assert!(!world.is_healthy(21 * SECOND), "the oldest request counts");
    world.kernel.0.borrow_mut().failures = 0;
    world.step_after(30 * SECOND);
    assert!(world.is_healthy(3000 * SECOND));
}

#[test]
fn a_refused_port_is_reported_and_tried_again() {
    let mut world = World::synced();
    world.kernel.0.borrow_mut().lacks = Some("10.96.0.2");
    world.say(web());
    world.say([service("api", "10.96.0.2")]);
    world.step();
    assert_eq!(world.objects(), [WEB], "all others are programmed");
    let status = world.agent.service_status();
    assert!(status.synced && status.refused.len() == 1, "{status:?}");
    assert_eq!(status.refused[0].service_port, "default/api");
    assert!(status.refused[0].reason.contains("not here"), "{status:?}");

    let observed = world.observed();
    world.step_after(60 * SECOND);
    assert_eq!(world.observed(), observed, "it is still not there");
    world.kernel.0.borrow_mut().lacks = None;
    world.step_after(60 * SECOND);
    assert_eq!(world.observed(), observed + 1, "a resync serves it");
    assert_eq!(world.objects(), [WEB, "10.96.0.2:53/tcp -> "]);
    assert!(world.agent.service_status().refused.is_empty());
}

#[test]
fn other_choices_of_the_operator_are_written_at_once() {
    let mut world = World::synced();
    world.say([sluice_plan::testing::service(
        "web 10.96.0.1 :53 ext=192.0.2.1",
    )]);
    world.step();
    let both = ["10.96.0.1:53/tcp -> ", "192.0.2.1:53/tcp -> "];
    assert_eq!(world.objects(), both);
    let settings = Settings {
        external_ips: Some(Vec::new()),
        ..Settings::for_node("node-a")
    };
    let periods = Periods {
        resync: SECOND,
        ..Periods::default()
    };
    world.agent.configure(settings, periods, HEALTH_TIMEOUT);
    world.step();
    assert_eq!(world.objects(), ["10.96.0.1:53/tcp -> "]);
    let observed = world.observed();
    world.step_after(SECOND);
    assert_eq!(world.observed(), observed + 1, "the new period counts");
}

#[test]
fn foreign_changes_are_repaired_and_counted() {
    let mut world = World::synced();
    world.say(web());
    world.step();
    world.kernel.0.borrow_mut().objects.clear();
    for _ in 0..3 {
        world.agent.kernel_changed("table ip fake".to_owned());
    }
    let observed = world.observed();
    world.step();
    assert_eq!(world.observed(), observed + 1, "a burst is one comparison");
    assert_eq!(world.objects(), [WEB]);
    assert_eq!(world.agent.service_status().repairs, 1);
}

/// Another program changes rules of its own while a change of ours waits.
#[test]
fn own_changes_are_no_repair() {
    let mut world = World::synced();
    world.say(web());
    world.step();
    for port in ["10.1.1.1", "10.1.1.2", "10.1.1.3", "10.1.1.4", "10.1.1.5"] {
        world.say([service("dns", "10.96.0.2"), slice("dns", &[port])]);
        world.agent.kernel_changed("table ip nat".to_owned());
        world.step_after(SECOND);
        assert_eq!(world.objects().len(), 2);
    }
    assert_eq!(world.agent.service_status().repairs, 0);
    assert!(!world.agent.pace.is_conflict());
    assert_eq!(world.of_services.ours.drift_repaired.get(), 0);
}

/// A notice about legacy tables does not name the change: changes of other programs' rules cost a check as well.
#[test]
fn checks_that_find_nothing_are_no_conflict() {
    let mut world = World::synced();
    world.say(web());
    world.step();
    let drift = |world: &mut World| {
        world.agent.kernel_changed("table ip fake".to_owned());
    };
    for _ in 1..=3 {
        drift(&mut world);
        world.step();
    }
    assert_eq!(world.agent.service_status().repairs, 0);
    for repairs in 1..=4 {
        world.kernel.0.borrow_mut().objects.clear();
        drift(&mut world);
        world.step_after(SECOND);
        assert_eq!(world.objects(), [WEB]);
        assert_eq!(world.agent.pace.is_conflict(), repairs > 3, "{repairs}");
    }
}

#[test]
fn what_others_did_before_the_first_sync_is_no_drift() {
    let mut world = World::new();
    world.agent.kernel_changed("before".to_owned());
    world.say(web());
    world.say([Event::SYNCED]);
    world.step();
    assert_eq!(world.objects(), [WEB]);
    assert_eq!(
        (world.observed(), world.agent.service_status().repairs),
        (1, 0)
    );
    assert!(world.agent.service_status().synced);
}

#[test]
fn the_resync_repairs_what_nobody_saw() {
    let mut world = World::synced();
    world.say(web());
    world.step();
    world.kernel.0.borrow_mut().objects.clear();
    world.step_after(3599 * SECOND);
    assert_eq!(world.objects(), [""; 0]);
    world.step_after(SECOND);
    assert_eq!(world.objects(), [WEB]);
    assert_eq!(world.agent.service_status().repairs, 1);
}

#[test]
fn flows_are_stale_only_after_the_write() {
    let mut world = World::synced();
    world.say([
        service("dns", "10.96.0.10"),
        slice("dns", &["10.0.0.1", "10.0.0.2"]),
    ]);
    world.step();
    let first = world.stale.try_iter().flatten().count();
    assert_eq!(first, 1, "flows from before the agent started");

    world.kernel.0.borrow_mut().failures = 1;
    world.say([slice("dns", &["10.0.0.2"])]);
    world.step();
    assert_eq!(world.stale.try_iter().count(), 0);
    // Until the write succeeds the endpoint comes back and another goes.
    world.say([slice("dns", &["10.0.0.1"])]);
    world.step_after(SECOND);
    let stale: Vec<StaleFlows> = world.stale.try_iter().flatten().collect();
    let (stale, untranslated): (Vec<_>, Vec<_>) = stale
        .into_iter()
        .partition(|it| it.keep != Keep::Translated);
    assert_eq!(stale.len(), 1);
    assert_eq!(untranslated.len(), 1, "the rules may have been away");
    let Keep::Endpoints(keep) = &stale[0].keep else {
        panic!("{stale:?}");
    };
    let keep: Vec<String> = keep.iter().map(ToString::to_string).collect();
    assert_eq!(keep, ["10.0.0.1:5353"]);
}

#[test]
fn what_happens_after_the_first_sync_happens_once_and_not_before() {
    let mut world = World::new();
    world.kernel.0.borrow_mut().failures = 1;
    world.say(web());
    world.say([Event::SYNCED]);
    world.step();
    assert_eq!(world.kernel.0.borrow().started, 0);
    world.step_after(SECOND);
    assert_eq!(world.kernel.0.borrow().started, 1);
    world.say([slice("web", &[])]);
    world.step();
    assert_eq!(world.kernel.0.borrow().started, 1);
}

#[test]
fn status_counts_and_names() {
    let mut world = World::synced();
    world.say(web());
    world.say([
        service("dns", "10.96.0.10"),
        service("zebra", "10.96.0.1"),
        slice("dns", &["10.0.0.1", "10.0.0.2"]),
        Event::Notice(Notice::Problems {
            origin: "web.yaml".into(),
            problems: vec!["line 3: spec.ports: is missing".to_owned()],
        }),
    ]);
    world.step();
    let status = world.agent.service_status();
    assert_eq!(status.services, 3);
    assert_eq!(status.frontends, 2);
    assert_eq!(status.endpoints, 3);
    assert_eq!(status.conntrack_deleted, 0);
    let reasons: Vec<&str> = status.issues.iter().map(|it| it.reason.as_str()).collect();
    assert_eq!(reasons, ["ClusterIPShared", "FrontendTaken", "NoNode"]);
    assert_eq!(status.problems[0].origin, "web.yaml");
    let last = status.last_sync.expect("there was one");
    assert_eq!((last.added, last.full, last.error), (2, false, None));
}

#[test]
fn objects_that_are_not_up_to_date_are_in_status_and_readyz() {
    let mut world = World::synced();
    let stale = "API server: Services: stale since 2026-01-01T00:00:00Z: no answer for 10 s";
    for problems in [vec![stale.to_owned()], Vec::new()] {
        world.say([Event::Notice(Notice::Problems {
            origin: Notice::API_SERVER.into(),
            problems: problems.clone(),
        })]);
        world.step();
        let status = world.agent.service_status();
        assert_eq!(status.stale(), problems.first().map(String::as_str));
        let since = (!problems.is_empty()).then_some("2026-01-01T00:00:00Z");
        assert_eq!(status.stale_since(), since);
        let ask = |probe| world.health.report(probe, Instant::now(), Timestamp::now());
        assert_eq!(ask(Probe::Readyz).stale, problems);
        assert!(ask(Probe::Readyz).is_ok());
        assert!(ask(Probe::Livez).stale.is_empty());
    }
}

/// A server that never answers is named by the probe that waits for the first list.
#[test]
fn what_is_stale_before_the_first_list_is_in_readyz() {
    let mut world = World::new();
    let stale = "API server: Services: stale since 2026-01-01T00:00:00Z: no answer for 10 s";
    world.say([Event::Notice(Notice::Problems {
        origin: Notice::API_SERVER.into(),
        problems: vec![stale.to_owned()],
    })]);
    world.step();
    let report = world
        .health
        .report(Probe::Readyz, Instant::now(), Timestamp::now());
    assert!(!report.is_ok());
    assert_eq!(report.stale, [stale]);
}

#[test]
fn a_large_service_is_written_in_parts_and_the_others_between_them() {
    let mut world = World::with(Periods {
        min_sync: 10 * SECOND,
        ..Periods::default()
    });
    world.say(web());
    world.say([Event::SYNCED]);
    world.step();
    let ips: Vec<String> = (0..8_000)
        .map(|it| format!("192.0.{}.{}", it / 250, it % 250))
        .collect();
    let ports = "a:1 b:2 c:3 d:4 e:5 f:6";
    let huge = format!("huge 10.96.0.9 {ports} ext={}", ips.join(","));
    world.say([sluice_plan::testing::service(&huge)]);
    world.step_after(10 * SECOND);
    let mut parts = 1;
    while !world.agent.service_status().synced {
        parts += 1;
        assert_eq!(
            world.agent.due(world.now),
            Some(world.now),
            "without a pause"
        );
        let endpoint = format!("10.0.1.{parts}");
        world.say([slice("web", &[&endpoint])]);
        world.step();
        let object = format!("10.96.0.1:53/tcp -> {endpoint}:5353");
        assert!(world.objects().contains(&object), "part {parts}");
    }
    assert!(parts >= 2, "{parts}");
    assert_eq!(world.objects().len(), 1 + 6 * 8_001);
    assert_eq!(world.observed(), 1, "no part reads the kernel");
}

#[test]
fn what_is_not_served_is_named_and_holds_up_nothing() {
    let mut world = World::synced();
    world.kernel.0.borrow_mut().unserved = Some(no_ipv6());
    world.say(web());
    world.step();
    let status = world.agent.service_status();
    let named = "IPv6 is not written until this works, what is there stays: no room";
    assert_eq!(status.unserved.as_deref(), Some(named));
    assert!(status.synced, "{status:?}");
}

/// A probe works and the write that follows fails: the problem was never solved.
#[test]
fn a_family_is_served_again_when_it_is_written() {
    let mut world = World::synced();
    world.kernel.0.borrow_mut().unserved = Some(no_ipv6());
    world.say(web());
    world.step();
    let is_reported = |world: &World| world.agent.findings.has(&findings::Topic::Kernel);
    let works = |world: &World| {
        world.kernel.0.borrow_mut().recovered = Some("IPv6 works".to_owned());
    };
    assert!(is_reported(&world));
    works(&world);
    world.say([slice("web", &["10.0.0.9"])]);
    world.step();
    assert!(is_reported(&world), "nothing is written yet");
    let mut kernel = world.kernel.0.borrow_mut();
    (kernel.failures, kernel.loses) = (1, Some(no_ipv6()));
    kernel.objects.clear();
    drop(kernel);
    world.step_after(SECOND);
    assert!(is_reported(&world), "the write failed");
    works(&world);
    for _ in 0..3 {
        world.step_after(2 * SECOND);
    }
    assert!(!is_reported(&world));
}

/// A program that hangs may take longer than a sync may be late: the process is not well in between.
#[test]
fn a_family_fails_from_the_sync_on_that_lost_it() {
    let mut world = World::synced();
    world.say(web());
    world.say([sluice_plan::testing::service(
        "default/six fd00:10:96::9 :80",
    )]);
    world.step();
    let mut kernel = world.kernel.0.borrow_mut();
    (kernel.failures, kernel.loses) = (1, Some(no_ipv6()));
    drop(kernel);
    world.say([slice("web", &["10.0.0.9"])]);
    world.step_after(10 * SECOND);
    let begun = world.now;
    world.step_after(10 * SECOND);
    assert!(world.agent.service_status().synced);
    let is_healthy = |after| world.health.is_healthy(begun + after);
    assert!(is_healthy(HEALTH_TIMEOUT - SECOND));
    assert!(!is_healthy(HEALTH_TIMEOUT));
    assert!(!is_healthy(2 * HEALTH_TIMEOUT));
}

/// Then no family is named as the one that fails: all do.
#[test]
fn a_family_is_not_served_again_because_the_other_one_fails_too() {
    let mut world = World::synced();
    world.kernel.0.borrow_mut().unserved = Some(no_ipv6());
    world.say(web());
    world.step();
    let is_reported = |world: &World| world.agent.findings.has(&findings::Topic::Kernel);
    assert!(is_reported(&world));
    let mut kernel = world.kernel.0.borrow_mut();
    (kernel.unserved, kernel.failures) = (None, 1);
    drop(kernel);
    world.say([slice("web", &["10.0.0.9"])]);
    world.step();
    assert!(is_reported(&world), "nothing was written");
    world.step_after(2 * SECOND);
    assert!(!is_reported(&world), "all was");
}

fn no_ipv6() -> Unserved {
    Unserved {
        family: IpFamily::V6,
        reason: "no room".to_owned(),
        retries: 0,
    }
}

#[test]
fn what_others_left_of_a_family_stays_until_it_is_served() {
    let mut world = World::new();
    let unserved = |world: &World, it| world.kernel.0.borrow_mut().unserved = it;
    let taken_over = |world: &World| world.taken_over.try_iter().collect::<Vec<_>>();
    world.kernel.0.borrow_mut().failures = 1;
    unserved(&world, Some(no_ipv6()));
    world.say([Event::SYNCED]);
    world.step();
    assert!(taken_over(&world).is_empty(), "the sync failed");
    world.step_after(SECOND);
    assert_eq!(taken_over(&world), [vec![IpFamily::V4]]);
    assert_eq!(world.kernel.0.borrow().started, 1);
    world.say(web());
    world.step();
    assert!(taken_over(&world).is_empty(), "still the same");
    for again in [None, Some(no_ipv6()), None] {
        unserved(&world, again);
        world.agent.kernel_changed("somebody".to_owned());
        world.step_after(SECOND);
    }
    assert_eq!(taken_over(&world), [IpFamily::ALL.to_vec()], "once");
    assert_eq!(world.kernel.0.borrow().started, 1);
}

#[test]
fn deleted_services_leave_the_kernel() {
    let mut world = World::synced();
    world.say(web());
    world.step();
    world.say([Event::Service(Change::Delete(name("web")))]);
    world.step();
    assert_eq!(world.objects(), [""; 0]);
}

#[test]
fn the_loop_answers_syncs_and_stops() {
    let (sender, started) = mpsc::channel();
    let working = thread::spawn(move || {
        let world = World::new();
        let kernel = world.kernel.clone();
        let mut runtime = Runtime::new("node-a", Fake::NAME);
        let inbox = runtime.inbox();
        sender.send((inbox.handle(), runtime.control())).unwrap();
        runtime.add(inbox, world.agent);
        runtime.run();
        let objects = kernel.0.borrow().objects.len();
        (objects, kernel.0.borrow().applied)
    });
    let (services, control) = started.recv().expect("the loop runs");
    let mut first: Vec<Event> = web().into();
    first.push(Event::SYNCED);
    services.events(first.into_iter().map(TimedEvent::from));
    let deadline = Instant::now() + 10 * SECOND;
    let synced = std::iter::repeat_with(|| {
        let answer = services.ask(|it: &mut Services<Fake>| it.service_status().synced);
        answer.blocking_recv().expect("an answer")
    });
    let answers = synced.take_while(|it| !it);
    answers.for_each(|_| assert!(Instant::now() < deadline, "never synced"));
    assert!(control.stop(), "the loop runs");
    assert_eq!(working.join().expect("no panic"), (2, 1), "rules stay");
}
