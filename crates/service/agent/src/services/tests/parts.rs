//! Tests that a large change is written in parts, and that small changes do not wait for all of it.

use super::*;

fn members(count: usize) -> Vec<String> {
    let members = 0..count;
    members
        .map(|it| format!("10.244.{}.{}", it / 250, 1 + it % 250))
        .collect()
}

fn large(service_name: &str, ip: &str, count: usize) -> [Event; 2] {
    let members = members(count);
    let members: Vec<&str> = members.iter().map(String::as_str).collect();
    [service(service_name, ip), slice(service_name, &members)]
}

fn small(service_name: &str, ip: &str, endpoint: &str) -> [Event; 2] {
    [service(service_name, ip), slice(service_name, &[endpoint])]
}

impl World {
    fn has(&self, ip: &str) -> bool {
        self.objects().iter().any(|it| it.starts_with(ip))
    }
}

#[test]
fn small_changes_are_written_first() {
    let mut world = World::synced();
    world.say(large("big", "10.96.0.1", Fake::PART + 1));
    world.say(small("one", "10.96.0.2", "10.1.1.1"));
    world.say(small("two", "10.96.0.3", "10.1.1.2"));
    world.step_after(SECOND);
    assert!(world.has("10.96.0.2") && world.has("10.96.0.3"));
    assert!(!world.has("10.96.0.1"));
    // The agent goes on without waiting for an event or for a pause.
    let now = world.now;
    assert_eq!(world.agent.due(now), Some(now));
    world.step_at(now);
    assert!(world.has("10.96.0.1"));
    assert_ne!(world.agent.due(now), Some(now));
    assert_eq!(world.observed(), 1);
}

/// Many small changes of one tenant are one large change.
#[test]
fn a_tenant_with_many_small_services_is_not_first() {
    use sluice_plan::testing::{endpoints, service};
    let mut world = World::synced();
    for number in 1..=Fake::PART + 50 {
        let name = format!("hostile/web-{number}");
        world.say([service(&format!("{name} 10.96.1.{number} :53"))]);
        world.say(endpoints(&name, "10.1.1.1:53"));
    }
    world.say([service("victim/web 10.96.0.2 :53")]);
    world.say(endpoints(
        "victim/web",
        "10.1.2.1:53 10.1.2.2:53 10.1.2.3:53",
    ));
    world.step_after(SECOND);
    assert!(world.has("10.96.0.2"));
    assert!(world.objects().len() < Fake::PART);
}

/// Services that go are work, too.
#[test]
fn a_tenant_whose_services_go_is_not_first() {
    use sluice_plan::testing::{endpoints, service};
    let mut world = World::synced();
    let names = (1..=2 * Fake::PART).map(|it| format!("hostile/web-{it}"));
    let names: Vec<String> = names.collect();
    for (number, name) in names.iter().enumerate() {
        let ip = format!("10.96.{}.{}", 1 + number / 250, 1 + number % 250);
        world.say([service(&format!("{name} {ip} :53"))]);
        world.say(endpoints(name, "10.1.1.1:53 10.1.1.2:53 10.1.1.3:53"));
    }
    while world.agent.proxy.is_any_left() {
        world.step_after(SECOND);
    }
    for name in &names {
        let (namespace, name) = name.split_once('/').unwrap();
        let name = NamespacedName::new(namespace, name);
        world.say([
            Event::Service(Change::Delete(name.clone())),
            Event::EndpointSlice(Change::Delete(name)),
        ]);
    }
    world.say([service("victim/web 10.96.100.2 :53")]);
    world.say(endpoints("victim/web", "10.1.2.1:53 10.1.2.2:53"));
    world.step_after(SECOND);
    assert!(world.has("10.96.100.2"));
    assert!(world.agent.proxy.is_any_left());
}

/// However many small changes come, the large change waits for one part at most.
#[test]
fn a_large_change_is_not_held_up_for_ever() {
    let mut world = World::synced();
    world.say(large("big", "10.96.0.1", Fake::PART + 1));
    let mut parts = 0;
    while !world.has("10.96.0.1") {
        let endpoint = format!("10.1.1.{}", 1 + parts);
        world.say(small("one", "10.96.0.2", &endpoint));
        world.step_after(SECOND);
        let is_written = |world: &World| world.objects().iter().any(|it| it.contains(&endpoint));
        if !is_written(&world) {
            // The large change alone was in this part.
            world.step_at(world.now);
        }
        assert!(is_written(&world), "part {parts}");
        parts += 1;
        assert!(parts <= 2);
    }
}

/// An address that goes from a large Service to a small one must not be deleted after it was added.
#[test]
fn what_moves_is_written_together() {
    let mut world = World::synced();
    world.say(large("big", "10.96.0.1", Fake::PART + 1));
    world.step_after(SECOND);
    world.step_after(SECOND);
    world.say([
        Event::Service(Change::Delete(name("big"))),
        Event::EndpointSlice(Change::Delete(name("big"))),
    ]);
    world.say(small("one", "10.96.0.1", "10.1.1.1"));
    world.step_after(SECOND);
    assert_eq!(world.objects(), ["10.96.0.1:53/tcp -> 10.1.1.1:5353"]);
}

#[test]
fn health_checks_follow_what_is_written() {
    let mut world = World::synced();
    let balancer = |ip: &str, port: u16, count: usize| {
        let members = members(count);
        let members: Vec<String> = members.iter().map(|it| format!("{it}:80@node-a")).collect();
        let text = format!("big {ip} :80 LoadBalancer lb=192.0.2.1 etp=local health={port}");
        let mut events = vec![sluice_plan::testing::service(&text)];
        events.extend(sluice_plan::testing::endpoints("big", &members.join(" ")));
        events
    };
    world.say(balancer("10.96.0.1", 32000, Fake::PART + 1));
    world.say(small("one", "10.96.0.2", "10.1.1.1"));
    world.step_after(SECOND);
    assert!(!world.has("10.96.0.1"));
    assert_eq!(world.agent.outputs.health_checks.wanted(), 0);
    world.step_after(SECOND);
    assert!(world.has("10.96.0.1"));
    assert_eq!(world.agent.outputs.health_checks.wanted(), 1);
}

#[test]
fn the_largest_service_port_of_a_sync_is_named() {
    use crate::services::outcome::largest;
    let mut world = World::synced();
    world.say(large("big", "10.96.0.1", 50));
    world.say(small("one", "10.96.0.2", "10.1.1.1"));
    world.step();
    // Deleted objects count as work, too.
    world.say([Event::EndpointSlice(Change::Delete(name("big")))]);
    world.say(small("one", "10.96.0.2", "10.1.1.2"));
    world.agent.proxy.replan();
    let synced = world.agent.proxy.sync().expect("a kernel that works");
    let plan = world.agent.proxy.plan();
    let expected = "default/big with 1 frontends and 50 endpoints";
    assert_eq!(largest::<Fake>(&synced, plan).as_deref(), Some(expected));
    // A comparison of everything includes every Service.
    world.agent.proxy.reconciler_mut().forget();
    let synced = world.agent.proxy.sync().expect("a kernel that works");
    let plan = world.agent.proxy.plan();
    let expected = "default/one with 1 frontends and 1 endpoints";
    assert_eq!(largest::<Fake>(&synced, plan).as_deref(), Some(expected));
}
