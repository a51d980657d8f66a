//! What a list answers.

use crate::support::{Connection, SERVICES, get, name, names, plain, put, service, start, with};
use serde_json::json;
use sluice_miniapi::Options;

#[test]
fn items_have_no_type_and_the_list_has_a_version() {
    let api = plain();
    let version = put(&api, &["b", "a"]);
    let (status, list) = get(&api, SERVICES);
    assert_eq!(status, 200);
    assert_eq!(list["kind"], "ServiceList");
    assert_eq!(list["apiVersion"], "v1");
    assert_eq!(
        list["metadata"],
        json!({"resourceVersion": version.to_string()})
    );
    assert_eq!(names(&list), ["a", "b"]);
    let first = &list["items"][0];
    assert_eq!(first["kind"], json!(null));
    assert_eq!(first["metadata"]["generation"], 1);
    assert_eq!(first["metadata"]["uid"].as_str().unwrap().len(), 36);
    let time = first["metadata"]["creationTimestamp"].as_str().unwrap();
    assert!(time.len() == 20 && time.ends_with('Z'), "{time}");
}

#[test]
fn paths_and_selectors_narrow() {
    let api = plain();
    put(&api, &["a", "b"]);
    let mut other = service("c");
    other["metadata"]["namespace"] = "other".into();
    other["spec"]["clusterIP"] = "None".into();
    api.put(other).unwrap();
    api.put(json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n"}}))
        .unwrap();
    for (path, parameters, expect) in [
        (SERVICES, &[][..], &["a", "b", "c"][..]),
        ("/api/v1/namespaces/ns/services", &[], &["a", "b"]),
        ("/api/v1/nodes", &[], &["n"]),
        ("/apis/networking.k8s.io/v1/servicecidrs", &[], &[]),
        (SERVICES, &[("labelSelector", "app!=b,!gone")], &["a", "c"]),
        (
            SERVICES,
            &[("fieldSelector", "spec.clusterIP!=None")],
            &["a", "b"],
        ),
        (SERVICES, &[("fieldSelector", "metadata.name=b")], &["b"]),
        (
            SERVICES,
            &[("fieldSelector", "metadata.namespace=other")],
            &["c"],
        ),
    ] {
        let path = with(path, parameters);
        let (status, list) = get(&api, &path);
        assert_eq!(status, 200, "{path}: {list}");
        assert_eq!(names(&list), expect, "{path}");
    }
    let (status, one) = get(&api, "/api/v1/namespaces/ns/services/a");
    assert_eq!(
        (status, name(&one), &one["kind"]),
        (200, "a", &json!("Service"))
    );
}

#[test]
fn pages_show_one_version() {
    let api = plain();
    let version = put(&api, &["a", "b", "c", "d", "e"]).to_string();
    let (_, first) = get(&api, &with(SERVICES, &[("limit", "2")]));
    assert_eq!(names(&first), ["a", "b"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 3);
    // What happens meanwhile is not seen.
    api.delete("Service", "ns", "c").unwrap();
    put(&api, &["bb"]);
    let token = first["metadata"]["continue"].as_str().unwrap();
    let next = |token: &str, limit| {
        let path = with(SERVICES, &[("limit", limit), ("continue", token)]);
        get(&api, &path)
    };
    let (_, second) = next(token, "2");
    assert_eq!(names(&second), ["c", "d"]);
    assert_eq!(second["metadata"]["resourceVersion"], *version);
    let (_, third) = next(second["metadata"]["continue"].as_str().unwrap(), "2");
    assert_eq!(names(&third), ["e"]);
    assert_eq!(third["metadata"]["continue"], json!(null));
    // After a compaction the token is refused, with one that goes on inconsistently.
    api.compact();
    let (status, refused) = next(token, "9");
    assert_eq!((status, &refused["reason"]), (410, &json!("Expired")));
    let (status, rest) = next(refused["metadata"]["continue"].as_str().unwrap(), "9");
    assert_eq!((status, names(&rest)), (200, vec!["bb", "d", "e"]));
}

#[test]
fn the_server_may_page_on_its_own() {
    let api = start(Options {
        page_limit: Some(1),
        ..Options::default()
    });
    put(&api, &["a", "b"]);
    let (_, list) = get(&api, SERVICES);
    assert_eq!(names(&list), ["a"]);
    assert!(list["metadata"]["continue"].is_string());
}

#[test]
fn versions_are_matched() {
    let api = start(Options {
        history: 2,
        ..Options::default()
    });
    let forgotten = put(&api, &["a"]).to_string();
    let old = put(&api, &["b"]).to_string();
    let now = put(&api, &["c", "d"]).to_string();
    let future = (api.resource_version() + 1).to_string();
    let check = |parameters: &[(&str, &str)], expect: Result<(&[&str], &str), (u16, &str)>| {
        let (status, answer) = get(&api, &with(SERVICES, parameters));
        match expect {
            Ok((expect, version)) => {
                assert_eq!(status, 200, "{parameters:?}: {answer}");
                assert_eq!(names(&answer), expect, "{parameters:?}");
                assert_eq!(
                    answer["metadata"]["resourceVersion"], version,
                    "{parameters:?}"
                );
            }
            Err((code, reason)) => {
                assert_eq!((status, answer["reason"].as_str()), (code, Some(reason)));
                assert_eq!(answer["kind"], "Status");
            }
        }
    };
    let all: &[&str] = &["a", "b", "c", "d"];
    let version = |it| ("resourceVersion", it);
    let exact = ("resourceVersionMatch", "Exact");
    let newer = ("resourceVersionMatch", "NotOlderThan");
    let limit = ("limit", "9");
    check(&[version("0")], Ok((all, &now)));
    check(&[version("0"), ("limit", "1")], Ok((all, &now)));
    check(&[version(&old)], Ok((all, &now)));
    check(&[version(&old), newer, limit], Ok((all, &now)));
    check(&[version(&old), limit], Ok((&["a", "b"], &old)));
    check(&[version(&old), exact], Ok((&["a", "b"], &old)));
    check(&[version(&forgotten), exact], Err((410, "Expired")));
    check(&[version(&forgotten)], Ok((all, &now)));
    for more in [&[][..], &[exact], &[newer]] {
        check(&[&[version(&future)], more].concat(), Err((504, "Timeout")));
    }
    check(&[exact], Err((422, "Invalid")));
    check(&[version("0"), exact], Err((422, "Invalid")));
    check(
        &[version("1"), ("resourceVersionMatch", "Newest")],
        Err((422, "Invalid")),
    );
    check(&[("sendInitialEvents", "true")], Err((422, "Invalid")));
    for bad in ["resourceVersion", "limit", "continue"] {
        check(&[(bad, "x")], Err((400, "BadRequest")));
    }
    check(&[("labelSelector", "a b")], Err((400, "BadRequest")));
    check(
        &[("fieldSelector", "spec.ports=1")],
        Err((400, "BadRequest")),
    );
    let (_, answer) = get(&api, &with(SERVICES, &[version(&future)]));
    assert_eq!(
        answer["details"]["causes"][0]["reason"],
        "ResourceVersionTooLarge"
    );
}

#[test]
fn wrong_paths_and_methods_are_refused() {
    let api = plain();
    for (method, path, accept, expect) in [
        ("GET", "/api/v1/secrets", "*/*", (404, "NotFound")),
        (
            "GET",
            "/api/v1/namespaces/ns/services/x",
            "*/*",
            (404, "NotFound"),
        ),
        (
            "GET",
            SERVICES,
            "application/vnd.kubernetes.protobuf",
            (406, "NotAcceptable"),
        ),
        ("POST", SERVICES, "*/*", (405, "MethodNotAllowed")),
        (
            "DELETE",
            "/api/v1/namespaces/ns/events/x",
            "*/*",
            (405, "MethodNotAllowed"),
        ),
    ] {
        let mut connection = Connection::to(&api).unwrap();
        let headers = [("Accept", accept)];
        let mut answer = connection.send(method, path, &headers, "{}").unwrap();
        let body = answer.json();
        let found = (answer.status, body["reason"].as_str().unwrap());
        assert_eq!(found, expect, "{method} {path}");
        assert_eq!(
            (&body["kind"], &body["status"]),
            (&json!("Status"), &json!("Failure"))
        );
    }
}

#[test]
fn health_and_version_answer() {
    let api = plain();
    let mut connection = Connection::to(&api).unwrap();
    for path in ["/healthz", "/readyz", "/livez"] {
        let mut answer = connection.get(path).unwrap();
        assert_eq!(
            (answer.status, answer.text().unwrap().as_str()),
            (200, "ok")
        );
    }
    let version = connection.get("/version").unwrap().json();
    assert_eq!(version["gitVersion"], "v1.36.0");
}

#[test]
fn ten_thousand_objects_are_whole() {
    let api = plain();
    let all: Vec<_> = (0..10_000).map(|it| format!("s{it:05}")).collect();
    api.put_all(all.iter().map(|it| service(it))).unwrap();
    let (_, list) = get(&api, SERVICES);
    assert_eq!(names(&list), all);
    assert!(api.bytes_sent() > 1_000_000);
}
