//! Tests that a DNS server gets an object after its rules are written.

use super::*;

use sluice_zone::Event as Named;

use sluice_model::{ContainerPorts, Labels, Namespace, Pod, PodDns};

impl World {
    /// The events since the last call, as text.
    fn heard(&mut self) -> Vec<String> {
        let events = std::mem::take(&mut self.named).into_iter();
        let word = |it: NameEvent| match (it.event().reference(), it.event()) {
            (
                Some(key),
                Named::Service(Change::Delete(_)) | Named::EndpointSlice(Change::Delete(_)),
            ) => format!("no {key}"),
            (Some(key), _) => key.to_string(),
            (None, _) => "synced".to_owned(),
        };
        events.map(word).collect()
    }

    fn fail(&self, syncs: usize) {
        self.kernel.0.borrow_mut().failures = syncs;
    }
}

fn headless(text: &str) -> Event {
    sluice_plan::testing::service(&format!("{text} headless :53"))
}

fn namespace(name: &str) -> NameEvent {
    let namespace = Namespace {
        name: name.into(),
        labels: Labels::default(),
    };
    NameEvent::new(Named::Namespace(Change::Set(Arc::new(namespace)))).unwrap()
}

/// The same for a DNS server; `None` when no name depends on the event.
pub(super) fn event(event: &Event) -> Option<NameEvent> {
    match event {
        Event::Service(it) => NameEvent::new(Named::Service(it.clone())),
        Event::EndpointSlice(it) => NameEvent::new(Named::EndpointSlice(it.clone())),
        Event::Notice(it) => NameEvent::new(Named::Notice(it.clone())),
        Event::Node(_) | Event::ServiceCidr(_) | Event::LocalAddresses(_) => None,
    }
}

#[test]
fn nothing_comes_before_the_first_sync_that_succeeds() {
    let mut world = World::new();
    world.say_names(vec![namespace("default")]);
    world.say([service("web", "10.96.0.1")]);
    world.step();
    world.say([slice("web", &["10.1.1.1"]), headless("db"), Event::SYNCED]);
    world.fail(1);
    world.step();
    assert_eq!(world.heard(), [""; 0]);
    world.step_after(SECOND);
    assert_eq!(
        world.heard(),
        [
            "Namespace default",
            "Service default/web",
            "EndpointSlice default/web",
            "Service default/db",
            "synced",
        ]
    );
    world.step_after(SECOND);
    assert_eq!(world.heard(), [""; 0]);
}

#[test]
fn an_object_with_rules_waits_for_the_sync_that_writes_them() {
    let mut world = World::synced();
    assert_eq!(world.heard(), ["synced"]);
    world.say([service("web", "10.96.0.1"), slice("web", &["10.1.1.1"])]);
    assert_eq!(world.heard(), [""; 0]);
    world.fail(2);
    world.step_after(SECOND);
    // Of each object only the last event.
    world.say([service("web", "10.96.0.2"), service("api", "10.96.0.3")]);
    world.step_after(2 * SECOND);
    assert_eq!(world.heard(), [""; 0]);
    world.step_after(9 * SECOND);
    assert_eq!(
        world.objects(),
        ["10.96.0.2:53/tcp -> 10.1.1.1:5353", "10.96.0.3:53/tcp -> "]
    );
    let events = std::mem::take(&mut world.named);
    let expected = [
        service("web", "10.96.0.2"),
        slice("web", &["10.1.1.1"]),
        service("api", "10.96.0.3"),
    ];
    let expected: Vec<_> = expected.iter().filter_map(event).collect();
    assert_eq!(events, expected);
}

#[test]
fn what_has_no_rules_does_not_wait() {
    let mut world = World::synced();
    let _ = world.heard();
    world.fail(100);
    let pod = Pod {
        name: name("web-1"),
        labels: Labels::default(),
        ports: ContainerPorts::default(),
        addresses: Vec::new(),
        node: None,
        is_terminating: false,
        host_network: false,
        dns: PodDns::default(),
    };
    let pod = NameEvent::new(Named::Pod(Change::Set(Arc::new(pod)))).unwrap();
    world.say_names(vec![namespace("new"), pod]);
    world.say([headless("db"), service("web", "10.96.0.1")]);
    assert_eq!(
        world.heard(),
        ["Namespace new", "Pod default/web-1", "Service default/db"]
    );
}

/// A client that gets a deleted Service's address late would connect to an address without rules.
#[test]
fn a_name_goes_before_its_rules_and_takes_with_it_what_waits() {
    let mut world = World::synced();
    world.say([service("web", "10.96.0.1"), service("api", "10.96.0.2")]);
    world.step_after(SECOND);
    let _ = world.heard();
    world.fail(1);
    let changed = [
        service("web", "10.96.0.7"),
        service("api", "10.96.0.8"),
        service("new", "10.96.0.9"),
    ];
    world.say(changed);
    world.step_after(SECOND);
    world.say([Event::Service(Change::Delete(name("web")))]);
    assert_eq!(world.heard(), ["no Service default/web"]);
    world.step_after(2 * SECOND);
    let mut heard = world.heard();
    heard.sort_unstable();
    assert_eq!(heard, ["Service default/api", "Service default/new"]);
}

#[test]
fn a_service_whose_part_is_not_written_waits_and_others_do_not() {
    let mut world = World::synced();
    let _ = world.heard();
    let endpoints: Vec<String> = (0..=Fake::PART)
        .map(|it| format!("10.244.{}.{}", it / 250, 1 + it % 250))
        .collect();
    let endpoints: Vec<&str> = endpoints.iter().map(String::as_str).collect();
    world.say([service("big", "10.96.0.1"), slice("big", &endpoints)]);
    world.say([service("one", "10.96.0.2"), slice("one", &["10.1.1.1"])]);
    world.step_after(SECOND);
    assert_eq!(
        world.heard(),
        ["Service default/one", "EndpointSlice default/one"]
    );
    world.step();
    assert_eq!(
        world.heard(),
        ["Service default/big", "EndpointSlice default/big"]
    );
}

/// Objects come and go any number of times while the kernel refuses.
#[test]
fn what_waits_is_as_much_as_there_are_objects() {
    let mut world = World::synced();
    world.fail(usize::MAX);
    for round in 0..100 {
        for service_name in ["web", "api", "dns"] {
            world.say([service(service_name, &format!("10.96.{round}.1"))]);
        }
        world.say([Event::Service(Change::Delete(name("web")))]);
        world.step_after(SECOND);
    }
    assert_eq!(world.names.waiting(), 2);
}
