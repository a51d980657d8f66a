//! What a resolver finds step by step, as text.

use crate::support::{NOW, external, namespace, pod, service, settings, slice};
use hickory_proto::rr::{Name, RecordType};
use sluice_model::NamespacedName;
use sluice_zone::Event;
use sluice_zone::{NamespaceRule, Objects, Resolution, SearchPath, Step};

fn objects() -> Objects {
    let mut objects = Objects::new(NamespaceRule::Declared);
    let events = [
        namespace("default"),
        namespace("shop"),
        service("default/web", "10.96.0.1", "http:80"),
        service("default/both", "10.96.0.2 fd00::2", "http:80"),
        service("default/db", "headless", "sql:5432"),
        slice(
            "default/db-1",
            "db",
            "sql:5432",
            &["10.0.0.1&db-0", "10.0.0.2!&db-1"],
        ),
        service("default/idle", "headless", "sql:5432"),
        slice("default/idle-1", "idle", "sql:5432", &["10.0.0.3!"]),
        external("default/out", "www.example.org"),
        external("default/in", "both.default.svc.cluster.local"),
        pod("shop", "client", &["10.0.0.9"]),
        Event::SYNCED,
    ];
    events.iter().for_each(|it| objects.absorb(it, NOW));
    objects
}

fn resolve(name: &str, types: &[RecordType]) -> Resolution {
    let zone = Name::from_ascii("cluster.local.").expect("a name");
    let path = SearchPath::of_namespace("shop", &zone);
    let name = Name::from_ascii(name).expect("a name");
    Resolution::of(
        &objects(),
        &settings(&["cluster.local"]),
        path.as_ref(),
        &name,
        types,
    )
}

const ADDRESSES: [RecordType; 2] = [RecordType::A, RecordType::AAAA];

/// `name result: destinations`.
fn text(step: &Step) -> String {
    let all = step.destinations.iter().map(|it| match it.port {
        Some(port) => format!("{} {port}", it.address),
        None => it.address.to_string(),
    });
    let all: Vec<String> = all.collect();
    format!("{} {:?}: {}", step.name, step.result, all.join(", "))
}

/// The last step.
#[track_caller]
fn last(name: &str, types: &[RecordType], expected: &str) -> Step {
    let step = resolve(name, types).steps.pop().expect("a step");
    assert_eq!(text(&step), expected);
    step
}

#[test]
fn both_families_are_one_step() {
    let found = resolve("web.default", &ADDRESSES);
    let steps: Vec<String> = found.steps.iter().map(text).collect();
    // AAAA alone would go on to the next domains.
    assert_eq!(
        steps,
        [
            "web.default.shop.svc.cluster.local. NoName: ",
            "web.default.svc.cluster.local. Found: 10.96.0.1"
        ]
    );
    assert_eq!(found.steps[1].cluster_ip_of.as_deref(), Some("default/web"));
    assert_eq!(found.record_types, "A,AAAA");
    let name = "both.default.svc.cluster.local.";
    last(
        name,
        &ADDRESSES,
        &format!("{name} Found: 10.96.0.2, fd00::2"),
    );
}

#[test]
fn clients_of_headless_services_go_to_endpoints() {
    let name = "db.default.svc.cluster.local.";
    let step = last(name, &ADDRESSES, &format!("{name} Found: 10.0.0.1"));
    assert_eq!(step.cluster_ip_of, None);
    let port = "_sql._tcp.db.default.svc.cluster.local.";
    last(
        port,
        &[RecordType::SRV],
        &format!("{port} Found: 10.0.0.1 5432"),
    );
}

#[test]
fn aliases_lead_on() {
    let name = "in.default.svc.cluster.local.";
    let step = last(
        name,
        &ADDRESSES,
        &format!("{name} Found: 10.96.0.2, fd00::2"),
    );
    assert_eq!(
        step.alias_of.as_deref(),
        Some("both.default.svc.cluster.local.")
    );
    assert_eq!(step.records.len(), 3, "{:?}", step.records);
    let name = "out.default.svc.cluster.local.";
    let step = last(name, &ADDRESSES, &format!("{name} Found: "));
    assert_eq!(step.alias_of.as_deref(), Some("www.example.org."));
}

#[test]
fn the_nearest_thing_is_told() {
    let near = |name: &str| resolve(name, &ADDRESSES).near;
    let web = "Service default/web exists, in another namespace";
    assert_eq!(near("web"), [web]);
    assert_eq!(near("web.nowhere"), [web]);
    assert_eq!(near("nobody"), [""; 0]);
    let unready = |name: &str| {
        format!(
            "Service {name}: 1 not ready, which have names only with publishNotReadyAddresses: true"
        )
    };
    assert_eq!(near("idle.default"), [unready("default/idle")]);
    assert_eq!(near("db-1.db.default"), [unready("default/db")]);
    assert_eq!(near("web.default"), [""; 0]);
}

#[test]
fn pods_are_known_by_their_address() {
    let objects = objects();
    let at = |text: &str| objects.pod_at(text.parse().expect("an address"));
    assert_eq!(at("10.0.0.9"), Some(NamespacedName::new("shop", "client")));
    assert_eq!(at("10.0.0.1"), None);
}
