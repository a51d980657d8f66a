//! What every fault looks like to a client.

use std::io::ErrorKind;
use std::time::Duration;

use crate::support::{Connection, LONG, SERVICES, SHORT, SLICES, get, names, plain, put, with};
use serde_json::{Value, json};
use sluice_miniapi::{Cut, Fault, MiniApi, Verb};

const WATCH: &str = "/api/v1/services?watch=true&allowWatchBookmarks=true";

const STREAMING_LIST: &str = "/api/v1/services?watch=true&allowWatchBookmarks=true\
                              &sendInitialEvents=true&resourceVersionMatch=NotOlderThan";

/// A server with services a and b that misbehaves once, whatever it is asked.
fn faulty(fault: Fault) -> MiniApi {
    let api = plain();
    put(&api, &["a", "b"]);
    api.inject(fault.on(Verb::Any, "").once());
    api
}

/// Reads until the end and says how it ended.
fn ending(connection: &mut Connection, path: &str) -> (String, Option<ErrorKind>) {
    let mut answer = connection.get(path).unwrap();
    let (bytes, error) = answer.bytes();
    (String::from_utf8_lossy(&bytes).into_owned(), error)
}

#[test]
fn refusals_are_status_objects_and_pass() {
    for (fault, code, reason) in [
        (Fault::Unauthorized, 401, "Unauthorized"),
        (Fault::UnknownField, 400, "BadRequest"),
        (Fault::Forbidden, 403, "Forbidden"),
        (Fault::NotFound, 404, "NotFound"),
        (Fault::Gone, 410, "Expired"),
        (Fault::NoStreamingLists, 422, "Invalid"),
        (Fault::TooManyRequests(7), 429, "TooManyRequests"),
        (Fault::InternalError, 500, "InternalError"),
        (Fault::Unavailable, 503, "ServiceUnavailable"),
        (Fault::VersionTooLarge, 504, "Timeout"),
    ] {
        for path in [SERVICES, WATCH] {
            let api = faulty(fault.clone());
            let mut connection = Connection::to(&api).unwrap();
            let mut answer = connection.get(path).unwrap();
            let status = answer.json();
            assert_eq!(answer.status, code, "{fault:?}");
            assert_eq!(status["kind"], "Status");
            assert_eq!(status["code"], code);
            assert_eq!(status["reason"], reason);
            let after = answer.headers.get("retry-after").map(String::as_str);
            let expect = match code {
                429 => Some("7"),
                504 => Some("1"),
                _ => None,
            };
            assert_eq!(after, expect, "{fault:?}");
            assert_eq!(connection.get(SERVICES).unwrap().status, 200);
        }
    }
}

#[test]
fn pages_of_others_are_html() {
    for code in [200, 503] {
        let api = faulty(Fault::Html(code));
        let mut connection = Connection::to(&api).unwrap();
        let mut answer = connection.get(SERVICES).unwrap();
        assert_eq!(answer.status, code);
        assert_eq!(answer.headers["content-type"], "text/html; charset=utf-8");
        assert!(answer.text().unwrap().starts_with("<!DOCTYPE html>"));
    }
}

#[test]
fn bad_bodies_come_with_200() {
    let parse = |text: &str| serde_json::from_str::<Value>(text);
    let check = |fault: Fault, path: &str, good: &dyn Fn(&str) -> bool| {
        let api = faulty(fault.clone());
        let mut connection = Connection::to(&api).unwrap();
        let (text, error) = ending(&mut connection, path);
        assert!(
            error.is_none() && good(&text),
            "{fault:?} {path}: {text} {error:?}"
        );
        assert_eq!(connection.get(SERVICES).unwrap().status, 200);
    };
    check(Fault::Garbage, SERVICES, &|it| parse(it).is_err());
    check(Fault::Garbage, WATCH, &|it| {
        parse(it).is_err() && it.ends_with('\n')
    });
    check(Fault::WrongTypes, SERVICES, &|it| {
        parse(it).unwrap()["items"] == "all"
    });
    check(Fault::WrongTypes, WATCH, &|it| {
        parse(it).unwrap()["object"].is_array()
    });
    check(Fault::EmptyList, SERVICES, &|it| {
        let list = parse(it).unwrap();
        list["kind"] == "ServiceList" && list["items"] == json!([])
    });
    check(Fault::NullItems, SLICES, &|it| {
        let list = parse(it).unwrap();
        list["kind"] == "EndpointSliceList" && list["items"] == json!(null)
    });
    check(Fault::GoneEvent, WATCH, &|it| {
        parse(it).unwrap()["object"]["code"] == 410
    });
    check(Fault::EndsAtOnce, WATCH, &str::is_empty);
    let truncated = Fault::Cut {
        after: 100,
        how: Cut::End,
    };
    check(truncated, SERVICES, &|it| {
        it.len() == 100 && parse(it).is_err()
    });
}

