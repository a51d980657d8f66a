//! Headers, parameters and paths of requests, and the codes and words of what is refused.

use serde_json::{Value, json};

use crate::http::{Client, Reply, Whole as _};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const OF_META: &str = "g=meta.k8s.io;v=v1";

fn with_maps(names: &[&str]) -> Client {
    let client = Client::new();
    for name in names {
        let map = json!({"metadata": {"name": name, "labels": {"a": "b"}}, "data": {"k": "yes"}});
        assert_eq!(client.json("POST", MAPS, &map).0, 201);
    }
    client
}

fn accepting(client: &Client, method: &str, path: &str, accept: &str) -> Reply {
    let headers = [("authorization", "Bearer secret"), ("accept", accept)];
    client.raw(method, path, &headers, b"")
}

/// The first events of a watch.
fn events(client: &Client, path: &str, accept: &str, count: usize) -> Vec<Value> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    let mut text = Vec::new();
    runtime.block_on(async {
        let reply = accepting(client, "GET", path, accept);
        let sluice_api::answer::Content::Pieces(mut pieces) = reply.content else {
            panic!("a watch comes in pieces");
        };
        while text.iter().filter(|it| **it == b'\n').count() < count {
            text.extend(futures::StreamExt::next(&mut pieces).await.unwrap());
        }
    });
    let lines = text.split(|it| *it == b'\n').take(count);
    lines
        .map(|it| serde_json::from_slice(it).unwrap())
        .collect()
}

#[test]
fn metadata_comes_alone() {
    let client = with_maps(&["a", "b"]);
    let protobuf = "application/vnd.kubernetes.protobuf";
    let of = |kind: &str| {
        let form = format!("as={kind};{OF_META}");
        format!("{protobuf};{form},application/json;{form},application/json")
    };
    let one = format!("{MAPS}/a");
    let partial = |it: &Value| {
        assert_eq!(it["kind"], "PartialObjectMetadata");
        assert_eq!(it["apiVersion"], "meta.k8s.io/v1");
        assert_eq!(it["metadata"]["labels"]["a"], "b");
        assert!(it["metadata"]["resourceVersion"].is_string());
        assert!(it["data"].is_null(), "{it}");
    };
    let metadata = of("PartialObjectMetadata");
    partial(&accepting(&client, "GET", &one, &metadata).content.json());
    let list = accepting(&client, "GET", MAPS, &of("PartialObjectMetadataList"));
    let list = list.content.json();
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert!(list["metadata"]["resourceVersion"].is_string());
    assert_eq!(list["items"].as_array().unwrap().len(), 2);
    partial(&list["items"][0]);
    let watch = format!(
        "{MAPS}?watch=1&allowWatchBookmarks=1&sendInitialEvents=1&resourceVersionMatch=NotOlderThan"
    );
    let events = events(&client, &watch, &metadata, 3);
    assert_eq!(events[0]["type"], "ADDED");
    partial(&events[0]["object"]);
    assert_eq!(events[2]["type"], "BOOKMARK");
    let end = &events[2]["object"];
    assert_eq!(end["kind"], "PartialObjectMetadata");
    assert_eq!(
        end["metadata"]["annotations"]["k8s.io/initial-events-end"],
        "true"
    );
    // The wrong one of the two.
    let wrong = accepting(&client, "GET", MAPS, &metadata);
    assert_eq!(wrong.code, 406);
    let wrong = accepting(&client, "GET", &one, &of("PartialObjectMetadataList"));
    assert_eq!(wrong.code, 406);
}

