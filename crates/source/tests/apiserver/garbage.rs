//! Tests that no part of an invalid answer is believed.

use serde_json::json;
use sluice_miniapi::{Cut, Fault, Options, Verb};

use crate::apiserver::cluster::{BASE, Followed, base_and, cluster};
use crate::support::{service_object, slice_object};

fn paged() -> Options {
    Options {
        streaming_lists: false,
        ..Options::default()
    }
}

#[test]
fn garbage_at_first() {
    for options in [Options::default(), paged()] {
        for fault in [
            Fault::Garbage,
            Fault::WrongTypes,
            Fault::Html(200),
            Fault::EndsAtOnce,
            Fault::EndlessLine(20),
            Fault::Cut {
                after: 300,
                how: Cut::End,
            },
            Fault::Cut {
                after: 300,
                how: Cut::Reset,
            },
        ] {
            let api = cluster(options.clone());
            api.inject(fault.on(Verb::Any, "").times(8));
            let mut source = Followed::synced(&api);
            source.view.expect(BASE);
            source.view.until("no problem", |it| it.problems.is_empty());
            assert!(source.view.deleted.is_empty());
        }
    }
}

#[test]
fn garbage_in_a_watch() {
    let events = [
        "garbage\n".to_owned(),
        "<html>\n".to_owned(),
        "{}\n".to_owned(),
        "[]\n".to_owned(),
        "{\"type\":\"ADDED\"}\n".to_owned(),
        "{\"type\":\"WHATEVER\",\"object\":{}}\n".to_owned(),
        "{\"type\":\"BOOKMARK\",\"object\":{}}\n".to_owned(),
        "{\"type\":\"ERROR\",\"object\":{}}\n".to_owned(),
        "{\"type\":\"DELETED\",\"object\":{}}\n".to_owned(),
        "{\"type\":\"DELETED\",\"object\":[\"web\"]}\n".to_owned(),
        "{\"type\":\"ERROR\",\"object\":{\"code\":500,\"message\":\"etcd: \\u001b[0m\"}}\n"
            .to_owned(),
        "{\"type\":\"DELETED\",\"object\":{\"metadata\":{\"name\":\"web\"}\n".to_owned(),
        "\u{0}\u{0}\u{0}\n".to_owned(),
        "x".repeat(17 << 20),
    ];
    for event in events {
        let api = cluster(Options::default());
        api.put(service_object("web", 80)).unwrap();
        let mut source = Followed::synced(&api);
        let shown: String = event.chars().take(40).collect();
        assert_eq!(api.send_to_watches("/services", event), 1, "{shown}");
        api.put(service_object("web", 81)).unwrap();
        source.view.expect(&base_and("Service default/web:81"));
        source.view.until("no problem", |it| it.problems.is_empty());
        assert!(source.view.deleted.is_empty(), "{shown}");
    }
}

/// Every page names a further one: the list is given up, and asked for again.
#[test]
fn list_without_an_end() {
    let api = cluster(paged());
    api.inject(Fault::EndlessList.on(Verb::Any, "/services"));
    let mut source = Followed::of(&api);
    let is_given_up =
        |line: &String| line.ends_with("cannot be read: a list of more than 2000 pages");
    source.view.until("a problem", |it| {
        let mut lines = it.problems.values().flatten();
        lines.any(is_given_up)
    });
    assert_eq!(source.view.synced, 0);
    api.clear_faults();
    source.view.until("no problem", |it| it.problems.is_empty());
    source.view.until("synced", |it| it.synced == 1);
    source.view.expect(BASE);
}

/// An event has a greatest length, or one answer would take all memory.
#[test]
fn event_without_an_end_is_given_up() {
    let api = cluster(Options::default());
    api.inject(Fault::EndlessLine(17).on(Verb::Watch, "/services"));
    let mut source = Followed::of(&api);
    source.view.until("a problem", |it| {
        let mut lines = it.problems.values().flatten();
        lines.any(|it| it.contains("an event of more than 16 MiB"))
    });
    api.clear_faults();
    source.view.until("no problem", |it| it.problems.is_empty());
    source.view.expect(BASE);
}

/// A message of 300 KiB, which also turns the line around.
#[test]
fn long_message_is_cut() {
    let api = cluster(Options::default());
    let mut source = Followed::synced(&api);
    let message = "\u{202e}no".repeat(60_000);
    let status = json!({"type": "ERROR", "object": {"code": 500, "message": message}});
    assert_eq!(api.send_to_watches("/services", format!("{status}\n")), 1);
    let start = r"the server answered 500: \u{202e}no\u{202e}no";
    source.view.until("a problem", |it| {
        let mut lines = it.problems.values().flatten();
        let line = lines.find(|it| it.contains(start));
        // U+202E is 3 bytes, its escape is 8.
        line.is_some_and(|it| it.len() < 3 * 1_024 && it.ends_with("..."))
    });
    source.view.until("no problem", |it| it.problems.is_empty());
}

