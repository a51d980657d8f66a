//! Who owns which fields: server-side apply through the API.

use serde_json::{Value, json};

use crate::http::{Client, config};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SETS: &str = "/apis/apps/v1/namespaces/default/deployments";
const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";

fn apply(client: &Client, path: &str, manager: &str, body: &Value) -> (u16, Value) {
    let path = format!("{path}?fieldManager={manager}");
    client.send("PATCH", &path, APPLY, body.to_string().as_bytes())
}

fn deployment(replicas: Value) -> Value {
    let labels = json!({"app": "web"});
    let mut deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
    });
    if !replicas.is_null() {
        deployment["spec"]["replicas"] = replicas;
    }
    deployment
}

fn scale(replicas: u32) -> Value {
    json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web"},
        "spec": {"replicas": replicas},
    })
}

/// Manager, operation, subresource and version of each entry.
fn managers(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array();
    let entries = entries.into_iter().flatten().map(|it| {
        let text = |field: &str| it[field].as_str().unwrap_or("-").to_owned();
        [
            text("manager"),
            text("operation"),
            text("subresource"),
            text("apiVersion"),
        ]
        .join(" ")
    });
    let mut entries: Vec<_> = entries.collect();
    // Those of one operation come in the order of their times.
    entries.sort();
    entries
}

#[test]
fn a_scale_is_applied_by_its_own_manager() {
    let client = Client::new();
    let (code, _) = apply(&client, &format!("{SETS}/web"), "me", &deployment(2.into()));
    assert_eq!(code, 201);
    let path = format!("{SETS}/web/scale");
    let (code, refused) = apply(&client, &path, "hpa", &scale(3));
    assert_eq!(
        (code, &refused["message"]),
        (
            409,
            &json!("Apply failed with 1 conflict: conflict with \"me\": .spec.replicas")
        )
    );
    let (code, answer) = apply(&client, &path, "hpa&force=true", &scale(3));
    assert_eq!((code, &answer["kind"]), (200, &json!("Scale")));
    assert_eq!(answer["spec"]["replicas"], 3);
    let (_, stored) = client.get(&format!("{SETS}/web"));
    assert_eq!(
        managers(&stored),
        ["hpa Apply scale apps/v1", "me Apply - apps/v1"]
    );
    // Who applies the Deployment without the number leaves it alone.
    let (code, stored) = apply(
        &client,
        &format!("{SETS}/web"),
        "me",
        &deployment(Value::Null),
    );
    assert_eq!((code, &stored["spec"]["replicas"]), (200, &json!(3)));
    let patch = json!({"spec": {"replicas": 4}}).to_string();
    client.send(
        "PATCH",
        &format!("{path}?fieldManager=hand"),
        MERGE,
        patch.as_bytes(),
    );
    let (code, refused) = apply(&client, &path, "hpa", &scale(5));
    assert_eq!(
        (code, &refused["message"]),
        (
            409,
            &json!(
                "Apply failed with 1 conflict: conflict with \"hand\" with subresource \"scale\" using autoscaling/v1: .spec.replicas"
            )
        )
    );
    assert_eq!(
        apply(&client, &format!("{SETS}/none/scale"), "hpa", &scale(1)).0,
        404
    );
}

#[test]
fn a_status_belongs_to_those_who_write_it() {
    let client = Client::new();
    let path = format!("{SETS}/web");
    let mut with_status = deployment(Value::Null);
    with_status["status"] = json!({"replicas": 7});
    let (_, made) = apply(&client, &path, "me", &with_status);
    let owned = &made["metadata"]["managedFields"][0]["fieldsV1"];
    assert!(
        owned["f:status"].is_null() && owned["f:spec"].is_object(),
        "{owned}"
    );
    assert_ne!(made["status"]["replicas"], 7);
    let status = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 9},
        "status": {"replicas": 8},
    });
    let (code, stored) = apply(&client, &format!("{path}/status"), "kubelet", &status);
    assert_eq!((code, &stored["status"]["replicas"]), (200, &json!(8)));
    assert_eq!(stored["spec"]["replicas"], 1);
    // Neither does a client that creates an object own its status.
    let mut other = with_status;
    other["metadata"]["name"] = "other".into();
    let (_, made) = client.json("POST", &format!("{SETS}?fieldManager=me"), &other);
    let owned = &made["metadata"]["managedFields"][0]["fieldsV1"];
    assert!(
        owned["f:status"].is_null() && owned["f:spec"].is_object(),
        "{owned}"
    );
}