#[test]
fn yaml_goes_both_ways() {
    let client = with_maps(&[]);
    let body = b"metadata: {name: m}\ndata: {k: \"yes\"}\n";
    let headers = [
        ("authorization", "Bearer secret"),
        ("content-type", "application/yaml"),
        ("accept", "application/yaml"),
    ];
    let made = client.raw("POST", MAPS, &headers, body);
    let code = made.code;
    let text = String::from_utf8(made.content.bytes().to_vec()).unwrap();
    assert_eq!(code, 201, "{text}");
    assert!(text.contains("kind: ConfigMap\n"), "{text}");
    assert!(
        text.contains("k: \"yes\"\n") || text.contains("k: 'yes'\n"),
        "{text}"
    );
    let list = accepting(&client, "GET", MAPS, "application/yaml")
        .content
        .bytes();
    assert!(String::from_utf8_lossy(&list).contains("kind: ConfigMapList\n"));
    let missing = accepting(&client, "GET", &format!("{MAPS}/none"), "application/yaml");
    assert_eq!(missing.code, 404);
    let missing = missing.content.bytes();
    assert!(String::from_utf8_lossy(&missing).contains("reason: NotFound\n"));
    let watch = accepting(
        &client,
        "GET",
        &format!("{MAPS}?watch=1"),
        "application/yaml",
    );
    let refused = watch.content.json();
    assert_eq!(
        refused["message"],
        "only the following media types are accepted: application/json;stream=watch"
    );
}

