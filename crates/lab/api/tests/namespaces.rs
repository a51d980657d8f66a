//! Namespaces that end, and what holds them.

use serde_json::{Value, json};
use sluice_api::{Settings, Store};

use crate::http::Client;

const NAMESPACE: &str = "/api/v1/namespaces/n";

/// A namespace with a Pod and a ConfigMap, each with a finalizer.
fn held() -> Client {
    let client = Client::new();
    let named = |name: &str| json!({"name": name, "finalizers": ["example.com/hold"]});
    let all = [
        ("/api/v1/namespaces", json!({"metadata": {"name": "n"}})),
        (
            "/api/v1/namespaces/n/pods",
            json!({"metadata": named("p"), "spec": {"containers": [{"name": "c", "image": "i"}]}}),
        ),
        (
            "/api/v1/namespaces/n/configmaps",
            json!({"metadata": named("c")}),
        ),
    ];
    for (path, object) in all {
        let (code, answer) = client.json("POST", path, &object);
        assert_eq!(code, 201, "{answer}");
    }
    client
}

fn release(client: &Client, path: &str) {
    let patch = br#"{"metadata": {"finalizers": null}}"#;
    let merge = "application/merge-patch+json";
    assert_eq!(client.send("PATCH", path, merge, patch).0, 200);
}

/// The reasons of the conditions that are true, with their messages.
fn waits(namespace: &Value) -> Vec<(&str, &str)> {
    let conditions = namespace["status"]["conditions"].as_array().unwrap();
    assert_eq!(conditions.len(), 5);
    let waits = conditions.iter().filter(|it| it["status"] == "True");
    waits
        .map(|it| {
            (
                it["reason"].as_str().unwrap(),
                it["message"].as_str().unwrap(),
            )
        })
        .collect()
}

#[test]
fn pods_go_first_and_the_conditions_say_what_is_left() {
    let client = held();
    let (code, ending) = client.json("DELETE", NAMESPACE, &json!({}));
    assert_eq!(
        (code, &ending["status"]["phase"]),
        (200, &"Terminating".into())
    );
    let config = "/api/v1/namespaces/n/configmaps/c";
    let config_is_marked = || {
        let (code, config) = client.get(config);
        code == 200 && !config["metadata"]["deletionTimestamp"].is_null()
    };
    let (_, namespace) = client.get(NAMESPACE);
    assert_eq!(waits(&namespace), []);
    assert!(!config_is_marked());
    let refused = client.json(
        "POST",
        "/api/v1/namespaces/n/pods",
        &json!({"metadata": {"name": "q"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}),
    );
    assert_eq!(refused.0, 403);
    assert_eq!(
        refused.1["details"]["causes"],
        json!([{
            "reason": "NamespaceTerminating", "message": "namespace n is being terminated",
            "field": "metadata.namespace",
        }])
    );
    release(&client, "/api/v1/namespaces/n/pods/p");
    assert!(config_is_marked());
    let (_, namespace) = client.get(NAMESPACE);
    assert_eq!(
        waits(&namespace),
        [
            (
                "SomeResourcesRemain",
                "Some resources are remaining: configmaps. has 1 resource instances"
            ),
            (
                "SomeFinalizersRemain",
                "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
            ),
        ]
    );
    // A server that starts meanwhile goes on.
    let later = Store::new(Settings::default());
    let kinds = ["Namespace", "ConfigMap"];
    let objects = kinds.iter().flat_map(|it| client.0.store.list(it));
    let objects = objects.map(|it| Value::clone(&it)).collect();
    later.restore(objects, client.0.store.revision()).unwrap();
    for store in [&client.0.store, &later] {
        let mut config = Value::clone(&store.get("ConfigMap", "n", "c").unwrap());
        config["metadata"]["finalizers"] = json!([]);
        store.update(config).unwrap();
        assert!(store.get("ConfigMap", "n", "c").is_none());
        assert!(store.get("Namespace", "", "n").is_none());
    }
}

/// Network policies select a namespace by this label.
#[test]
fn the_label_with_its_name_stays() {
    let client = held();
    let (_, mut namespace) = client.get(NAMESPACE);
    for labels in [
        json!({"kubernetes.io/metadata.name": "other", "a": "b"}),
        Value::Null,
    ] {
        namespace["metadata"]["labels"] = labels;
        namespace["metadata"]["resourceVersion"] = Value::Null;
        let (code, stored) = client.json("PUT", NAMESPACE, &namespace);
        let name = &stored["metadata"]["labels"]["kubernetes.io/metadata.name"];
        assert_eq!((code, name), (200, &json!("n")), "{stored}");
    }
}

#[test]
fn finalizers_of_a_namespace_change_by_finalize_only() {
    let client = held();
    let finalizers = |it: &Value| it["spec"]["finalizers"].clone();
    let (_, mut namespace) = client.get(NAMESPACE);
    assert_eq!(finalizers(&namespace), json!(["kubernetes"]));
    namespace["spec"]["finalizers"] = json!(["kubernetes", "example.com/own"]);
    let (_, kept) = client.json("PUT", NAMESPACE, &namespace);
    assert_eq!(finalizers(&kept), json!(["kubernetes"]));
    let mut finalize = |finalizers: Value| {
        namespace["metadata"]["resourceVersion"] = Value::Null;
        namespace["spec"]["finalizers"] = finalizers;
        client.json("PUT", &format!("{NAMESPACE}/finalize"), &namespace)
    };
    let (code, wrong) = finalize(json!(["mine"]));
    assert_eq!(
        (code, &wrong["details"]["causes"][0]["field"]),
        (422, &"spec.finalizers[0]".into())
    );
    let (code, changed) = finalize(json!(["kubernetes", "example.com/own"]));
    assert_eq!(code, 200, "{changed}");
    assert_eq!(
        finalizers(&changed),
        json!(["kubernetes", "example.com/own"])
    );
    // Empty, and held by the other one.
    client.json("DELETE", NAMESPACE, &json!({}));
    release(&client, "/api/v1/namespaces/n/pods/p");
    release(&client, "/api/v1/namespaces/n/configmaps/c");
    let (_, held) = client.get(NAMESPACE);
    assert_eq!(finalizers(&held), json!(["example.com/own"]));
    assert_eq!(finalize(json!([])).0, 200);
    assert_eq!(client.get(NAMESPACE).0, 404);
}