#[test]
fn what_was_there_before_the_first_apply_has_an_owner() {
    let client = Client::new();
    let map = json!({"metadata": {"name": "c"}, "data": {"a": "1", "b": "2"}});
    client.json("POST", MAPS, &map);
    let path = format!("{MAPS}/c");
    for reset in [json!([]), json!([{}])] {
        let patch = json!({"metadata": {"managedFields": reset}}).to_string();
        let (code, stored) = client.send("PATCH", &path, MERGE, patch.as_bytes());
        assert_eq!((code, managers(&stored)), (200, Vec::new()), "{reset}");
    }
    let (code, refused) = client.send(
        "PATCH",
        &format!("{path}?fieldManager=m"),
        APPLY,
        &config("c", "data: {a: x}"),
    );
    assert_eq!(
        (code, &refused["message"]),
        (
            409,
            &json!(
                "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .data.a"
            )
        )
    );
    let (_, stored) = client.send(
        "PATCH",
        &format!("{path}?fieldManager=m"),
        APPLY,
        &config("c", "data: {a: \"1\"}"),
    );
    assert_eq!(
        managers(&stored),
        ["before-first-apply Update - v1", "m Apply - v1"]
    );
    assert_eq!(stored["data"], json!({"a": "1", "b": "2"}));
}

#[test]
fn a_client_that_does_not_know_managers_does_not_remove_them() {
    let client = Client::new();
    let path = format!("{MAPS}/c");
    client.send(
        "PATCH",
        &format!("{path}?fieldManager=m"),
        APPLY,
        &config("c", "data: {a: b}"),
    );
    let map = json!({"metadata": {"name": "c"}, "data": {"a": "b", "c": "d"}});
    let (code, stored) = client.json("PUT", &format!("{path}?fieldManager=old"), &map);
    assert_eq!(
        (code, managers(&stored)),
        (
            200,
            vec!["m Apply - v1".to_owned(), "old Update - v1".to_owned()]
        )
    );
}

#[test]
fn what_is_applied_must_be_of_its_type() {
    let client = Client::new();
    let web = format!("{SETS}/web");
    let cannot = "failed to create typed patch object (default/web; apps/v1, Kind=Deployment): ";
    let pods = ".spec.template.spec.containers";
    let mut twice = deployment(Value::Null);
    let containers = &mut twice["spec"]["template"]["spec"]["containers"];
    *containers = json!([{"name": "c"}, {"name": "c"}]);
    let mut unnamed = twice.clone();
    unnamed["spec"]["template"]["spec"]["containers"] = json!([{"image": "i"}]);
    let mut unported = deployment(Value::Null);
    unported["spec"]["template"]["spec"]["containers"][0]["ports"] = json!([{"protocol": "UDP"}]);
    let mut ports = deployment(Value::Null);
    let port = json!({"containerPort": 80});
    ports["spec"]["template"]["spec"]["containers"][0]["ports"] = json!([port, port]);
    let without = |field: &str| {
        let mut less = deployment(Value::Null);
        less.as_object_mut().unwrap().remove(field);
        less
    };
    let with = |field: &str, value: Value| {
        let mut more = deployment(Value::Null);
        more["metadata"][field] = value;
        more
    };
    for (body, code, expect) in [
        (twice, 500, format!("{cannot}{pods}: duplicate entries for key [name=\"c\"]")),
        (
            ports,
            500,
            format!("{cannot}{pods}[name=\"c\"].ports: duplicate entries for key [containerPort=80,protocol=\"TCP\"]"),
        ),
        (
            unported,
            500,
            format!(
                "{cannot}{pods}[name=\"c\"].ports: element 0: associative list with keys has an element that omits key field \
                 \"containerPort\" (and doesn't have default value)"
            ),
        ),
        // A text that is a key is empty where it is not given.
        (
            unnamed,
            422,
            "Deployment.apps \"web\" is invalid: spec.template.spec.containers[0].name: Required value".to_owned(),
        ),
        (
            without("apiVersion"),
            400,
            "Incorrect version specified in apply patch. Specified patch version: , expected: apps/v1".to_owned(),
        ),
        (
            without("kind"),
            500,
            "failed to create typed patch object (/web; apps/v1, Kind=): no corresponding type for apps/v1, Kind="
                .to_owned(),
        ),
        (
            with("name", Value::Null),
            400,
            "the name of the object (web based on URL) was undeterminable: name must be provided".to_owned(),
        ),
        (
            with("name", "other".into()),
            400,
            "the name of the object (other) does not match the name on the URL (web)".to_owned(),
        ),
        (
            with("managedFields", json!([])),
            400,
            "metadata.managedFields must be nil".to_owned(),
        ),
        (
            with("uid", "1".into()),
            409,
            "Operation cannot be fulfilled on deployments.apps \"web\": uid mismatch: the provided object specified uid 1, \
             and no existing object was found"
                .to_owned(),
        ),
    ] {
        let (found, status) = apply(&client, &web, "me", &body);
        assert_eq!((found, &status["message"]), (code, &expect.into()));
    }
    assert_eq!(client.get(&web).0, 404);
    // A version is no precondition for what is not there.
    let (code, made) = apply(&client, &web, "me", &with("resourceVersion", "5".into()));
    assert_eq!(code, 201, "{made}");
    let (code, status) = apply(&client, &web, "me", &with("uid", "1".into()));
    let why = "Deployment.apps \"web\" is invalid: metadata.uid: Invalid value: \"1\": field is immutable";
    assert_eq!((code, &status["message"]), (422, &why.into()));
}