#[test]
fn bad_object_is_its_own_problem() {
    for options in [Options::default(), paged()] {
        let api = cluster(options);
        let mut bad = service_object("bad", 80);
        bad["spec"]["ports"] = json!("all");
        api.put(bad).unwrap();
        let mut refused = service_object("refused", 0);
        refused["spec"]["sessionAffinity"] = json!("Maybe");
        api.put(refused).unwrap();
        let mut source = Followed::synced(&api);
        source.view.expect(BASE);
        let problems = &source.view.problems;
        let of = |name: &str| problems[&format!("Service default/{name}")].join("\n");
        assert!(
            of("bad").starts_with("Service default/bad: invalid type: string"),
            "{}",
            of("bad")
        );
        assert!(of("refused").contains("Service default/refused: spec.ports[0].port: 0 is not in"));
        assert!(of("refused").contains("spec.sessionAffinity"));
        api.put(service_object("bad", 80)).unwrap();
        api.delete("Service", "default", "refused").unwrap();
        source.view.expect(&base_and("Service default/bad:80"));
        source.view.until("no problem", |it| it.problems.is_empty());
    }
}

#[test]
fn object_that_becomes_unreadable_keeps_its_last_good_version() {
    let api = cluster(Options::default());
    api.put(service_object("web", 80)).unwrap();
    let mut source = Followed::synced(&api);
    let has_problem = |view: &crate::support::View| {
        view.problems.get("Service default/web").is_some_and(|it| {
            it.iter()
                .any(|it| it.ends_with("its last good version stays in force"))
        })
    };
    let mut bad = service_object("web", 81);
    bad["spec"]["ports"][0]["port"] = json!("81");
    api.put(bad).unwrap();
    source.view.until("a problem", has_problem);
    // Not even a new list takes it away.
    api.expire_watches("");
    api.put(service_object("other", 80)).unwrap();
    let both = base_and("Service default/other:80; Service default/web:80");
    source.view.expect(&both);
    assert!(has_problem(&source.view));
    api.delete("Service", "default", "web").unwrap();
    source.view.expect(&base_and("Service default/other:80"));
    source.view.until("no problem", |it| it.problems.is_empty());
}

#[test]
fn an_object_with_a_name_that_none_can_have_costs_itself_alone() {
    for options in [Options::default(), paged()] {
        let api = cluster(options);
        api.put(slice_object("web-1", "web", "10.1.0.1")).unwrap();
        let mut source = Followed::synced(&api);
        let mut evil = slice_object("web-2", "web", "10.1.0.2");
        evil["metadata"]["name"] = json!("..%2F\u{1b}[31m\n\"");
        evil["metadata"]["namespace"] = json!("default");
        api.put(evil.clone()).unwrap();
        api.expire_watches("/endpointslices");
        source.view.until("a problem", |it| !it.problems.is_empty());
        let (origin, told) = source.view.problems.first_key_value().unwrap();
        assert!(origin.starts_with("EndpointSlice default/\""), "{origin:?}");
        for text in told.iter().chain([origin]) {
            assert!(!text.contains(['\u{1b}', '\n']), "{text:?}");
        }
        assert!(source.view.deleted.is_empty());
        api.put(slice_object("web-3", "web", "10.1.0.3")).unwrap();
        source.view.expect(&base_and(
            "EndpointSlice default/web-1 10.1.0.1; EndpointSlice default/web-3 10.1.0.3",
        ));
        let name = evil["metadata"]["name"].as_str().unwrap();
        api.delete("EndpointSlice", "default", name).unwrap();
        source.view.expect(&base_and(
            "EndpointSlice default/web-1 10.1.0.1; EndpointSlice default/web-3 10.1.0.3",
        ));
        source.view.until("no problem", |it| it.problems.is_empty());
    }
}

#[test]
fn events_that_come_twice_are_one() {
    let api = cluster(Options::default());
    api.inject(Fault::DuplicateEvents.on(Verb::Watch, ""));
    let mut source = Followed::synced(&api);
    api.put(service_object("web", 80)).unwrap();
    api.put(service_object("web", 81)).unwrap();
    source.view.expect(&base_and("Service default/web:81"));
    assert!(
        source.view.problems.is_empty(),
        "{:?}",
        source.view.problems
    );
    assert!(source.view.sets <= 6);
}
