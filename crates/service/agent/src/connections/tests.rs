use std::net::SocketAddr;

use prometheus::{Registry, TextEncoder};
use sluice_model::{Change, IpFamily, NamespacedName, Protocol};
use sluice_plan::Event;
use sluice_plan::settings::Settings;
use sluice_plan::testing::{endpoints, planner, service};
use sluice_plan::{Frontend, Planner, PortPlan};
use sluice_plane::{ConnectionCount, Counter, Load};
use sluice_reconcile::BackendError;

use super::ledger::EndpointTotal;
use super::*;
use crate::metrics::connections::ConnectionMetrics;

const MAP: &str = "endpoints";

/// A count from `10.96.0.10:80 0 10.0.1.5:80 7`: the address that was dialled (or `node:30080`), slot, endpoint,
/// value; then, where they are known, weight, active and inactive connections.
fn count(text: &str) -> ConnectionCount {
    let words: Vec<&str> = text.split(' ').collect();
    let protocol = Protocol::Tcp;
    let frontend = match words[0].strip_prefix("node:") {
        Some(port) => Frontend::NodePort {
            family: IpFamily::V4,
            port: port.parse().expect("a port"),
            protocol,
        },
        None => {
            let dialled: SocketAddr = words[0].parse().expect("address and port");
            Frontend::Address {
                addr: dialled.ip(),
                port: dialled.port(),
                protocol,
            }
        }
    };
    let number = |index: usize| words[index].parse().expect("a number");
    ConnectionCount {
        frontend,
        counter: Counter::Slot(MAP, frontend, words[1].parse().expect("a slot")),
        endpoint: words[2].parse().expect("address and port"),
        connections: number(3),
        load: (words.len() > 4).then(|| Load {
            weight: words[4].parse().expect("a weight"),
            active: number(5),
            inactive: number(6),
        }),
    }
}

fn reading(lines: &[&str]) -> Reading {
    Reading {
        counts: lines.iter().map(|it| count(it)).collect(),
        is_complete: true,
    }
}

fn interrupted(lines: &[&str]) -> Reading {
    Reading {
        is_complete: false,
        ..reading(lines)
    }
}

fn plans(planner: &Planner) -> Vec<Arc<PortPlan>> {
    planner.plan().ports.values().cloned().collect()
}

fn two_services() -> Planner {
    let mut events = vec![
        service("default/web NodePort 10.96.0.10 :80@30080"),
        service("default/api 10.96.0.11 :80"),
    ];
    events.extend(endpoints("default/web", "10.0.1.5:80 10.0.1.6:80"));
    events.extend(endpoints("default/api", "10.0.1.7:80"));
    planner(Settings::for_node("node-a"), events)
}

/// `10.0.1.5:80 3`, and where they are known `10.0.1.5:80 3 weight 1 active 2 inactive 0 draining`
fn one(endpoint: &SocketAddr, total: &EndpointTotal) -> String {
    let mut text = format!("{endpoint} {}", total.connections);
    if let Some(load) = total.load {
        let (weight, active, inactive) = (load.weight, load.active, load.inactive);
        text += &format!(" weight {weight} active {active} inactive {inactive}");
    }
    if total.draining {
        text += " draining";
    }
    text
}

/// `default/web 5 (10.0.1.5:80 3, 10.0.1.6:80 2)`
fn shown(ledger: &Ledger) -> Vec<String> {
    let each = ledger.totals().iter().map(|(key, total)| {
        let endpoints = total.endpoints.iter();
        let endpoints: Vec<String> = endpoints.map(|(it, total)| one(it, total)).collect();
        let endpoints = endpoints.join(", ");
        format!("{} {} ({endpoints})", key.name, total.connections)
    });
    each.collect()
}

/// Readings in turn, the first one the mark, each with the totals after it.
#[track_caller]
fn check(steps: &[(Reading, &[&str])]) {
    let planner = two_services();
    let mut ledger = Ledger::default();
    let (mark, rest) = steps.split_first().expect("a mark");
    ledger.set_baseline(&mark.0);
    assert_eq!(shown(&ledger), mark.1, "after the mark");
    for (index, (reading, expected)) in rest.iter().enumerate() {
        ledger.absorb(&plans(&planner), reading);
        assert_eq!(shown(&ledger), *expected, "after reading {index}");
    }
}

