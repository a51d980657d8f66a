use std::io::{Read, Write};
use std::net::TcpStream;
use std::num::NonZeroU16;
use std::sync::mpsc::{self, Receiver};
use std::thread;

use jiff::Timestamp;
use sluice_http::Own;
use sluice_lab::eventually;
use sluice_nftables::Nftables;
use sluice_node::metrics::Metrics;
use sluice_node::{NodeObject, StepClock};

use super::*;
use crate::metrics::for_test;
use crate::testing::free_port;

/// kube-proxy's default: twice its sync period.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(60);

const WITHIN: Duration = Duration::from_secs(20);

/// Servers on a thread of their own, as in the process.
struct World {
    checks: HealthChecks,
    health: Arc<Health>,
    clock: StepClock,
    metrics: Arc<Metrics>,
    announcements: Receiver<Announcement>,
}

impl World {
    fn new() -> Self {
        Self::with(1024)
    }

    fn with(descriptors: usize) -> Self {
        let (checks, servers) = health_checks();
        let (announce, announcements) = mpsc::channel();
        let (node, now) = (NodeObject::Optional, Instant::now());
        let health = Arc::new(Health::new(node, Timestamp::now()));
        let clock = health.clock(HEALTH_TIMEOUT, now);
        let (metrics, of_services) = for_test::<Nftables>();
        let budget = Budget::new(descriptors, Own::default(), metrics.clone());
        let links = Links {
            health: health.clone(),
            metrics: of_services,
            announce,
        };
        thread::spawn(move || {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            let runtime = builder.enable_all().build().expect("a runtime");
            runtime.block_on(servers.run(links, budget));
        });
        Self {
            checks,
            health,
            clock,
            metrics,
            announcements,
        }
    }

    /// `(name, port, endpoints here)`, on loopback.
    fn update(&self, checks: &[(&str, u16, usize)]) {
        self.update_on(&["127.0.0.1"], checks);
    }

    fn update_on(&self, addresses: &[&str], checks: &[(&str, u16, usize)]) {
        let (addresses, checks) = (addresses.iter(), checks.iter());
        let addresses = addresses.map(|it| it.parse().expect("an address"));
        let checks = checks.map(|(name, port, count)| (service(name), check(*port, *count)));
        self.checks
            .update(&checks.collect(), &addresses.collect(), |_| false);
    }

    fn announced(&self) -> Announcement {
        self.announcements.recv_timeout(WITHIN).expect("announced")
    }
}

fn service(name: &str) -> NamespacedName {
    NamespacedName::new("default", name)
}

fn check(port: u16, count: usize) -> HealthCheck {
    HealthCheck {
        port: NonZeroU16::new(port).expect("not zero"),
        local: [Some(count); 2],
    }
}