/// Parts of the control plane write without HTTP, and are recorded as those who write over it.
#[test]
fn writers_of_this_process_are_managers() {
    let client = Client::new();
    let store = &client.0.store;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}, "status": {"phase": "Running"},
    });
    let made = store.by("controller").create(pod).unwrap();
    let mut labelled = Value::clone(&made);
    labelled["metadata"]["labels"]["c"] = "d".into();
    let labelled = store.by("controller").update(labelled).unwrap();
    let mut running = Value::clone(&labelled);
    running["status"]["phase"] = "Running".into();
    let running = store.by("kubelet").update_status(running).unwrap();
    let managers = running["metadata"]["managedFields"].as_array().unwrap();
    let shown: Vec<_> = managers
        .iter()
        .map(|it| {
            (
                it["manager"].as_str().unwrap(),
                it["subresource"].as_str(),
                &it["fieldsV1"],
            )
        })
        .collect();
    let [(controller, None, own), (kubelet, Some("status"), status)] = shown[..] else {
        panic!("{shown:?}");
    };
    assert_eq!((controller, kubelet), ("controller", "kubelet"));
    assert_eq!(
        own["f:metadata"]["f:labels"],
        json!({".": {}, "f:a": {}, "f:c": {}})
    );
    assert!(
        own["f:status"].is_null() && own["f:spec"]["f:restartPolicy"].is_object(),
        "{own}"
    );
    assert_eq!(*status, json!({"f:status": {"f:phase": {}}}));
    // What is equal is not written, and has no new owner: nothing is written at rest.
    let before = store.revision();
    let again = store
        .by("other")
        .update_status(Value::clone(&running))
        .unwrap();
    store.by("other").update(Value::clone(&running)).unwrap();
    assert_eq!((&again, store.revision()), (&running, before));
}

/// kube-apiserver sets defaults when it decodes, before it looks at who writes what: a later apply of another value is a conflict.
#[test]
fn whoever_leaves_a_field_to_its_default_owns_it() {
    let client = Client::new();
    let pods = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let mut job = pods.clone();
    job["spec"]["restartPolicy"] = "Never".into();
    let set = json!({"selector": {"matchLabels": {"a": "b"}}, "template": pods});
    let names = json!({"plural": "foos", "kind": "Foo"});
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": schema});
    let foos = json!({"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]});
    let here = "namespaces/default";
    let pull = r#"/f:containers/k:{"name":"c"}/f:imagePullPolicy"#;
    for (path, name, rest, field) in [
        (
            format!("/api/v1/{here}/pods"),
            "a",
            json!({"spec": pods["spec"]}),
            "/f:spec/f:enableServiceLinks".to_owned(),
        ),
        (
            format!("/api/v1/{here}/podtemplates"),
            "a",
            json!({"template": pods}),
            format!("/f:template/f:spec{pull}"),
        ),
        (
            format!("/apis/apps/v1/{here}/deployments"),
            "a",
            json!({"spec": set}),
            format!("/f:spec/f:template/f:spec{pull}"),
        ),
        (
            format!("/apis/apps/v1/{here}/daemonsets"),
            "a",
            json!({"spec": set}),
            "/f:spec/f:updateStrategy/f:type".to_owned(),
        ),
        (
            format!("/apis/batch/v1/{here}/jobs"),
            "a",
            json!({"spec": {"template": job}}),
            "/f:metadata/f:labels/f:a".to_owned(),
        ),
        (
            format!("/api/v1/{here}/services"),
            "a",
            json!({"spec": {"ports": [{"port": 80}]}}),
            "/f:spec/f:internalTrafficPolicy".to_owned(),
        ),
        (
            format!("/api/v1/{here}/secrets"),
            "a",
            json!({"stringData": {"k": "v"}}),
            "/f:data/f:k".to_owned(),
        ),
        (
            "/api/v1/namespaces".to_owned(),
            "a",
            json!({}),
            "/f:metadata/f:labels/f:kubernetes.io~1metadata.name".to_owned(),
        ),
        (
            format!("/apis/networking.k8s.io/v1/{here}/networkpolicies"),
            "a",
            json!({"spec": {"podSelector": {}}}),
            "/f:spec/f:policyTypes".to_owned(),
        ),
        (
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions".to_owned(),
            "foos.example.com",
            json!({"spec": foos}),
            "/f:spec/f:names/f:listKind".to_owned(),
        ),
    ] {
        let mut object = rest;
        object["metadata"]["name"] = name.into();
        let (code, made) = client.json("POST", &path, &object);
        assert_eq!(code, 201, "{path}: {made}");
        let owned = &made["metadata"]["managedFields"][0]["fieldsV1"];
        assert!(owned.pointer(&field).is_some(), "{path}: {field}: {owned}");
    }
}
