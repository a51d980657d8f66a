use std::sync::Arc;

use sluice_plan::Event;
use sluice_plan::settings::Settings;
use sluice_plan::testing::{endpoints, planner, service};

use super::*;

fn plan(events: impl IntoIterator<Item = Event>) -> Plan {
    planner(Settings::for_node("node-a"), events).plan().clone()
}

/// A Service, and its endpoints.
fn web(text: &str, members: &str) -> Vec<Event> {
    let slices = endpoints("default/web:http", members);
    [service(&format!("default/web 10.96.0.1 {text}"))]
        .into_iter()
        .chain(slices)
        .collect()
}

#[test]
fn a_line_says_what_changed() {
    let three = "10.1.1.1:8080 10.1.1.2:8080 10.1.1.3:8080";
    let other = "10.1.1.1:8080 10.1.1.2:8080 10.1.1.4:8080";
    let node_port = "NodePort http:80@30080";
    for (old, new, expected) in [
        (
            vec![],
            web("http:80", three),
            "added: frontends 1, endpoints 3",
        ),
        (web("http:80", three), vec![], "removed"),
        (
            web("http:80", three),
            web("http:80", ""),
            "endpoints 3 -> 0",
        ),
        (
            web("http:80", ""),
            web("http:80", three),
            "endpoints 0 -> 3",
        ),
        (
            web("http:80", three),
            web("http:80", other),
            "endpoints 3, 1 replaced",
        ),
        (
            web("http:80", three),
            web(node_port, ""),
            "endpoints 3 -> 0, frontends 1 -> 2",
        ),
        (
            web("http:80", three),
            web("http:81", three),
            "frontends 1, 1 replaced",
        ),
        (
            web("http:80", three),
            web("affinity=60 http:80", three),
            "settings changed",
        ),
        (web("http:80", three), web("http:80", three), ""),
    ] {
        let (old, new) = (plan(old), plan(new));
        let key = old
            .ports
            .keys()
            .chain(new.ports.keys())
            .next()
            .expect("one port");
        assert_eq!(key.name.to_string(), "default/web:http");
        let written = Written {
            key,
            old: old.ports.get(key).map(AsRef::as_ref),
            new: new.ports.get(key).map(AsRef::as_ref),
        };
        assert_eq!(written.describe().unwrap_or_default(), expected);
        let endpoints_gone = expected.contains("-> 0") || expected == "removed";
        assert_eq!(written.lost_all(), endpoints_gone, "{expected}");
    }
}

/// One Service that changes without end has a few lines a minute, and others have theirs.
#[test]
fn a_restless_service_is_cut_and_counted() {
    let start = Instant::now();
    let web = plan([service("default/web 10.96.0.1 :80")]);
    let other = plan([service("default/other 10.96.0.2 :80")]);
    let added =
        |plan: &Plan| -> Superseded { plan.ports.keys().map(|it| (it.clone(), None)).collect() };
    let mut log = Changelog::default();
    let mut now = start;
    let mut shown = 0;
    while now < start + PERIOD {
        log.written(&added(&web), &web, now);
        shown += log.shown;
        now += WINDOW;
    }
    assert_eq!(shown, OF_ONE);
    log.written(&added(&other), &other, now - WINDOW);
    assert_eq!(log.shown, 1);
    assert_eq!(log.due(), Some(start + PERIOD));
    log.written(&added(&web), &web, start + PERIOD);
    assert_eq!((log.shown, log.due()), (1, None));
    let told = (0..100).filter(|_| log.tells_sync(now)).count();
    assert_eq!(told, OF_ONE);
}

/// Services that come under new names without end have a few lines a minute, too.
#[test]
fn restless_names_are_cut_and_counted() {
    let start = Instant::now();
    let mut log = Changelog::default();
    let mut shown = 0;
    for it in 0..2 * OF_ALL {
        let plan = plan([service(&format!("default/s{it} 10.96.0.1 :80"))]);
        let added: Superseded = plan.ports.keys().map(|it| (it.clone(), None)).collect();
        // One in a window.
        let now =
            start + PERIOD * u32::try_from(it).unwrap() / (4 * u32::try_from(OF_ALL).unwrap());
        log.end_window(now);
        let before = log.shown;
        log.written(&added, &plan, now);
        shown += log.shown.saturating_sub(before);
    }
    assert_eq!(shown, OF_ALL);
    assert_eq!(log.all.as_ref().map(|it| it.more), Some(OF_ALL));
    assert_eq!(log.due(), Some(start + PERIOD));
    log.end_window(start + PERIOD);
    assert!(log.all.is_none());
}

#[test]
fn a_storm_is_cut_and_counted() {
    let start = Instant::now();
    let all = |count: u8| {
        let services = (1..=count).map(|it| service(&format!("default/s{it} 10.96.0.{it} :80")));
        plan(services)
    };
    let superseded =
        |plan: &Plan| -> Superseded { plan.ports.keys().map(|it| (it.clone(), None)).collect() };
    let mut log = Changelog::default();
    let few = all(5);
    log.written(&superseded(&few), &few, start);
    assert_eq!((log.shown, log.more, log.due()), (5, 0, None));
    let many = all(100);
    for _ in 0..10 {
        log.written(&superseded(&many), &many, start);
    }
    assert_eq!((log.shown, log.more), (LINES, 985));
    assert_eq!(log.due(), Some(start + WINDOW));
    log.end_window(start + WINDOW / 2);
    assert_eq!(log.more, 985);
    // The next change comes in a new window.
    log.written(&superseded(&few), &few, start + WINDOW);
    assert_eq!((log.shown, log.more), (5, 0));
    // Changes that were planned and undone meanwhile are not logged.
    let same = few
        .ports
        .iter()
        .map(|(key, it)| (key.clone(), Some(Arc::clone(it))));
    log.written(&same.collect(), &few, start + WINDOW);
    assert_eq!((log.shown, log.more), (5, 0));
}