/// The whole answer; `None` when the connection is refused.
fn ask(address: &str, port: u16) -> Option<String> {
    let mut stream = TcpStream::connect((address, port)).ok()?;
    let request = b"GET /any/path HTTP/1.0\r\nHost: node\r\n\r\n";
    stream.write_all(request).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

/// Asks until the answer is as expected.
#[track_caller]
fn until(what: &str, mut met: impl FnMut() -> bool) {
    let is_met = eventually(WITHIN, || met().then_some(()));
    assert!(is_met.is_some(), "in vain: {what}");
}

fn answers(port: u16, part: &str) -> bool {
    ask("127.0.0.1", port).is_some_and(|it| it.contains(part))
}

#[test]
fn the_answer_is_kube_proxys() {
    let world = World::new();
    let port = free_port().port();
    world.update(&[("web", port, 2)]);
    until("it listens", || ask("127.0.0.1", port).is_some());
    let answer = ask("127.0.0.1", port).expect("it listens");
    let (head, body) = answer.split_once("\r\n\r\n").expect("head and body");
    assert!(head.starts_with("HTTP/1.0 200"), "{head}");
    for field in [
        "Content-Type: application/json",
        "X-Content-Type-Options: nosniff",
        "X-Load-Balancing-Endpoint-Weight: 2",
    ] {
        assert!(head.contains(field), "{head}");
    }
    let expected = "{\n\t\"service\": {\n\t\t\"namespace\": \"default\",\n\t\t\"name\": \"web\"\n\t},\n\t\"localEndpoints\": 2,\n\t\"serviceProxyHealthy\": true\n}";
    assert_eq!(body, expected);
    until("counted", || {
        let text = world.metrics.text().expect("complete");
        text.contains("sluice_health_check_services 1\n")
    });

    world.update(&[("web", port, 0)]);
    until("no endpoint here", || answers(port, "HTTP/1.0 503"));
    assert!(answers(port, "\"localEndpoints\": 0"));
    world.update(&[("web", port, 1)]);
    until("one again", || answers(port, "HTTP/1.0 200"));
    let long_ago = Instant::now().checked_sub(HEALTH_TIMEOUT);
    world.clock.done();
    world.health.updated(Timestamp::now(), &IpFamily::ALL);
    world
        .clock
        .wanted(long_ago.expect("this machine has been up for a minute"));
    let answer = ask("127.0.0.1", port).expect("it listens");
    assert!(answer.starts_with("HTTP/1.0 503"), "{answer}");
    assert!(
        answer.contains("\"serviceProxyHealthy\": false"),
        "{answer}"
    );
    world.update(&[]);
    until("closed", || ask("127.0.0.1", port).is_none());
    drop(world.announcements);
}

#[test]
fn listeners_stay_open_unless_their_port_changes() {
    let world = World::new();
    let (first, second) = (free_port().port(), free_port().port());
    world.update(&[("web", first, 1)]);
    until("it listens", || ask("127.0.0.1", first).is_some());
    let mut kept = TcpStream::connect(("127.0.0.1", first)).expect("it listens");
    let mut request = || {
        let asked = kept.write_all(b"GET / HTTP/1.1\r\nHost: node\r\n\r\n");
        let mut answer = [0; 4096];
        asked.and_then(|()| kept.read(&mut answer)).unwrap_or(0)
    };
    assert!(request() > 0);
    world.update(&[("api", second, 1), ("web", first, 7)]);
    until("the other listens", || ask("127.0.0.1", second).is_some());
    assert!(request() > 0, "the connection of a kept listener goes on");
    world.update(&[("api", first, 1), ("web", second, 1)]);
    until("they changed places", || {
        answers(first, "\"api\"") && answers(second, "\"web\"")
    });
    assert_eq!(
        request(),
        0,
        "a request for one Service gets no count of another"
    );
    assert!(world.announcements.try_recv().is_err());
}

#[test]
fn a_port_that_others_have_is_announced_once_and_had_later() {
    let world = World::new();
    let other = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
    let port = other.local_addr().expect("bound").port();
    world.update(&[("web", port, 1)]);
    let announced = world.announced();
    assert_eq!(announced.about, Reference::to::<Service>(service("web")));
    assert_eq!(announced.reason, "FailedToStartServiceHealthcheck");
    assert!(
        announced.note.contains(&format!("127.0.0.1:{port}")),
        "{announced:?}"
    );
    world.update(&[("web", port, 2)]);
    let free = free_port().port();
    world.update(&[("api", free, 1), ("web", port, 2)]);
    until("others are served", || ask("127.0.0.1", free).is_some());
    assert!(world.announcements.try_recv().is_err(), "said once");
    drop(other);
    until("it comes by itself", || {
        answers(port, "\"localEndpoints\": 2")
    });
}

#[test]
fn of_two_services_with_one_port_the_second_is_reported() {
    let world = World::new();
    let port = free_port().port();
    world.update(&[("a", port, 1), ("b", port, 1)]);
    let announced = world.announced();
    assert_eq!(announced.about, Reference::to::<Service>(service("b")));
    assert!(announced.note.contains("default/a"), "{announced:?}");
    until("the first is served", || answers(port, "\"a\""));
    world.update(&[("b", port, 1)]);
    until("the second takes over", || answers(port, "\"b\""));
}

#[test]
fn listeners_follow_the_addresses() {
    let world = World::new();
    let port = free_port().port();
    let check = [("web", port, 1)];
    world.update_on(&["127.0.0.2"], &check);
    until("the first address", || ask("127.0.0.2", port).is_some());
    assert_eq!(ask("127.0.0.3", port), None);
    world.update_on(&["127.0.0.3"], &check);
    until("the second address", || ask("127.0.0.3", port).is_some());
    until("the first is closed", || ask("127.0.0.2", port).is_none());
    world.update_on(&["127.0.0.3", "0.0.0.0", "::"], &[]);
    until("closed", || ask("127.0.0.3", port).is_none());
    world.update_on(&["0.0.0.0", "::"], &check);
    until("every IPv4 address", || ask("127.0.0.2", port).is_some());
    until("every IPv6 address", || ask("::1", port).is_some());
    assert!(world.announcements.try_recv().is_err());
}

#[test]
fn a_family_without_cluster_ip_has_no_listener() {
    let wanted = Wanted {
        checks: [(
            service("web"),
            HealthCheck {
                local: [Some(3), None],
                ..check(31_000, 0)
            },
        )]
        .into(),
        addresses: ["192.0.2.1", "2001:db8::1"]
            .map(|it| it.parse().expect("an address"))
            .into(),
    };
    let (targets, lost) = targets(&wanted);
    let addresses: Vec<String> = targets.keys().map(ToString::to_string).collect();
    assert_eq!(addresses, ["192.0.2.1:31000"]);
    assert!(lost.is_empty());
}

#[test]
fn listeners_leave_descriptors_for_the_rest() {
    let world = World::with(8);
    let ports: Vec<u16> = (0..3).map(|_| free_port().port()).collect();
    world.update(&[("a", ports[0], 1), ("b", ports[1], 1)]);
    until("both listen", || {
        answers(ports[0], "\"a\"") && answers(ports[1], "\"b\"")
    });
    world.update(&[("a", ports[0], 1), ("b", ports[1], 1), ("c", ports[2], 1)]);
    let announced = world.announced();
    assert_eq!(announced.about, Reference::to::<Service>(service("c")));
    let expected = "2 health check node ports are open, the most for this limit of open files";
    assert!(announced.note.contains(expected), "{announced:?}");
    assert!(answers(ports[0], "\"a\"") && answers(ports[1], "\"b\""));
    world.update(&[("b", ports[1], 1), ("c", ports[2], 1)]);
    until("there is room", || answers(ports[2], "\"c\""));
}