#[test]
fn nothing_is_written_whose_answer_is_not_accepted() {
    let client = with_maps(&["a"]);
    for (method, path) in [("POST", MAPS.to_owned()), ("DELETE", format!("{MAPS}/a"))] {
        let headers = [("authorization", "Bearer secret"), ("accept", "text/html")];
        let reply = client.raw(method, &path, &headers, br#"{"metadata": {"name": "b"}}"#);
        let code = reply.code;
        let status = reply.content.json();
        assert_eq!((code, &status["reason"]), (406, &json!("NotAcceptable")));
        assert_eq!(
            status["message"],
            "only the following media types are accepted: application/json, application/yaml"
        );
    }
    assert_eq!(client.get(MAPS).1["items"].as_array().unwrap().len(), 1);
}

#[test]
fn tables_of_a_watch_define_their_columns_once() {
    let client = with_maps(&["a", "b"]);
    let table = format!("application/json;as=Table;{OF_META}");
    let watch = format!(
        "{MAPS}?watch=1&allowWatchBookmarks=1&sendInitialEvents=1&resourceVersionMatch=NotOlderThan&includeObject=None"
    );
    let events = events(&client, &watch, &table, 3);
    assert_eq!(events[0]["object"]["columnDefinitions"][0]["name"], "Name");
    assert_eq!(events[1]["object"]["columnDefinitions"], Value::Null);
    assert_eq!(events[1]["object"]["rows"][0]["cells"][0], "b");
    // Who waits for the end finds it in the row.
    let end = &events[2]["object"]["rows"][0]["object"]["metadata"];
    assert_eq!(end["annotations"]["k8s.io/initial-events-end"], "true");
}

#[test]
fn watches_have_paths_of_their_own() {
    let client = with_maps(&["a", "b"]);
    for (path, name) in [
        ("/api/v1/watch/configmaps", "a"),
        ("/api/v1/watch/namespaces/default/configmaps", "a"),
        ("/api/v1/watch/namespaces/default/configmaps/b", "b"),
        ("/api/v1/watch/namespaces/default", "default"),
    ] {
        let first = events(&client, path, "*/*", 1).remove(0);
        assert_eq!(
            (&first["type"], &first["object"]["metadata"]["name"]),
            (&json!("ADDED"), &json!(name)),
            "{path}"
        );
    }
    let made = client.json(
        "POST",
        "/api/v1/watch/namespaces/default/configmaps",
        &json!({}),
    );
    assert_eq!(made.0, 405);
    assert_eq!(client.get("/api/v1/watch").0, 404);
}

#[test]
fn versions_of_the_future_are_refused_for_now() {
    let client = with_maps(&["a"]);
    let future = client.0.store.revision() + 1000;
    for path in [
        format!("{MAPS}/a?resourceVersion={future}"),
        format!("{MAPS}?resourceVersion={future}"),
        format!("{MAPS}?resourceVersion={future}&resourceVersionMatch=NotOlderThan"),
        format!("{MAPS}?resourceVersion={future}&resourceVersionMatch=Exact"),
    ] {
        let (code, status) = client.get(&path);
        assert_eq!(
            (code, &status["reason"]),
            (504, &json!("Timeout")),
            "{path}"
        );
        let details = &status["details"];
        assert_eq!(details["causes"][0]["reason"], "ResourceVersionTooLarge");
        assert_eq!(details["retryAfterSeconds"], 1);
        let message = status["message"].as_str().unwrap();
        let words = format!("Timeout: Too large resource version: {future}, current: ");
        assert!(message.starts_with(&words), "{message}");
    }
    assert_eq!(client.get(&format!("{MAPS}/a?resourceVersion=1")).0, 200);
    assert_eq!(client.get(&format!("{MAPS}/a?resourceVersion=0")).0, 200);
}

#[test]
fn parameters_that_contradict_each_other_are_refused() {
    let client = with_maps(&["a"]);
    let bad = "ListOptions.meta.k8s.io \"\" is invalid: ";
    for (query, code, expect) in [
        (
            "resourceVersionMatch=Exact",
            422,
            format!("{bad}resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"),
        ),
        (
            "resourceVersionMatch=Exact&resourceVersion=0",
            422,
            format!("{bad}resourceVersionMatch: Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""),
        ),
        (
            "resourceVersionMatch=Newest&resourceVersion=1&continue=x",
            422,
            format!(
                "{bad}[resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided, \
                 resourceVersionMatch: Unsupported value: \"Newest\": supported values: \"Exact\", \"NotOlderThan\", \"\"]"
            ),
        ),
        (
            "sendInitialEvents=true",
            422,
            format!("{bad}sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list"),
        ),
        (
            "watch=1&resourceVersionMatch=NotOlderThan",
            422,
            format!("{bad}resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"),
        ),
        (
            "watch=1&sendInitialEvents=1",
            422,
            format!("{bad}resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"),
        ),
        (
            "resourceVersion=x",
            400,
            "invalid resource version: resourceVersion: Invalid value: \"x\": strconv.ParseUint: parsing \"x\": invalid \
             syntax"
                .to_owned(),
        ),
        (
            "limit=x",
            400,
            "strconv.ParseInt: parsing \"x\": invalid syntax".to_owned(),
        ),
        (
            "fieldSelector=spec.x=1",
            400,
            "\"spec.x\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"".to_owned(),
        ),
    ] {
        let (found, status) = client.get(&format!("{MAPS}?{query}"));
        assert_eq!((found, &status["message"]), (code, &expect.into()), "{query}");
    }
    assert_eq!(client.get(&format!("{MAPS}?limit=-1")).0, 200);
}

#[test]
fn bodies_that_contradict_their_path_are_refused() {
    let client = with_maps(&["a"]);
    let one = format!("{MAPS}/a");
    for (method, path, body, expect) in [
        (
            "POST",
            MAPS,
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "b"}}),
            "the API version in the data (apps/v1) does not match the expected API version (v1)",
        ),
        (
            "POST",
            MAPS,
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "b"}}),
            "Secret in version \"v1\" cannot be handled as a ConfigMap: no kind \"Secret\" is registered for version \"v1\"",
        ),
        (
            "POST",
            MAPS,
            json!({"metadata": {"name": "b", "namespace": "other"}}),
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            "PUT",
            &one,
            json!({"metadata": {"name": "b"}}),
            "the name of the object (b) does not match the name on the URL (a)",
        ),
        (
            "PUT",
            &one,
            json!({"metadata": {}}),
            "the name of the object (a based on URL) was undeterminable: name must be provided",
        ),
    ] {
        let (code, status) = client.json(method, path, &body);
        assert_eq!((code, &status["message"]), (400, &json!(expect)));
    }
    let (code, status) = client.json("POST", MAPS, &json!({"data": {}}));
    assert_eq!(code, 422);
    assert_eq!(
        status["message"],
        "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required"
    );
}