#[test]
fn what_was_counted_before_is_the_mark() {
    check(&[
        (reading(&["10.96.0.10:80 0 10.0.1.5:80 100"]), &[]),
        (
            reading(&["10.96.0.10:80 0 10.0.1.5:80 100"]),
            &["default/web 0 (10.0.1.5:80 0)"],
        ),
        (
            reading(&["10.96.0.10:80 0 10.0.1.5:80 103"]),
            &["default/web 3 (10.0.1.5:80 3)"],
        ),
    ]);
}

#[test]
fn all_frontends_and_slots_of_a_service_add_up() {
    check(&[
        (reading(&[]), &[]),
        (
            reading(&[
                "10.96.0.10:80 0 10.0.1.5:80 1",
                "10.96.0.10:80 1 10.0.1.6:80 2",
                "node:30080 0 10.0.1.5:80 4",
                "10.96.0.11:80 0 10.0.1.7:80 8",
            ]),
            &[
                "default/api 8 (10.0.1.7:80 8)",
                "default/web 7 (10.0.1.5:80 5, 10.0.1.6:80 2)",
            ],
        ),
    ]);
}

#[test]
fn loads_are_those_of_the_last_reading_over_all_frontends() {
    check(&[
        (reading(&[]), &[]),
        (
            reading(&[
                "10.96.0.10:80 0 10.0.1.5:80 1 3 1 2",
                "node:30080 0 10.0.1.5:80 4 3 10 20",
                "10.96.0.10:80 1 10.0.1.6:80 2 0 5 0",
                "10.96.0.10:80 2 10.0.1.9:80 6 0 1 0",
            ]),
            &[
                "default/web 13 (10.0.1.5:80 5 weight 3 active 11 inactive 22, \
                 10.0.1.6:80 2 weight 0 active 5 inactive 0, \
                 10.0.1.9:80 6 weight 0 active 1 inactive 0 draining)",
            ],
        ),
        (
            reading(&["10.96.0.10:80 0 10.0.1.5:80 2 1 0 1"]),
            &["default/web 14 (10.0.1.5:80 6 weight 1 active 0 inactive 1)"],
        ),
    ]);
}

#[test]
fn a_marked_virtual_server_counts_on_when_its_first_frontend_changes() {
    let planner = two_services();
    let mut ledger = Ledger::default();
    ledger.set_baseline(&reading(&[]));
    for (line, expected) in [
        (
            "10.96.0.10:80 0 10.0.1.5:80 7",
            "default/web 7 (10.0.1.5:80 7)",
        ),
        (
            "node:30080 0 10.0.1.5:80 9",
            "default/web 9 (10.0.1.5:80 9)",
        ),
    ] {
        let mut reading = reading(&[line]);
        for count in &mut reading.counts {
            count.counter = Counter::MarkedRealServer(0x5800_0001, count.endpoint);
        }
        ledger.absorb(&plans(&planner), &reading);
        assert_eq!(shown(&ledger), [expected]);
    }
}

#[test]
fn a_value_that_shrank_counts_from_zero() {
    check(&[
        (reading(&["10.96.0.10:80 0 10.0.1.5:80 100"]), &[]),
        (
            reading(&["10.96.0.10:80 0 10.0.1.5:80 110"]),
            &["default/web 10 (10.0.1.5:80 10)"],
        ),
        (
            reading(&["10.96.0.10:80 0 10.0.1.5:80 5"]),
            &["default/web 15 (10.0.1.5:80 15)"],
        ),
    ]);
}

#[test]
fn a_slot_that_changed_hands_counts_from_zero() {
    check(&[
        (reading(&["10.96.0.10:80 0 10.0.1.5:80 10"]), &[]),
        // 10.0.1.5 moved to slot 1, where it has more by now than it had in slot 0.
        (
            reading(&[
                "10.96.0.10:80 0 10.0.1.6:80 20",
                "10.96.0.10:80 1 10.0.1.5:80 30",
            ]),
            &["default/web 50 (10.0.1.5:80 30, 10.0.1.6:80 20)"],
        ),
    ]);
}

