//! What a watch tells.

use std::time::Duration;

use crate::support::{
    Connection, LONG, SERVICES, SHORT, SLICES, get, labelled, plain, put, service, start, with,
};
use serde_json::json;
use sluice_miniapi::{Cut, MiniApi, Options};

/// The path of a watch with these parameters.
fn watch(path: &str, parameters: &[(&str, &str)]) -> String {
    with(path, &[&[("watch", "true")], parameters].concat())
}

/// What a modern client asks for.
fn streaming_list() -> String {
    watch(
        SERVICES,
        &[
            ("sendInitialEvents", "true"),
            ("resourceVersionMatch", "NotOlderThan"),
            ("allowWatchBookmarks", "true"),
        ],
    )
}

#[test]
fn changes_after_a_version_are_told() {
    let api = plain();
    let version = put(&api, &["a"]).to_string();
    put(&api, &["b"]);
    let mut connection = Connection::to(&api).unwrap();
    let path = watch(SERVICES, &[("resourceVersion", &version)]);
    let mut stream = connection.get(&path).unwrap();
    assert_eq!(stream.headers["content-type"], "application/json");
    assert_eq!(stream.short(), "ADDED b");
    let revision = api.put(labelled("a", "x", "y")).unwrap();
    let event = stream.event();
    assert_eq!(event["type"], "MODIFIED");
    assert_eq!(event["object"], api.get("Service", "ns", "a").unwrap());
    assert_eq!(
        event["object"]["metadata"]["resourceVersion"],
        revision.to_string()
    );
    // The same object again is no change.
    assert_eq!(api.put(labelled("a", "x", "y")).unwrap(), revision);
    let deleted = api.delete("Service", "ns", "a").unwrap();
    let event = stream.event();
    assert_eq!(event["type"], "DELETED");
    assert_eq!(
        event["object"]["metadata"]["resourceVersion"],
        deleted.to_string()
    );
}

#[test]
fn a_watch_from_nowhere_starts_with_what_there_is() {
    let api = plain();
    put(&api, &["a"]);
    for parameters in [&[][..], &[("resourceVersion", "0")]] {
        let mut connection = Connection::to(&api).unwrap();
        let mut stream = connection.get(&watch(SERVICES, parameters)).unwrap();
        assert_eq!(stream.short(), "ADDED a");
    }
}

#[test]
fn initial_events_end_with_a_bookmark() {
    let api = plain();
    let version = put(&api, &["a", "b"]);
    let mut connection = Connection::to(&api).unwrap();
    let mut stream = connection.get(&streaming_list()).unwrap();
    assert_eq!(stream.short(), "ADDED a");
    assert_eq!(stream.short(), "ADDED b");
    let bookmark = stream.event();
    assert_eq!(bookmark["type"], "BOOKMARK");
    let metadata = json!({
        "resourceVersion": version.to_string(),
        "annotations": {"k8s.io/initial-events-end": "true"},
    });
    assert_eq!(bookmark["object"]["metadata"], metadata);
    assert_eq!(bookmark["object"]["kind"], "Service");
    put(&api, &["c"]);
    assert_eq!(stream.short(), "ADDED c");
}

#[test]
fn contradictions_are_refused() {
    let old = start(Options {
        streaming_lists: false,
        ..Options::default()
    });
    let new = plain();
    let future = "999999";
    let send = ("sendInitialEvents", "true");
    let newer = ("resourceVersionMatch", "NotOlderThan");
    for (api, parameters, expect) in [
        (&old, &[send, newer][..], (422, "Invalid")),
        (&new, &[send], (422, "Invalid")),
        (&new, &[newer], (422, "Invalid")),
        (
            &new,
            &[send, ("resourceVersionMatch", "Exact")],
            (422, "Invalid"),
        ),
        (
            &new,
            &[send, newer, ("resourceVersion", future)],
            (504, "Timeout"),
        ),
    ] {
        let (status, answer) = get(api, &watch(SERVICES, parameters));
        assert_eq!(
            (status, answer["reason"].as_str().unwrap()),
            expect,
            "{parameters:?}"
        );
    }
}

