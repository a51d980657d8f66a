//! Kinds that come and go while the server runs.

use futures::StreamExt;
use serde_json::json;
use sluice_api::answer::Content;

use crate::http::Client;

const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";

#[test]
fn a_kind_can_come_and_go() {
    let client = Client::new();
    let history = client.0.store.history();
    let slice = history.of_kind("discovery.k8s.io/v1", "EndpointSlice");
    let slice = slice.unwrap();
    let object = json!({"metadata": {"name": "a"}, "addressType": "IPv4", "endpoints": []});
    history.serve(history.registry().without(&slice));
    let served = [
        (SLICES, "/items/0/addressType"),
        ("/apis/discovery.k8s.io", "/preferredVersion/groupVersion"),
        ("/apis/discovery.k8s.io/v1", "/resources/0/verbs"),
        (
            "/apis/discovery.k8s.io/v1",
            "/resources/0/storageVersionHash",
        ),
        ("/openapi/v3/apis/discovery.k8s.io/v1", "/paths"),
    ];
    for (path, _) in served {
        assert_eq!(client.get(path).0, 404, "{path}");
    }
    history.serve(history.registry().with(vec![(*slice).clone()]));
    assert_eq!(client.json("POST", SLICES, &object).0, 201);
    for (path, pointer) in served {
        let (code, body) = client.get(path);
        assert!(
            code == 200 && body.pointer(pointer).is_some(),
            "{path}: {body}"
        );
    }
    let auth = [("authorization", "Bearer secret")];
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().build().unwrap();
    let _entered = runtime.enter();
    let watch = client.raw("GET", &format!("{SLICES}?watch=true"), &auth, b"");
    let Content::Pieces(mut pieces) = watch.content else {
        panic!("a watch is a stream");
    };
    assert!(runtime.block_on(pieces.next()).is_some(), "the object");
    history.serve(history.registry().without(&slice));
    assert_eq!(runtime.block_on(pieces.next()), None, "the watch ends");
    assert_eq!(client.get(SLICES).0, 404);
    // As in a cluster of Kubernetes.
    let (_, core) = client.get("/api/v1");
    let core = core["resources"].as_array().unwrap();
    let services = core.iter().find(|it| it["name"] == "services");
    assert_eq!(services.unwrap()["storageVersionHash"], "0/CO1lhkEBI=");
}

/// Kubernetes has one Event, which two groups show under other names.
#[test]
fn events_of_both_groups_are_the_same() {
    const CORE: &str = "/api/v1/namespaces/default/events";
    const THEIRS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";
    let client = Client::new();
    let about = json!({"kind": "Pod", "name": "p", "namespace": "default"});
    let old = json!({
        "metadata": {"name": "old"}, "involvedObject": about, "reason": "Pulled", "message": "here", "count": 2, "type": "Normal",
        "source": {"component": "kubelet"}, "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-02T00:00:00Z",
    });
    let new = json!({
        "metadata": {"name": "new"}, "regarding": about, "reason": "Bound", "note": "there", "type": "Warning",
        "action": "Binding", "reportingController": "example.com/c", "reportingInstance": "c-1",
        "eventTime": "2026-01-03T00:00:00.000000Z",
    });
    assert_eq!(client.json("POST", CORE, &old).0, 201);
    let (code, made) = client.json("POST", THEIRS, &new);
    assert_eq!(
        (code, &made["note"], &made["apiVersion"]),
        (201, &json!("there"), &json!("events.k8s.io/v1"))
    );
    let (code, refused) = client.json(
        "POST",
        THEIRS,
        &json!({"metadata": {"name": "x"}, "regarding": about}),
    );
    assert!(
        code == 422
            && refused["message"]
                .as_str()
                .unwrap()
                .contains("eventTime: Required value"),
        "{refused}"
    );
    for (path, name, fields) in [
        (
            THEIRS,
            "old",
            json!({"regarding": about, "note": "here", "deprecatedCount": 2, "deprecatedSource": {"component": "kubelet"}}),
        ),
        (
            CORE,
            "new",
            json!({"involvedObject": about, "message": "there", "reportingComponent": "example.com/c", "action": "Binding"}),
        ),
    ] {
        let (_, one) = client.get(&format!("{path}/{name}"));
        let (_, list) = client.get(path);
        let listed = list["items"].as_array().unwrap();
        assert_eq!(listed.len(), 2, "{path}");
        let listed = listed
            .iter()
            .find(|it| it["metadata"]["name"] == name)
            .unwrap();
        for (field, value) in fields.as_object().unwrap() {
            assert_eq!(
                (&one[field], &listed[field]),
                (value, value),
                "{path} {name} {field}"
            );
        }
    }
    for (path, field, value, names) in [
        (CORE, "involvedObject.name", "p", 2),
        (THEIRS, "regarding.name", "p", 2),
        (CORE, "reportingComponent", "example.com/c", 1),
        (THEIRS, "reportingController", "example.com/c", 1),
        (CORE, "source", "kubelet", 1),
        (THEIRS, "type", "Warning", 1),
    ] {
        let (_, list) = client.get(&format!("{path}?fieldSelector={field}={value}"));
        assert_eq!(list["items"].as_array().unwrap().len(), names, "{field}");
    }
    // What one writes the other sees.
    let merge = "application/merge-patch+json";
    let (code, patched) = client.send(
        "PATCH",
        &format!("{THEIRS}/old"),
        merge,
        br#"{"note": "elsewhere"}"#,
    );
    assert_eq!((code, &patched["note"]), (200, &json!("elsewhere")));
    assert_eq!(client.get(&format!("{CORE}/old")).1["message"], "elsewhere");
    assert_eq!(
        client.send("DELETE", &format!("{CORE}/new"), "", b"").0,
        200
    );
    assert_eq!(client.get(&format!("{THEIRS}/new")).0, 404);
}