#[test]
fn an_endpoint_that_goes_stays_in_the_total_of_its_service() {
    check(&[
        (reading(&[]), &[]),
        (
            reading(&[
                "10.96.0.10:80 0 10.0.1.5:80 1",
                "10.96.0.10:80 1 10.0.1.6:80 2",
            ]),
            &["default/web 3 (10.0.1.5:80 1, 10.0.1.6:80 2)"],
        ),
        (
            reading(&["10.96.0.10:80 0 10.0.1.5:80 2"]),
            &["default/web 4 (10.0.1.5:80 2)"],
        ),
        // The endpoint comes back under its old slot with a new element.
        (
            reading(&[
                "10.96.0.10:80 0 10.0.1.5:80 2",
                "10.96.0.10:80 1 10.0.1.6:80 3",
            ]),
            &["default/web 7 (10.0.1.5:80 2, 10.0.1.6:80 3)"],
        ),
    ]);
}

#[test]
fn an_interrupted_reading_takes_nothing_back() {
    check(&[
        (reading(&["10.96.0.10:80 1 10.0.1.6:80 7"]), &[]),
        (
            interrupted(&["10.96.0.10:80 0 10.0.1.5:80 1"]),
            &["default/web 1 (10.0.1.5:80 1)"],
        ),
        // A counter that is missing in one reading is not gone; a counter that is there twice counts once.
        (
            interrupted(&[
                "10.96.0.10:80 1 10.0.1.6:80 9",
                "10.96.0.10:80 1 10.0.1.6:80 9",
            ]),
            &["default/web 3 (10.0.1.5:80 1, 10.0.1.6:80 2)"],
        ),
        (
            reading(&["10.96.0.10:80 1 10.0.1.6:80 9"]),
            &["default/web 3 (10.0.1.6:80 2)"],
        ),
    ]);
}

#[test]
fn a_service_that_is_gone_is_forgotten_and_a_new_one_begins_at_zero() {
    let mut planner = two_services();
    let mut ledger = Ledger::default();
    let api = reading(&["10.96.0.11:80 0 10.0.1.7:80 8"]);
    ledger.absorb(&plans(&planner), &api);
    assert_eq!(shown(&ledger), ["default/api 8 (10.0.1.7:80 8)"]);

    let name = NamespacedName::new("default", "api");
    planner.absorb(Event::Service(Change::Delete(name)));
    planner.replan();
    // The kernel still has a counter that the plan has not.
    ledger.absorb(&plans(&planner), &api);
    assert_eq!(shown(&ledger), [""; 0]);

    planner.absorb(service("default/new 10.96.0.11 :80"));
    planner.replan();
    ledger.absorb(
        &plans(&planner),
        &reading(&["10.96.0.11:80 0 10.0.1.7:80 1"]),
    );
    assert_eq!(shown(&ledger), ["default/new 1 (10.0.1.7:80 1)"]);
}

/// Before the first sync the plan is empty: the mark must outlive it.
#[test]
fn the_mark_waits_for_its_service() {
    let mut ledger = Ledger::default();
    let before = reading(&["10.96.0.10:80 0 10.0.1.5:80 100"]);
    ledger.set_baseline(&before);
    ledger.absorb(&[], &before);
    let after = reading(&["10.96.0.10:80 0 10.0.1.5:80 101"]);
    ledger.absorb(&plans(&two_services()), &after);
    assert_eq!(shown(&ledger), ["default/web 1 (10.0.1.5:80 1)"]);
}

/// Returns these readings, one after the other.
struct Script(std::vec::IntoIter<Result<Reading, BackendError>>);

impl Counters for Script {
    fn read(&mut self) -> Result<Reading, BackendError> {
        self.0.next().expect("no more readings than expected")
    }
}

/// Counters with these readings, beside an agent that answers with the two Services.
fn scripted(readings: Vec<Result<Reading, BackendError>>) -> Arc<Connections> {
    let counters = Box::new(Script(readings.into_iter()));
    Arc::new(Connections::new(
        counters,
        crate::testing::plans(two_services()),
    ))
}