#[test]
fn patches_end_as_in_kubernetes() {
    let client = with_maps(&["a"]);
    let one = format!("{MAPS}/a");
    let strict = format!("{one}?fieldValidation=Strict");
    let (json_patch, merge) = (
        "application/json-patch+json",
        "application/merge-patch+json",
    );
    let strategic = "application/strategic-merge-patch+json";
    for (path, sort, body, code, expect) in [
        (
            &one,
            "text/plain",
            json!({}),
            415,
            "the body of the request was in an unknown format - accepted media types include: \
             application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, \
             application/apply-patch+yaml"
                .to_owned(),
        ),
        (
            &one,
            json_patch,
            json!([{"op": "test", "path": "/data/k", "value": "no"}]),
            422,
            "the server rejected our request due to an error in our request".to_owned(),
        ),
        (
            &one,
            merge,
            json!({"metadata": {"name": "b"}}),
            400,
            "the name of the object (b) does not match the name on the URL (a)".to_owned(),
        ),
        (
            &one,
            json_patch,
            json!([{"op": "replace", "path": "/metadata/namespace", "value": "b"}]),
            400,
            "the namespace of the provided object does not match the namespace sent on the request".to_owned(),
        ),
        (
            &one,
            strategic,
            json!({"data": {"k": {"a": [1, "x"]}}}),
            422,
            " \"\" is invalid: patch: Invalid value: \"map[data:map[k:map[a:[1 x]]]]\": ".to_owned(),
        ),
        (
            &one,
            merge,
            json!({"data": 1}),
            422,
            " \"\" is invalid: patch: Invalid value: \"{\\\"apiVersion\\\":\\\"v1\\\",".to_owned(),
        ),
        (
            &one,
            merge,
            json!({"kind": "Secret"}),
            422,
            " \"\" is invalid: patch: Invalid value: \"{\\\"apiVersion\\\":\\\"v1\\\",".to_owned(),
        ),
        (
            &one,
            json_patch,
            json!([{"op": "replace", "path": "/apiVersion", "value": "v2"}]),
            422,
            " \"\" is invalid: patch: Invalid value: \"{\\\"apiVersion\\\":\\\"v2\\\",".to_owned(),
        ),
        (
            &strict,
            strategic,
            json!({"odd": 1}),
            422,
            " \"\" is invalid: patch: Invalid value: \"map[odd:1]\": strict decoding error: unknown field \"odd\"".to_owned(),
        ),
        (
            &format!("{one}?force=true"),
            merge,
            json!({}),
            422,
            "PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: may not be specified for non-apply patch".to_owned(),
        ),
        (
            &format!("{one}?dryRun=Some&fieldValidation=Odd"),
            merge,
            json!({}),
            422,
            "PatchOptions.meta.k8s.io \"\" is invalid: [dryRun: Unsupported value: [\"Some\"]: supported values: \"All\", \
             fieldValidation: Unsupported value: \"Odd\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"]"
                .to_owned(),
        ),
        (
            &format!("{MAPS}/none"),
            merge,
            json!({}),
            404,
            "configmaps \"none\" not found".to_owned(),
        ),
    ] {
        let before = client.0.store.revision();
        let (found, status) = client.send("PATCH", path, sort, body.to_string().as_bytes());
        let message = status["message"].as_str().unwrap();
        assert_eq!(found, code, "{body}: {message}");
        assert!(message.starts_with(&expect), "{message}");
        assert_eq!(client.0.store.revision(), before, "{body}");
    }
}

