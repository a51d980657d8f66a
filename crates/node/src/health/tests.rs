use super::*;

/// kube-proxy's default: twice its sync period.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(60);

/// An event in the life of a health state, at a second.
#[derive(Clone, Copy)]
enum Step {
    Wanted(u64),
    Updated(u64),
    Ipv4Updated(u64),
    /// IPv6 was served, and cannot be written any more.
    Ipv6Fails(u64),
    Node(NodeState),
}
use NodeState::{Leaving, Present, Unknown};
use Step::{Ipv4Updated, Ipv6Fails, Node, Updated, Wanted};

struct World {
    health: Arc<Health>,
    start: Instant,
}

impl World {
    fn new(node: NodeObject, steps: &[Step]) -> Self {
        let start = Instant::now();
        let health = Arc::new(Health::new(node, time(0)));
        let clock = health.clock(HEALTH_TIMEOUT, start);
        let updated = |at, families: &[IpFamily]| {
            clock.done();
            health.updated(time(at), families);
        };
        for step in steps {
            match *step {
                Wanted(at) => clock.wanted(start + Duration::from_secs(at)),
                Updated(at) => {
                    updated(at, &IpFamily::ALL);
                    clock.family(IpFamily::V6, false, start);
                }
                Ipv6Fails(at) => {
                    let at = start + Duration::from_secs(at);
                    clock.family(IpFamily::V6, true, at);
                }
                Ipv4Updated(at) => updated(at, &[IpFamily::V4]),
                Node(state) => health.set_node(state),
            }
        }
        Self { health, start }
    }

    fn ask(&self, probe: Probe, at: u64) -> HealthReport {
        let now = self.start + Duration::from_secs(at);
        self.health.report(probe, now, time(at))
    }
}

fn time(at: u64) -> Timestamp {
    Timestamp::from_second(at.cast_signed()).expect("in range")
}

#[test]
fn a_wish_that_is_pending_for_a_minute_makes_it_unhealthy() {
    // Steps, second of the question, whether the node is healthy, lastUpdated in seconds.
    let cases: &[(&str, &[Step], u64, bool, u64)] = &[
        ("starting", &[], 0, true, 0),
        ("no first list yet", &[], 59, true, 59),
        ("never a first list", &[], 60, false, 0),
        ("later requests change nothing", &[Wanted(50)], 60, false, 0),
        ("synced", &[Updated(5)], 100, true, 100),
        ("idle", &[Updated(5)], 7200, true, 7200),
        ("wanted", &[Updated(5), Wanted(10)], 69, true, 69),
        ("overdue", &[Updated(5), Wanted(10)], 70, false, 5),
        (
            "the oldest request counts",
            &[Updated(5), Wanted(10), Wanted(40)],
            70,
            false,
            5,
        ),
        (
            "cured",
            &[Updated(5), Wanted(10), Updated(80)],
            90,
            true,
            90,
        ),
    ];
    for (name, steps, at, healthy, updated) in cases {
        let world = World::new(NodeObject::Optional, steps);
        for probe in [Probe::Healthz, Probe::Livez] {
            let report = world.ask(probe, *at);
            assert_eq!(report.healthy, *healthy, "{name}");
            assert_eq!(report.is_ok(), *healthy, "{name}");
            assert_eq!(report.last_updated, time(*updated).to_string(), "{name}");
            assert_eq!(report.current_time, time(*at).to_string(), "{name}");
        }
        let now = world.start + Duration::from_secs(*at);
        assert_eq!(world.health.is_healthy(now), *healthy, "{name}");
    }
}

#[test]
fn it_is_ready_while_it_follows_after_the_first_sync() {
    let cases: &[(&[Step], u64, bool)] = &[
        (&[], 1, false),
        (&[Wanted(1)], 2, false),
        (&[Updated(5)], 6, true),
        (&[Updated(5), Node(Leaving)], 6, true),
        (&[Updated(5), Wanted(10)], 69, true),
        (&[Updated(5), Wanted(10)], 70, false),
    ];
    for (steps, at, ready) in cases {
        let report = World::new(NodeObject::Required, steps).ask(Probe::Readyz, *at);
        assert_eq!(report.is_ok(), *ready);
        assert_eq!((report.healthy, report.node_eligible), (*ready, None));
    }
}