fn broken() -> BackendError {
    BackendError {
        operation: "list map".to_owned(),
        reason: "no memory".to_owned(),
        source: None,
    }
}

#[test]
fn it_reads_when_asked_but_not_all_the_time() {
    let first = reading(&["10.96.0.10:80 0 10.0.1.5:80 1"]);
    let second = reading(&["10.96.0.10:80 0 10.0.1.5:80 3"]);
    let connections = scripted(vec![
        Ok(interrupted(&[])),
        Ok(first),
        Ok(second.clone()),
        Err(broken()),
        Ok(second),
    ]);
    let now = Instant::now();
    // The mark is read until it is complete, then the counters.
    connections.read_if_due(FOR_METRICS, now);
    let total = || connections.report()[0].connections;
    assert_eq!(total(), 2);
    // The script has no reading left for these calls.
    connections.read_if_due(FOR_METRICS, now);
    connections.read_if_due(FOR_METRICS, now + FOR_METRICS - Duration::from_secs(1));
    let later = now + FOR_METRICS * PAUSE_FACTOR;
    connections.read_if_due(FOR_METRICS, later);
    assert_eq!(total(), 2, "a reading that failed changes nothing");
    connections.read_if_due(FOR_METRICS, later + FOR_METRICS * PAUSE_FACTOR);
    assert_eq!(total(), 2);
}

#[test]
fn metrics_and_report_show_the_totals() {
    let counts = [
        "10.96.0.10:80 0 10.0.1.5:80 1",
        "10.96.0.10:80 1 10.0.1.6:80 2",
        "10.96.0.11:80 0 10.0.1.7:80 8 1 5 2",
    ];
    let connections = scripted(vec![Ok(reading(&[])), Ok(reading(&counts))]);
    connections.read_if_due(FOR_METRICS, Instant::now());

    let text = |most_endpoints| {
        let registry = Registry::new();
        let metrics = ConnectionMetrics::new(connections.clone(), most_endpoints);
        let registered = registry.register(Box::new(metrics.expect("well formed")));
        registered.expect("no name is given twice");
        let text = TextEncoder::new().encode_to_string(&registry.gather());
        text.expect("every metric has a value")
    };
    let all = text(3);
    for line in [
        "# TYPE sluice_service_connections_total counter",
        "sluice_service_connections_total{ip_family=\"IPv4\",namespace=\"default\",port=\"\",\
         protocol=\"tcp\",service=\"web\"} 3",
        "sluice_endpoint_connections_total{endpoint=\"10.0.1.6:80\",namespace=\"default\",port=\"\",\
         protocol=\"tcp\",service=\"web\"} 2",
        "# TYPE sluice_endpoint_active_connections gauge",
        "sluice_endpoint_active_connections{endpoint=\"10.0.1.7:80\",namespace=\"default\",port=\"\",\
         protocol=\"tcp\",service=\"api\"} 5",
    ] {
        assert!(all.contains(line), "no {line} in\n{all}");
    }
    let unknown = all
        .lines()
        .filter(|it| it.starts_with("sluice_endpoint_active"))
        .count();
    assert_eq!(unknown, 1, "only where it is known:\n{all}");
    let few = text(2);
    assert!(few.contains("sluice_service_connections_total{"), "{few}");
    assert!(!few.contains("sluice_endpoint_"), "{few}");

    let report = connections.report();
    let order: Vec<&str> = report.iter().map(|it| &*it.service).collect();
    assert_eq!(order, ["api", "web"], "most connections first");
    let json = serde_json::to_value(&report[1]).expect("JSON");
    let expected = serde_json::json!({
        "namespace": "default", "service": "web", "port": "", "protocol": "tcp",
        "family": "IPv4", "connections": 3,
        "endpoints": [
            {"endpoint": "10.0.1.5:80", "connections": 1},
            {"endpoint": "10.0.1.6:80", "connections": 2},
        ],
    });
    assert_eq!(json, expected);
    let json = serde_json::to_value(&report[0].endpoints).expect("JSON");
    let expected = serde_json::json!([
        {"endpoint": "10.0.1.7:80", "connections": 8, "weight": 1, "active": 5, "inactive": 2},
    ]);
    assert_eq!(json, expected);
}