#[test]
fn bookmarks_carry_the_version_of_other_collections_changes() {
    let api = start(Options {
        bookmarks: Duration::from_millis(5),
        ..Options::default()
    });
    put(&api, &["a"]);
    let mut connection = Connection::to(&api).unwrap();
    let path = watch(SLICES, &[("allowWatchBookmarks", "true")]);
    let mut stream = connection.get(&path).unwrap();
    let version = put(&api, &["b"]).to_string();
    loop {
        let event = stream.event();
        assert_eq!(event["type"], "BOOKMARK");
        assert_eq!(event["object"]["endpoints"], json!(null));
        if event["object"]["metadata"]["resourceVersion"] == *version {
            break;
        }
    }
}

#[test]
fn selectors_turn_changes_into_coming_and_going() {
    let api = plain();
    let version = api.put(labelled("a", "on", "no")).unwrap().to_string();
    let parameters = [("resourceVersion", &*version), ("labelSelector", "on=yes")];
    let mut connection = Connection::to(&api).unwrap();
    let mut stream = connection.get(&watch(SERVICES, &parameters)).unwrap();
    for value in ["no", "yes", "no", "yes"] {
        api.put(labelled("a", "on", value)).unwrap();
    }
    api.delete("Service", "ns", "a").unwrap();
    assert_eq!(stream.short(), "ADDED a");
    let gone = stream.event();
    assert_eq!(gone["type"], "DELETED");
    assert_eq!(gone["object"]["metadata"]["labels"]["on"], "yes");
    assert_eq!(stream.short(), "ADDED a");
    assert_eq!(stream.short(), "DELETED a");
}

#[test]
fn a_forgotten_version_is_gone() {
    let api = start(Options {
        history: 1,
        ..Options::default()
    });
    let version = put(&api, &["a"]).to_string();
    put(&api, &["b", "c"]);
    let mut connection = Connection::to(&api).unwrap();
    let path = watch(SERVICES, &[("resourceVersion", &version)]);
    let mut stream = connection.get(&path).unwrap();
    assert_eq!(stream.status, 200);
    let event = stream.event();
    assert_eq!(
        (&event["type"], &event["object"]["code"]),
        (&json!("ERROR"), &json!(410))
    );
    assert_eq!(event["object"]["reason"], "Expired");
    assert_eq!(stream.line().unwrap(), None);
}

#[test]
fn time_runs_out_properly() {
    let api = plain();
    let mut connection = Connection::to(&api).unwrap();
    let mut stream = connection
        .get(&watch(SERVICES, &[("timeoutSeconds", "1")]))
        .unwrap();
    assert_eq!(stream.line().unwrap(), None);
    // And the connection is good for the next request.
    assert_eq!(connection.get(SERVICES).unwrap().status, 200);
}

#[test]
fn extreme_numbers_do_no_harm() {
    let api = start(Options {
        bookmarks: Duration::ZERO,
        ..Options::default()
    });
    put(&api, &["a"]);
    let most = i64::MAX.to_string();
    let parameters = [
        ("resourceVersion", "0"),
        ("timeoutSeconds", &most),
        ("limit", &most),
        ("allowWatchBookmarks", "true"),
    ];
    let mut connection = Connection::to(&api).unwrap();
    let mut stream = connection.get(&watch(SERVICES, &parameters)).unwrap();
    assert_eq!(stream.short(), "ADDED a");
    assert_eq!(stream.short(), "BOOKMARK");
    // A version that will never come.
    let most = u64::MAX.to_string();
    let parameters = [("resourceVersion", most.as_str())];
    let mut connection = Connection::to(&api).unwrap();
    let stream = connection.get(&watch(SERVICES, &parameters)).unwrap();
    assert_eq!(stream.status, 200);
}

#[test]
fn a_watch_that_falls_behind_is_ended() {
    let api = start(Options {
        history: 2,
        ..Options::default()
    });
    put(&api, &["a"]);
    let mut connection = Connection::to(&api).unwrap();
    let mut stream = connection.get(&watch(SERVICES, &[])).unwrap();
    assert_eq!(stream.short(), "ADDED a");
    put(&api, &["b", "c", "d"]);
    assert_eq!(stream.line().unwrap(), None);
}

#[test]
fn watches_are_counted() {
    let api = plain();
    assert!(api.await_watches(0, LONG));
    let mut first = Connection::to(&api).unwrap();
    let _first = first.get(&watch(SERVICES, &[])).unwrap();
    let mut second = Connection::to(&api).unwrap();
    let _second = second.get(&watch(SLICES, &[])).unwrap();
    assert!(api.await_watches(2, LONG));
    assert_eq!(api.open_watches("endpointslices"), 1);
    drop(first);
    assert!(api.await_watches(1, LONG));
    assert!(!api.await_watches(7, Duration::ZERO));
}