#[test]
fn a_node_that_goes_gets_no_connections_and_needs_no_restart() {
    use NodeObject::{Optional, Required};
    let cases: &[(NodeObject, &[Step], bool)] = &[
        (Required, &[], true),
        (Required, &[Node(Present)], true),
        (Required, &[Node(Unknown)], false),
        (Required, &[Node(Leaving)], false),
        (Required, &[Node(Leaving), Node(Present)], true),
        (Optional, &[Node(Unknown)], true),
        (Optional, &[Node(Leaving)], false),
    ];
    for (node, steps, eligible) in cases {
        let world = World::new(*node, steps);
        let report = world.ask(Probe::Healthz, 1);
        assert_eq!(report.node_eligible, Some(*eligible));
        assert_eq!(report.is_ok(), *eligible);
        assert!(report.healthy, "the proxy itself is well");
        let report = world.ask(Probe::Livez, 1);
        assert_eq!(report.node_eligible, None);
        assert!(report.is_ok());
    }
}

#[test]
fn the_answer_in_json() {
    let world = World::new(NodeObject::Optional, &[Updated(5)]);
    let json = |probe| serde_json::to_string(&world.ask(probe, 7)).expect("plain data");
    let status = r#""status":{"IPv4":{"lastUpdated":"1970-01-01T00:00:05Z","healthy":true},"IPv6":{"lastUpdated":"1970-01-01T00:00:05Z","healthy":true}}"#;
    let times = r#""lastUpdated":"1970-01-01T00:00:07Z","currentTime":"1970-01-01T00:00:07Z""#;
    let healthz = format!(r#"{{{times},"nodeEligible":true,"healthy":true,{status}}}"#);
    assert_eq!(json(Probe::Healthz), healthz);
    let livez = format!(r#"{{{times},"healthy":true,{status}}}"#);
    assert_eq!(json(Probe::Livez), livez);
}

#[test]
fn a_family_that_is_not_served_is_not_up_to_date_and_holds_up_nothing() {
    // Steps, and for each family lastUpdated in seconds and whether it is healthy.
    let check = |steps: &[Step], ipv4: (u64, bool), ipv6: (u64, bool)| {
        let world = World::new(NodeObject::Optional, steps);
        let report = world.ask(Probe::Healthz, 100);
        assert_eq!(report.is_ok(), ipv4.1);
        for (name, (updated, healthy)) in [("IPv4", ipv4), ("IPv6", ipv6)] {
            let expected = FamilyHealth {
                last_updated: time(updated).to_string(),
                healthy,
            };
            assert_eq!(report.status[name], expected, "{name}");
        }
    };
    check(&[Ipv4Updated(5)], (5, true), (0, false));
    let lost = [Updated(5), Ipv4Updated(8), Ipv4Updated(9)];
    check(&lost, (9, true), (5, false));
    check(&[Ipv4Updated(5), Updated(8)], (8, true), (8, true));
    check(&[Ipv4Updated(5), Wanted(6)], (5, false), (0, false));
}

/// One family never hides the other.
#[test]
fn a_family_that_was_served_and_fails_makes_it_unhealthy() {
    let fails = [Updated(5), Ipv6Fails(10), Ipv4Updated(11), Ipv6Fails(20)];
    let again = [&fails[..], &[Updated(80)]].concat();
    for (steps, at, healthy) in [
        (&fails[..], 69, true),
        (&fails, 70, false),
        (&again, 90, true),
    ] {
        let world = World::new(NodeObject::Optional, steps);
        for probe in [Probe::Healthz, Probe::Livez, Probe::Readyz] {
            let report = world.ask(probe, at);
            assert_eq!((report.is_ok(), report.healthy), (healthy, healthy), "{at}");
            assert!(report.status["IPv4"].healthy, "{at}");
            assert_eq!(report.status["IPv6"].healthy, steps.len() > 4, "{at}");
        }
    }
}