#[test]
fn bodies_break_off() {
    for (how, expect) in [
        (Cut::Reset, ErrorKind::ConnectionReset),
        (Cut::Close, ErrorKind::UnexpectedEof),
    ] {
        for path in [SERVICES, WATCH] {
            let api = faulty(Fault::Cut { after: 150, how });
            let mut connection = Connection::to(&api).unwrap();
            let (text, error) = ending(&mut connection, path);
            assert_eq!(error, Some(expect), "{path}");
            // A reset may overtake what was sent.
            assert!(
                text.len() == 150 || how == Cut::Reset && text.len() < 150,
                "{text}"
            );
            assert!(connection.get(SERVICES).is_err());
        }
    }
}

#[test]
fn no_answer_comes() {
    let api = faulty(Fault::Silence);
    let mut connection = Connection::to(&api).unwrap();
    connection.socket().set_read_timeout(Some(SHORT)).unwrap();
    let error = connection.get(SERVICES).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    assert!(api.await_requests(LONG, |it| it.len() == 1));
}

#[test]
fn a_body_stays_silent() {
    let pause = Duration::from_secs(3600);
    let api = faulty(Fault::Slow { bytes: 1, pause });
    let mut connection = Connection::to(&api).unwrap();
    let socket = connection.socket();
    let mut answer = connection.get(WATCH).unwrap();
    assert_eq!(answer.status, 200);
    socket.set_read_timeout(Some(SHORT)).unwrap();
    assert_eq!(answer.bytes(), (Vec::new(), Some(ErrorKind::WouldBlock)));
}

#[test]
fn bytes_trickle() {
    let api = faulty(Fault::Slow {
        bytes: 100,
        pause: Duration::from_millis(1),
    });
    let (_, list) = get(&api, SERVICES);
    assert_eq!(names(&list), ["a", "b"]);
}

#[test]
fn a_line_never_ends() {
    let size = 3 * 1024 * 1024;
    let api = faulty(Fault::EndlessLine(3));
    let mut connection = Connection::to(&api).unwrap();
    let bytes = connection.get(WATCH).unwrap().some(size);
    assert!(!bytes.contains(&b'\n'));
}

#[test]
fn watches_misbehave_from_within() {
    for (fault, path, expect) in [
        (
            Fault::DuplicateEvents,
            WATCH,
            &["ADDED a", "ADDED a", "ADDED b", "ADDED b"][..],
        ),
        (
            Fault::NoBookmarks,
            STREAMING_LIST,
            &["ADDED a", "ADDED b", "ADDED c"],
        ),
        (
            Fault::IgnoresInitialEvents,
            STREAMING_LIST,
            &["ADDED a", "ADDED b", "ADDED c"],
        ),
    ] {
        let api = faulty(fault.clone());
        let mut connection = Connection::to(&api).unwrap();
        let mut stream = connection.get(path).unwrap();
        // The fault was taken; what comes now is a change after the start.
        put(&api, &["c"]);
        for expect in expect {
            assert_eq!(stream.short(), *expect, "{fault:?}");
        }
    }
    let api = faulty(Fault::IgnoresInitialEvents);
    let mut connection = Connection::to(&api).unwrap();
    let version = api.resource_version().to_string();
    let path = format!("{STREAMING_LIST}&resourceVersion={version}");
    let mut stream = connection.get(&path).unwrap();
    put(&api, &["c"]);
    assert_eq!(stream.short(), "ADDED c");
}

#[test]
fn faults_keep_to_their_scope() {
    let api = plain();
    put(&api, &["a", "b"]);
    let page = |token: &str| with(SERVICES, &[("limit", "1"), ("continue", token)]);
    let (_, first) = get(&api, &with(SERVICES, &[("limit", "1")]));
    let page = page(first["metadata"]["continue"].as_str().unwrap());
    let one = "/api/v1/namespaces/ns/services/a";
    let asked = [SERVICES, SLICES, WATCH, &page, one, "/healthz"];
    for (verb, path, hit) in [
        (Verb::Any, "", &asked[..]),
        (Verb::Any, "services", &[SERVICES, WATCH, &page, one]),
        (Verb::List, "", &[SERVICES, SLICES]),
        (Verb::List, "endpointslices", &[SLICES]),
        (Verb::Watch, "", &[WATCH]),
        (Verb::Continue, "", &[&page]),
        (Verb::Get, "", &[one, "/healthz"]),
        (Verb::Write, "", &[]),
    ] {
        api.inject(Fault::Unavailable.on(verb, path));
        for path in asked {
            let mut connection = Connection::to(&api).unwrap();
            let status = connection.get(path).unwrap().status;
            assert_eq!(status == 503, hit.contains(&path), "{verb:?} {path}");
        }
        api.clear_faults();
    }
}

#[test]
fn faults_are_used_up_in_order() {
    let api = plain();
    api.inject(Fault::Unavailable.on(Verb::List, "").times(2));
    api.inject(Fault::InternalError.on(Verb::Any, "").once());
    let codes: Vec<_> = (0..4).map(|_| get(&api, SERVICES).0).collect();
    assert_eq!(codes, [503, 503, 500, 200]);
}