/// A server with a watch whose first event was read.
fn watched(
    api: &MiniApi,
    connection: &mut Connection,
    check: impl FnOnce(&mut crate::support::Answer<'_>),
) {
    put(api, &["a"]);
    let mut stream = connection.get(&watch(SERVICES, &[])).unwrap();
    assert_eq!(stream.short(), "ADDED a");
    check(&mut stream);
}

#[test]
fn running_watches_are_cut() {
    let api = plain();
    for (how, expect) in [
        (Cut::Reset, "ConnectionReset"),
        (Cut::Close, "UnexpectedEof"),
        (Cut::End, "end"),
    ] {
        let mut connection = Connection::to(&api).unwrap();
        watched(&api, &mut connection, |stream| {
            assert_eq!(api.cut_watches("services", how), 1);
            let end = match stream.line() {
                Ok(None) => "end".to_owned(),
                Ok(Some(line)) => line,
                Err(error) => format!("{:?}", error.kind()),
            };
            assert_eq!(end, expect);
        });
        api.delete("Service", "ns", "a").unwrap();
    }
    assert!(api.await_watches(0, LONG));
}

#[test]
fn running_watches_stall_and_go_on() {
    let api = start(Options {
        bookmarks: Duration::from_millis(1),
        ..Options::default()
    });
    let mut connection = Connection::to(&api).unwrap();
    let socket = connection.socket();
    put(&api, &["a"]);
    let path = watch(SERVICES, &[("allowWatchBookmarks", "true")]);
    let mut stream = connection.get(&path).unwrap();
    assert_eq!(stream.short(), "ADDED a");
    assert_eq!(api.stall_watches(SERVICES), 1);
    put(&api, &["b"]);
    socket.set_read_timeout(Some(SHORT)).unwrap();
    let error = loop {
        match stream.line() {
            Ok(line) => assert!(line.unwrap().contains("BOOKMARK")),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    socket.set_read_timeout(Some(LONG)).unwrap();
    assert_eq!(api.resume_watches(""), 1);
    let event = std::iter::repeat_with(|| stream.short()).find(|it| it != "BOOKMARK");
    assert_eq!(event.as_deref(), Some("ADDED b"));
}

#[test]
fn anything_can_be_said_on_running_watches() {
    let api = plain();
    let mut connection = Connection::to(&api).unwrap();
    watched(&api, &mut connection, |stream| {
        api.send_to_watches(SERVICES, "no JSON\n");
        assert_eq!(stream.line().unwrap().unwrap(), "no JSON\n");
        assert_eq!(api.expire_watches(SERVICES), 1);
        assert_eq!(stream.short(), "ERROR 410");
        assert_eq!(stream.line().unwrap(), None);
    });
}

#[test]
fn replacing_everything_tells_the_difference() {
    let api = plain();
    put(&api, &["a", "b"]);
    let mut connection = Connection::to(&api).unwrap();
    let version = api.resource_version().to_string();
    let path = watch(SERVICES, &[("resourceVersion", &version)]);
    let mut stream = connection.get(&path).unwrap();
    api.replace_everything([service("b"), service("c")])
        .unwrap();
    assert_eq!(stream.short(), "DELETED a");
    assert_eq!(stream.short(), "ADDED c");
}

#[test]
fn a_restored_backup_goes_back_in_silence() {
    let api = plain();
    let past = put(&api, &["a"]);
    let backup = api.snapshot();
    let future = put(&api, &["b"]);
    let mut connection = Connection::to(&api).unwrap();
    let path = watch(SERVICES, &[("resourceVersion", &future.to_string())]);
    let mut stream = connection.get(&path).unwrap();
    api.restore(&backup);
    assert!(stream.line().is_err(), "every watch is closed");
    assert_eq!(api.resource_version(), past);
    let (_, list) = get(&api, SERVICES);
    assert_eq!(crate::support::names(&list), ["a"]);
    // A watch of a version from the lost future gets only what comes after it.
    let mut connection = Connection::to(&api).unwrap();
    let mut stream = connection.get(&path).unwrap();
    put(&api, &["unheard"]);
    put(&api, &["heard"]);
    assert_eq!(stream.short(), "ADDED heard");
}