#[test]
fn the_control_plane_is_healthy() {
    let client = Client::new();
    let (_, list) = client.get("/api/v1/componentstatuses");
    assert_eq!(list["kind"], "ComponentStatusList");
    assert_eq!(list["items"].as_array().unwrap().len(), 3);
    let headers = [
        ("authorization", "Bearer secret"),
        ("accept", &*format!("application/json;as=Table;{OF_META}")),
    ];
    let one = client.raw("GET", "/api/v1/componentstatuses/etcd-0", &headers, b"");
    assert_eq!(
        one.warnings,
        [r#"299 - "v1 ComponentStatus is deprecated in v1.19+""#]
    );
    let table = one.content.json();
    assert_eq!(
        table["rows"][0]["cells"],
        json!(["etcd-0", "Healthy", "ok", ""])
    );
    assert_eq!(client.get("/api/v1/componentstatuses/none").0, 404);
    assert_eq!(
        client
            .json("DELETE", "/api/v1/componentstatuses/etcd-0", &Value::Null)
            .0,
        405
    );
}

#[test]
fn managers_of_fields_have_printable_names_of_128_bytes() {
    let client = with_maps(&["a"]);
    let long = "a".repeat(129);
    for (given, said) in [
        (
            "a%00b",
            r#"Invalid value: "a\x00b": invalid character U+0000 (at position 1)"#,
        ),
        (
            "%C3%A9%0A",
            r#"Invalid value: "\u{e9}\n": invalid character U+000A (at position 2)"#,
        ),
        (
            "%E2%80%8B",
            r#"Invalid value: "\u200b": invalid character U+200B (at position 0)"#,
        ),
        (&long, "Too long: may not be more than 128 bytes"),
    ] {
        let said = said.replace("\\u{e9}", "\u{e9}");
        let map = json!({"metadata": {"name": "b"}});
        for (method, path, options) in [
            ("POST", MAPS.to_owned(), "CreateOptions"),
            ("PUT", format!("{MAPS}/a"), "UpdateOptions"),
            ("PATCH", format!("{MAPS}/a"), "PatchOptions"),
        ] {
            let path = format!("{path}?fieldManager={given}");
            let sort = match method {
                "PATCH" => "application/merge-patch+json",
                _ => "application/json",
            };
            let (code, status) = client.send(method, &path, sort, map.to_string().as_bytes());
            let words = format!("{options}.meta.k8s.io \"\" is invalid: fieldManager: {said}");
            assert_eq!((code, &status["message"]), (422, &json!(words)), "{method}");
        }
    }
    assert_eq!(client.get(&format!("{MAPS}/b")).0, 404);
    // A program's own name is cut.
    let agent = format!("{long}/1.0");
    let headers = [("authorization", "Bearer secret"), ("user-agent", &*agent)];
    let body = json!({"metadata": {"name": "c"}, "data": {"k": "v"}}).to_string();
    let reply = client.raw("POST", MAPS, &headers, body.as_bytes());
    assert_eq!(
        reply.content.json()["metadata"]["managedFields"][0]["manager"],
        long[..128]
    );
}

#[test]
fn a_scale_is_an_object_of_its_kind() {
    let client = Client::new();
    let sets = "/apis/apps/v1/namespaces/default/replicasets";
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template});
    client.json(
        "POST",
        sets,
        &json!({"metadata": {"name": "r"}, "spec": spec}),
    );
    let path = format!("{sets}/r/scale?fieldValidation=Strict");
    let (put, merge) = ("application/json", "application/merge-patch+json");
    let undecodable = "Scale in version \"v1\" cannot be handled as a Scale: json: cannot unmarshal string into Go struct field \
                       ScaleSpec.spec.replicas of type int32";
    for (sort, body, code, said) in [
        (put, json!({"metadata": {"name": "r"}, "spec": {"replicas": "3"}}), 400, undecodable.to_owned()),
        (
            merge,
            json!({"spec": {"replicas": "3"}}),
            422,
            " \"\" is invalid: patch: Invalid value: ".to_owned(),
        ),
        (
            put,
            json!({"metadata": {"name": "r"}, "spec": {"replicas": 3, "size": 1}}),
            400,
            "Scale in version \"v1\" cannot be handled as a Scale: strict decoding error: unknown field \"spec.size\"".to_owned(),
        ),
        (
            put,
            json!({"metadata": {"name": "q"}, "spec": {"replicas": 3}}),
            400,
            "the name of the object (q) does not match the name on the URL (r)".to_owned(),
        ),
        (
            put,
            json!({"kind": "Deployment", "metadata": {"name": "r"}}),
            400,
            "Deployment in version \"v1\" cannot be handled as a Scale: no kind \"Deployment\" is registered for version \
             \"autoscaling/v1\""
                .to_owned(),
        ),
        (
            merge,
            json!({"spec": {"replicas": -1}}),
            422,
            "Scale.autoscaling \"r\" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0".to_owned(),
        ),
        (
            put,
            json!({"metadata": {"name": "r", "uid": "x"}, "spec": {"replicas": 3}}),
            409,
            "Operation cannot be fulfilled on replicasets.apps \"r\": StorageError: invalid object, Code: 4, Key: /registry/replicasets/default/r, \
             ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: x, ".to_owned(),
        ),
    ] {
        let method = if sort == put { "PUT" } else { "PATCH" };
        let (found, status) = client.send(method, &path, sort, body.to_string().as_bytes());
        let message = status["message"].as_str().unwrap_or_default();
        assert!(found == code && message.starts_with(&said), "{body}: {found} {message}");
    }
    assert_eq!(client.get(&path).1["spec"]["replicas"], 1);
}

