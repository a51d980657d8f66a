//! What a test puts into the store, and the events that clients write.

use crate::support::{Connection, labelled, plain, put, service};
use serde_json::{Value, json};

const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/ns/events";

#[test]
fn the_server_adds_what_is_its_own() {
    let api = plain();
    let first = put(&api, &["a"]);
    let created = api.get("Service", "ns", "a").unwrap();
    let mut changed = labelled("a", "x", "y");
    let second = api.put(changed.clone()).unwrap();
    let relabelled = api.get("Service", "ns", "a").unwrap();
    changed["spec"]["type"] = "NodePort".into();
    api.put(changed).unwrap();
    let respecified = api.get("Service", "ns", "a").unwrap();
    assert_eq!(second, first + 1);
    for object in [&relabelled, &respecified] {
        for field in ["uid", "creationTimestamp"] {
            assert_eq!(object["metadata"][field], created["metadata"][field]);
        }
    }
    let generation = |it: &Value| it["metadata"]["generation"].as_u64().unwrap();
    assert_eq!(
        [&created, &relabelled, &respecified].map(generation),
        [1, 1, 2]
    );
    // Given values stand.
    let mut given = service("b");
    given["metadata"]["uid"] = "mine".into();
    given["metadata"]["creationTimestamp"] = "2020-01-01T00:00:00Z".into();
    given["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("namespace");
    api.put(given).unwrap();
    let given = api.get("Service", "default", "b").unwrap();
    assert_eq!(given["metadata"]["uid"], "mine");
    assert_eq!(
        given["metadata"]["creationTimestamp"],
        "2020-01-01T00:00:00Z"
    );
    assert_eq!(api.list("Service").len(), 2);
}

#[test]
fn what_has_no_place_is_refused() {
    let api = plain();
    for (object, expect) in [
        (
            json!({"kind": "Secret", "apiVersion": "v1"}),
            "store \"Secret\" \"\": no collection for \"v1\"",
        ),
        (
            json!({"kind": "Service", "apiVersion": "v1"}),
            "store \"Service\" \"\": metadata.name is missing",
        ),
        (
            json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "a", "namespace": "b"}}),
            "store \"Node\" \"a\": metadata.namespace is set",
        ),
        (json!("text"), "store \"\" \"\": no collection for \"\""),
    ] {
        let version = api.resource_version();
        let error = api.put_all([service("good"), object]).unwrap_err();
        assert_eq!(error.to_string(), expect);
        assert_eq!(api.resource_version(), version);
    }
    let error = api.delete("Service", "ns", "none").unwrap_err();
    assert_eq!(
        error.to_string(),
        "store \"Service\" \"ns\" \"none\": there is none to delete"
    );
}

#[test]
fn clients_write_events() {
    let api = plain();
    let mut connection = Connection::to(&api).unwrap();
    let mut send = |method, path: &str, body: &Value| {
        let headers = [("Content-Type", "application/json")];
        let answer = connection.send(method, path, &headers, &body.to_string());
        let mut answer = answer.unwrap();
        (answer.status, answer.json())
    };
    let event = json!({"metadata": {"name": "e"}, "reason": "Started"});
    let (code, stored) = send("POST", EVENTS, &event);
    assert_eq!(
        (code, &stored["kind"], &stored["reason"]),
        (201, &json!("Event"), &json!("Started"))
    );
    assert_eq!(stored["metadata"]["namespace"], "ns");
    assert_eq!(api.events(), std::slice::from_ref(&stored));
    let other = json!({"metadata": {"name": "e", "namespace": "other"}});
    let kind = json!({"metadata": {"name": "k"}, "kind": "Service"});
    for (method, path, body, expect) in [
        ("POST", EVENTS, &event, (409, "AlreadyExists")),
        ("POST", EVENTS, &other, (400, "BadRequest")),
        ("POST", EVENTS, &kind, (400, "BadRequest")),
        ("POST", EVENTS, &json!([1]), (400, "BadRequest")),
        ("POST", EVENTS, &json!({"metadata": {}}), (422, "Invalid")),
        ("PUT", EVENTS, &event, (405, "MethodNotAllowed")),
    ] {
        let (code, answer) = send(method, path, body);
        let found = (code, answer["reason"].as_str().unwrap());
        assert_eq!(found, expect, "{method} {path} {body}: {answer}");
    }
    // Both groups show one collection.
    let core = "/api/v1/namespaces/ns/events";
    assert_eq!(send("POST", core, &event).0, 409);
    assert_eq!(api.events().len(), 1);
}
