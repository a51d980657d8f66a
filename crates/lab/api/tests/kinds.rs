//! Kinds that come and go while the server runs.

use std::collections::BTreeSet;

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
    let patch = br#"{"message": "elsewhere"}"#;
    let (code, _) = client.send("PATCH", &format!("{CORE}/old"), merge, patch);
    assert_eq!(code, 200);
    assert_eq!(client.get(&format!("{THEIRS}/old")).1["note"], "elsewhere");
    assert_eq!(
        client.send("DELETE", &format!("{CORE}/new"), "", b"").0,
        200
    );
    assert_eq!(client.get(&format!("{THEIRS}/new")).0, 404);
}

/// What is served on purpose beside, or instead of, kube-apiserver's kinds: docs/lab.md says it.
#[test]
fn discovery_is_kubernetes_own() {
    let client = Client::new();
    let (_, groups) = client.get("/apis");
    let groups = groups["groups"].as_array().unwrap().iter();
    let versions = groups.flat_map(|it| it["versions"].as_array().unwrap());
    let paths = versions.map(|it| format!("/apis/{}", it["groupVersion"].as_str().unwrap()));
    let mut served = BTreeSet::new();
    for path in paths.chain(["/api/v1".to_owned()]) {
        let (_, list) = client.get(&path);
        let version = list["groupVersion"].as_str().unwrap();
        for it in list["resources"].as_array().unwrap() {
            let text = |field: &str| it[field].as_str().unwrap_or_default();
            let words = |field: &str| -> Vec<&str> {
                let all = it[field].as_array().into_iter().flatten();
                all.map(|it| it.as_str().unwrap()).collect()
            };
            let kind = [text("group"), text("version"), text("kind")];
            let kind: Vec<_> = kind.into_iter().filter(|it| !it.is_empty()).collect();
            let scope = if it["namespaced"] == true {
                "namespaced"
            } else {
                "cluster"
            };
            let mut verbs = words("verbs");
            verbs.sort_unstable();
            let verbs = if verbs.len() == 8 {
                "*".to_owned()
            } else {
                verbs.join(",")
            };
            let name = text("name");
            let mut line = format!("{version} {name} {} {scope} {verbs}", kind.join("/"));
            if !name.contains('/') {
                for field in ["shortNames", "categories"] {
                    let all = words(field).join(",");
                    line += if all.is_empty() { " -" } else { " " };
                    line += &all;
                }
            }
            served.insert(line);
        }
    }
    let known = include_str!("discovery.txt").lines();
    let known = known.filter(|it| !it.starts_with('#')).map(str::to_owned);
    let known: BTreeSet<String> = known.collect();
    let missing: Vec<_> = known.difference(&served).collect();
    // kubelets here have no port.
    assert_eq!(
        missing,
        ["v1 nodes/proxy NodeProxyOptions cluster create,delete,get,patch,update"]
    );
    let more: Vec<_> = served.difference(&known).collect();
    assert_eq!(
        more,
        [
            "metrics.k8s.io/v1beta1 nodes NodeMetrics cluster get,list - -",
            "metrics.k8s.io/v1beta1 pods PodMetrics namespaced get,list - -"
        ]
    );
}

/// `LegacyBindingREST` and `BindingREST` in `pkg/registry/core/pod/storage/storage.go`.
#[test]
fn a_binding_of_either_path_assigns_a_pod() {
    const NAMESPACE: &str = "/api/v1/namespaces/default";
    let client = Client::new();
    let pods = format!("{NAMESPACE}/pods");
    let bindings = format!("{NAMESPACE}/bindings");
    let made = |name: &str| {
        let container = json!({"name": "c", "image": "i"});
        let pod = json!({"metadata": {"name": name}, "spec": {"containers": [container]}});
        assert_eq!(client.json("POST", &pods, &pod).0, 201);
    };
    let binding = |name: &str, target: serde_json::Value| json!({"metadata": {"name": name, "labels": {"zone": "z"}}, "target": target});
    let node = json!({"kind": "Node", "name": "n"});
    made("a");
    made("b");
    for (path, binding, code, said) in [
        (
            bindings.clone(),
            binding("", node.clone()),
            400,
            "Name parameter required.",
        ),
        (
            format!("{pods}/a/binding"),
            binding("b", node.clone()),
            400,
            "name in URL does not match name in Binding object",
        ),
        (
            bindings.clone(),
            binding("a", json!({"kind": "Pod"})),
            500,
            "[target.kind: Unsupported value: \"Pod\": supported values: \"<empty>\", \"Node\", target.name: Required value]",
        ),
        (
            bindings.clone(),
            binding("c", node.clone()),
            404,
            "pods \"c\" not found",
        ),
        (
            "/api/v1/bindings".to_owned(),
            binding("a", node.clone()),
            405,
            "the server does not allow this method on the requested resource",
        ),
    ] {
        let (found, status) = client.json("POST", &path, &binding);
        assert_eq!((found, &status["message"]), (code, &json!(said)), "{path}");
    }
    for (path, name) in [(bindings, "a"), (format!("{pods}/b/binding"), "b")] {
        let (code, status) = client.json("POST", &path, &binding(name, node.clone()));
        assert_eq!(
            (code, &status["status"]),
            (201, &json!("Success")),
            "{path}"
        );
        let (_, pod) = client.get(&format!("{pods}/{name}"));
        assert_eq!(
            (&pod["spec"]["nodeName"], &pod["metadata"]["labels"]["zone"]),
            (&json!("n"), &json!("z"))
        );
        let (code, status) = client.json("POST", &path, &binding(name, node.clone()));
        assert_eq!((code, &status["reason"]), (409, &json!("Conflict")));
    }
}
