//! What a PUT does with objects that do not exist, or whose version it does not name; uids and versions of requests.

use serde_json::{Value, json};
use sluice_api::{KINDS, Resource};

use crate::http::Client;

/// A legal object of each kind that a PUT creates (`AllowCreateOnUpdate` in `pkg/registry`).
fn created() -> Vec<(&'static str, Value)> {
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "x"});
    let about = json!({"kind": "Pod", "name": "p", "namespace": "default"});
    let ports = json!({"ports": [{"port": 80}]});
    vec![
        ("v1/services", json!({"spec": ports})),
        ("v1/endpoints", json!({})),
        ("v1/events", json!({"involvedObject": about})),
        (
            "events.k8s.io/v1/events",
            json!({
                "regarding": about, "action": "a", "reason": "r", "type": "Normal", "reportingController": "example.com/c",
                "reportingInstance": "c-1", "eventTime": "2026-01-03T00:00:00.000000Z",
            }),
        ),
        (
            "v1/limitranges",
            json!({"spec": {"limits": [{"type": "Pod"}]}}),
        ),
        ("coordination.k8s.io/v1/leases", json!({})),
        ("node.k8s.io/v1/runtimeclasses", json!({"handler": "runc"})),
        (
            "rbac.authorization.k8s.io/v1/clusterroles",
            json!({"rules": []}),
        ),
        (
            "rbac.authorization.k8s.io/v1/clusterrolebindings",
            json!({"roleRef": role}),
        ),
        ("rbac.authorization.k8s.io/v1/roles", json!({"rules": []})),
        (
            "rbac.authorization.k8s.io/v1/rolebindings",
            json!({"roleRef": role}),
        ),
    ]
}

fn collection(kind: &Resource) -> String {
    let group = if kind.group.is_empty() { "api" } else { "apis" };
    let place = if kind.namespaced {
        "namespaces/default/"
    } else {
        ""
    };
    format!("/{group}/{}/{place}{}", kind.api_version(), kind.plural)
}

/// Reviews and measurements are no stored objects.
fn stored() -> impl Iterator<Item = std::sync::Arc<Resource>> {
    let client = Client::new();
    let kinds = KINDS.iter().cloned();
    kinds.filter(move |it| {
        client.get(&collection(it)).1["kind"] == format!("{}List", it.kind)
            && it.group != "metrics.k8s.io"
            && it.kind != "ComponentStatus"
    })
}

#[test]
fn a_put_creates_objects_of_some_kinds() {
    let client = Client::new();
    let (mut created, mut others) = (created(), 0);
    for kind in stored() {
        let name = format!("{}/{}", kind.api_version(), kind.plural);
        let own = created.iter().position(|(it, _)| *it == name);
        let own = own.map(|it| created.remove(it).1);
        let mut body = own.clone().unwrap_or_else(|| json!({}));
        body["metadata"] =
            json!({"name": format!("new-{}", kind.group.len()), "labels": {"a": "b"}});
        // It counts for nothing: there is no object of this version.
        body["metadata"]["resourceVersion"] = "7".into();
        let at = format!("{}/new-{}", collection(&kind), kind.group.len());
        let status = client.json("PUT", &format!("{at}/status"), &body).0;
        assert_eq!(status, 404, "{name}");
        if own.is_none() {
            let (code, status) = client.json("PUT", &at, &body);
            assert_eq!(
                (code, &status["reason"]),
                (404, &json!("NotFound")),
                "{name}"
            );
            others += 1;
            continue;
        }
        let (code, dry) = client.json("PUT", &format!("{at}?dryRun=All"), &body);
        assert_eq!(code, 201, "{name}: {dry}");
        assert_eq!(client.get(&at).0, 404, "{name}");
        let (code, made) = client.json("PUT", &at, &body);
        assert_eq!(code, 201, "{name}: {made}");
        let metadata = &made["metadata"];
        assert!(
            metadata["uid"].is_string() && metadata["creationTimestamp"].is_string(),
            "{made}"
        );
        assert_eq!(
            metadata["managedFields"][0]["operation"], "Update",
            "{made}"
        );
        let (code, again) = client.json("PUT", &at, &made);
        assert_eq!(
            (code, &again["metadata"]["uid"]),
            (200, &metadata["uid"]),
            "{again}"
        );
    }
    assert!(created.is_empty() && others > 30, "{created:?} {others}");
}