#[test]
fn bodies_that_are_no_json_are_told_in_gos_words() {
    let client = Client::new();
    let head = "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: ";
    for (body, said) in [
        ("", "unexpected end of JSON input (<empty>)"),
        (
            "not json",
            "invalid character 'o' in literal null (expecting 'u') (6e6f74206a736f6e)",
        ),
        (
            "{\"a\" 1}",
            "invalid character '1' after object key ({\"a\" 1})",
        ),
        (
            "{\"a\":1 2}",
            "invalid character '2' after object key:value pair ({\"a\":1 2})",
        ),
        (
            "{a:1}",
            "invalid character 'a' looking for beginning of object key string ({a:1})",
        ),
        (
            "{\"a\":1,}",
            "invalid character '}' looking for beginning of object key string ({\"a\":1,})",
        ),
        (
            "{\"a\":[1 2]}",
            "invalid character '2' after array element ({\"a\":[1 2]})",
        ),
        (
            "{\"a\":\"\n\"}",
            "invalid character '\\n' in string literal ({\"a\":\"\n\"})",
        ),
        (
            "{\"a\":\"\\x\"}",
            "invalid character 'x' in string escape code ({\"a\":\"\\x\"})",
        ),
        (
            "{\"a\":-}",
            "invalid character '}' in numeric literal ({\"a\":-})",
        ),
        (
            "{\"a\":1.}",
            "invalid character '}' after decimal point in numeric literal ({\"a\":1.})",
        ),
        (
            "{} {}",
            "invalid character '{' after top-level value ({} {})",
        ),
        ("{\"a\":", "unexpected end of JSON input ({\"a\":)"),
        (
            "{\"metadata\":{\"name\":\"b\",\"labels\":'}}",
            "invalid character '\\'' looking for beginning of value ({\"metadata\":{\"name\":\"b\",\"label ...)",
        ),
        (
            "[]",
            "json: cannot unmarshal array into Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; \
             Kind string \"json:\\\"kind,omitempty\\\"\" } (5b5d)",
        ),
    ] {
        let (code, status) = client.send("POST", MAPS, "application/json", body.as_bytes());
        assert_eq!(
            (code, &status["message"]),
            (400, &json!(format!("{head}{said}"))),
            "{body}"
        );
    }
}

#[test]
fn version_and_health_are_those_of_kubernetes() {
    let client = Client::new();
    let (_, version) = client.get("/version");
    for field in [
        "major",
        "minor",
        "gitVersion",
        "gitCommit",
        "gitTreeState",
        "buildDate",
        "goVersion",
        "compiler",
        "platform",
        "emulationMajor",
        "emulationMinor",
        "minCompatibilityMajor",
        "minCompatibilityMinor",
    ] {
        assert!(version[field].is_string(), "{field}");
    }
    for (path, code, expected) in [
        ("/readyz", 200, "ok"),
        ("/livez/ping", 200, "ok"),
        ("/healthz?exclude=etcd", 200, "ok"),
        (
            "/readyz?verbose",
            200,
            "[+]ping ok\n[+]log ok\n[+]etcd ok\nreadyz check passed\n",
        ),
        (
            "/livez?verbose=1&exclude=etcd&exclude=x&exclude=y",
            200,
            "[+]ping ok\n[+]log ok\n[+]etcd excluded: ok\nwarn: some health checks cannot be excluded: no matches for \
             \"x\", \"y\"\nlivez check passed\n",
        ),
        ("/readyz/nothing", 404, "{"),
    ] {
        let reply = client.raw("GET", path, &[], b"");
        let text = String::from_utf8(reply.content.bytes().to_vec()).unwrap();
        assert_eq!(reply.code, code, "{path}");
        assert!(
            if code == 200 {
                text == expected
            } else {
                text.starts_with(expected)
            },
            "{path}: {text}"
        );
    }
}