#[test]
fn a_put_creates_by_the_rules_of_creation() {
    let client = Client::new();
    let services = "/api/v1/namespaces/default/services";
    let uid = "Operation cannot be fulfilled on services \"web\": StorageError: invalid object, Code: 4, Key: \
               /registry/services/specs/default/web, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in \
               precondition: 1-2, UID in object meta: ";
    for (path, body, code, said) in [
        (
            format!("{services}/web"),
            json!({"metadata": {"name": "web", "uid": "1-2"}, "spec": {"ports": [{"port": 80}]}}),
            409,
            uid,
        ),
        (
            format!("{services}/web"),
            json!({"metadata": {"name": "other"}}),
            400,
            "the name of the object (other) does not match the name on the URL (web)",
        ),
        (
            format!("{services}/WEB"),
            json!({"metadata": {"name": "WEB"}, "spec": {"ports": [{"port": 80}]}}),
            422,
            "Service \"WEB\" is invalid: metadata.name: Invalid value: \"WEB\": ",
        ),
        (
            "/api/v1/namespaces/none/services/web".to_owned(),
            json!({"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}}),
            404,
            "namespaces \"none\" not found",
        ),
    ] {
        let (found, status) = client.json("PUT", &path, &body);
        let message = status["message"].as_str().unwrap_or_default();
        assert!(
            found == code && message.starts_with(said),
            "{found} {message}"
        );
    }
    // A patch creates nothing, and the uid is no precondition of it.
    let merge = "application/merge-patch+json";
    assert_eq!(
        client
            .send("PATCH", &format!("{services}/web"), merge, b"{}")
            .0,
        404
    );
    assert_eq!(client.get(services).1["items"], json!([]));
    let namespace = "/api/v1/namespaces/default";
    let (code, status) = client.send("PATCH", namespace, merge, br#"{"metadata": {"uid": "x"}}"#);
    let said =
        "Namespace \"default\" is invalid: metadata.uid: Invalid value: \"x\": field is immutable";
    assert_eq!((code, &status["message"]), (422, &json!(said)));
}

/// `AllowUnconditionalUpdate` in `pkg/registry`: the version is that of the object, or none is needed.
#[test]
fn updates_of_some_kinds_name_the_version_that_they_replace() {
    let client = Client::new();
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let maps = "/api/v1/namespaces/default/configmaps";
    let object = json!({"metadata": {"name": "a"}});
    for path in [leases, maps] {
        assert_eq!(client.json("POST", path, &object).0, 201);
    }
    let said = "leases.coordination.k8s.io \"a\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified \
                for an update";
    for version in ["", "0"] {
        let mut new = object.clone();
        new["metadata"]["labels"] = json!({"a": version});
        new["metadata"]["resourceVersion"] = version.into();
        let (code, status) = client.json("PUT", &format!("{leases}/a"), &new);
        assert_eq!((code, &status["message"]), (422, &json!(said)));
        assert_eq!(client.json("PUT", &format!("{maps}/a"), &new).0, 200);
    }
    let merge = "application/merge-patch+json";
    let patch = br#"{"metadata": {"labels": {"a": "b"}}}"#;
    assert_eq!(
        client.send("PATCH", &format!("{leases}/a"), merge, patch).0,
        200
    );
    let (_, mut stored) = client.get(&format!("{leases}/a"));
    stored["spec"] = json!({"holderIdentity": "me"});
    assert_eq!(client.json("PUT", &format!("{leases}/a"), &stored).0, 200);
    let (code, status) = client.json("PUT", &format!("{leases}/a"), &stored);
    assert_eq!((code, &status["reason"]), (409, &json!("Conflict")));
}

#[test]
fn preconditions_of_a_deletion() {
    let client = Client::new();
    let maps = "/api/v1/namespaces/default/configmaps";
    let (_, made) = client.json("POST", maps, &json!({"metadata": {"name": "a"}}));
    let metadata = &made["metadata"];
    let text = |field: &str| metadata[field].as_str().unwrap().to_owned();
    let (uid, version) = (text("uid"), text("resourceVersion"));
    for (preconditions, why) in [
        (
            json!({"uid": "1-2"}),
            format!(
                "the UID in the precondition (1-2) does not match the UID in record ({uid}). The object might have been \
                 deleted and then recreated"
            ),
        ),
        (
            json!({"uid": uid, "resourceVersion": "1"}),
            format!(
                "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record ({version}). The \
                 object might have been modified"
            ),
        ),
    ] {
        let body = json!({"preconditions": preconditions});
        let (code, status) = client.json("DELETE", &format!("{maps}/a"), &body);
        let message = format!("Operation cannot be fulfilled on ConfigMap \"a\": {why}");
        assert_eq!(
            (code, &status["reason"], &status["message"]),
            (409, &json!("Conflict"), &json!(message))
        );
    }
    let right = json!({"preconditions": {"uid": uid, "resourceVersion": version}});
    assert_eq!(client.json("DELETE", &format!("{maps}/a"), &right).0, 200);
}

/// `ObjectResourceVersion` and `ErrorToAPIStatus`: what is no version is an error of the server, which has no reason.
#[test]
fn a_version_is_a_number() {
    let client = Client::new();
    let maps = "/api/v1/namespaces/default/configmaps";
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let object = |version: &str| json!({"metadata": {"name": "a", "resourceVersion": version}});
    let (code, status) = client.json("POST", maps, &object("7"));
    let said = "resourceVersion should not be set on objects to be created";
    assert_eq!((code, &status["message"]), (500, &json!(said)));
    assert_eq!(client.json("POST", maps, &object("abc")).0, 201);
    assert_eq!(
        client.json("PUT", &format!("{maps}/b"), &object("abc")).0,
        400
    );
    for (version, why) in [
        ("abc", "invalid syntax"),
        ("+7", "invalid syntax"),
        ("18446744073709551616", "value out of range"),
    ] {
        let said = format!("strconv.ParseUint: parsing {version:?}: {why}");
        // The Lease does not exist: a PUT would create it.
        for path in [maps, leases] {
            let (code, status) = client.json("PUT", &format!("{path}/a"), &object(version));
            assert_eq!((code, &status["message"]), (500, &json!(said)), "{path}");
            assert_eq!(status["reason"], Value::Null);
        }
        let merge = "application/merge-patch+json";
        let patch = object(version).to_string();
        let (code, status) = client.send("PATCH", &format!("{maps}/a"), merge, patch.as_bytes());
        assert_eq!((code, &status["message"]), (500, &json!(said)));
    }
    assert_eq!(client.get(&format!("{leases}/a")).0, 404);
    let (_, stored) = client.get(&format!("{maps}/a"));
    let version = stored["metadata"]["resourceVersion"].as_str().unwrap();
    // Versions are compared as numbers.
    let same = object(&format!("0{version}"));
    assert_eq!(client.json("PUT", &format!("{maps}/a"), &same).0, 200);
    let (code, status) = client.json("PUT", &format!("{maps}/a"), &object("1"));
    assert_eq!((code, &status["reason"]), (409, &json!("Conflict")));
}

/// Only a DELETE says when an object goes (`ValidateObjectMetaAccessorUpdate`).
#[test]
fn an_update_moves_no_deletion() {
    let client = Client::new();
    let maps = "/api/v1/namespaces/default/configmaps";
    let a = format!("{maps}/a");
    client.json(
        "POST",
        maps,
        &json!({"metadata": {"name": "a", "finalizers": ["a/b"]}}),
    );
    let said = |field: &str, given: &Value| {
        let merge = "application/merge-patch+json";
        let patch = json!({"metadata": {field: given}}).to_string();
        let (code, answer) = client.send("PATCH", &a, merge, patch.as_bytes());
        (
            code,
            answer["message"].as_str().unwrap_or_default().to_owned(),
        )
    };
    let (time, grace) = ("deletionTimestamp", "deletionGracePeriodSeconds");
    let refused = |field: &str, given: &Value| {
        let why = format!("metadata.{field}: Invalid value: {given}: field is immutable");
        (422, format!("ConfigMap \"a\" is invalid: {why}"))
    };
    let future = json!("2036-01-03T00:00:00Z");
    for (field, given) in [(time, &future), (grace, &json!(5))] {
        assert_eq!(said(field, given), refused(field, given));
    }
    client.json("DELETE", &a, &json!({}));
    let deleted = client.get(&a).1["metadata"].take();
    // A time is put back in silence, and so is a grace period that was left out.
    for (field, given) in [(time, future), (time, Value::Null), (grace, Value::Null)] {
        assert_eq!(said(field, &given), (200, String::new()), "{field}");
        assert_eq!(client.get(&a).1["metadata"], deleted);
    }
    assert_eq!(said(grace, &json!(5)), refused(grace, &json!(5)));
}
