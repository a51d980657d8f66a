//! CustomResourceDefinitions and their objects.

use futures::StreamExt;
use serde_json::{Value, json};
use sluice_api::answer::Content;

use crate::http::{Client, Whole};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

fn definition() -> Value {
    let spec = json!({
        "type": "object", "required": ["size"],
        "properties": {
            "size": {"type": "integer", "minimum": 1, "maximum": 9},
            "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
            "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
            "tags": {"type": "array", "maxItems": 2, "items": {"type": "string"}},
            "port": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "parts": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"],
                "items": {
                    "type": "object", "required": ["id"],
                    "properties": {"id": {"type": "string"}, "count": {"type": "integer", "default": 1}},
                },
            },
        },
    });
    let status = json!({"type": "object", "properties": {"size": {"type": "integer"}, "phase": {"type": "string"}}});
    let mut version = json!({
        "name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}},
        "subresources": {
            "status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
        },
        "additionalPrinterColumns": [
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
            {"name": "Part", "type": "string", "jsonPath": ".spec.parts[?(@.id==\"b\")].count"},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
            {"name": "Colour", "type": "string", "priority": 1, "jsonPath": ".spec.color"},
        ],
    });
    let first = version.clone();
    version["name"] = "v1beta1".into();
    version["storage"] = false.into();
    version["deprecated"] = true.into();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "versions": [version, first],
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"]},
        },
    })
}

fn widget(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

fn with_definition() -> Client {
    let client = Client::new();
    let (code, made) = client.json("POST", DEFINITIONS, &definition());
    assert_eq!(code, 201, "{made}");
    client
}

#[test]
fn a_definition_is_served_at_once() {
    let client = with_definition();
    let (_, made) = client.get(&format!("{DEFINITIONS}/widgets.example.com"));
    let condition = |sort: &str| {
        let all = made["status"]["conditions"].as_array().unwrap();
        all.iter().find(|it| it["type"] == sort).unwrap()["status"].clone()
    };
    assert_eq!(
        (condition("NamesAccepted"), condition("Established")),
        (json!("True"), json!("True"))
    );
    assert_eq!(made["status"]["storedVersions"], json!(["v1"]));
    assert_eq!(made["status"]["acceptedNames"]["singular"], "widget");
    assert_eq!(made["spec"]["names"]["listKind"], "WidgetList");
    let (_, group) = client.get("/apis/example.com");
    assert_eq!(group["preferredVersion"]["version"], "v1");
    let (_, kinds) = client.get("/apis/example.com/v1");
    let names: Vec<_> = kinds["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["widgets", "widgets/status", "widgets/scale"]);
    assert_eq!(kinds["resources"][0]["shortNames"], json!(["wd"]));
    let (_, document) = client.get("/openapi/v3/apis/example.com/v1");
    let schema = &document["components"]["schemas"]["com.example.v1.Widget"];
    assert_eq!(
        schema["properties"]["spec"]["properties"]["size"]["maximum"],
        9
    );
    let hash =
        |client: &Client| client.get("/openapi/v3").1["paths"]["apis/example.com/v1"].clone();
    let before = hash(&client);
    let mut other = definition();
    other["spec"]["versions"][1]["schema"]["openAPIV3Schema"]["description"] = "new".into();
    let path = format!("{DEFINITIONS}/widgets.example.com");
    assert_eq!(client.replace(&path, &other).0, 200);
    assert_ne!(hash(&client), before, "kubectl reads the new document");
}

#[test]
fn objects_follow_their_schema() {
    let client = with_definition();
    let given =
        json!({"size": 2, "unknown": 1, "open": {"any": {"thing": 1}}, "parts": [{"id": "b"}]});
    let body = widget("a", &given);
    let text = body.to_string();
    let headers = [
        ("authorization", "Bearer secret"),
        ("content-type", "application/json"),
    ];
    let reply = client.raw("POST", WIDGETS, &headers, text.as_bytes());
    assert_eq!(
        reply.warnings,
        ["299 - \"unknown field \\\"spec.unknown\\\"\""]
    );
    let made = reply.content.json();
    let spec = json!({
        "size": 2, "color": "red", "open": {"any": {"thing": 1}}, "parts": [{"id": "b", "count": 1}],
    });
    assert_eq!(
        (&made["spec"], &made["metadata"]["generation"]),
        (&spec, &json!(1))
    );
    let strict = format!("{WIDGETS}?fieldValidation=Strict");
    let (code, refused) = client.json("POST", &strict, &widget("b", &given));
    assert_eq!(code, 400);
    let words = "strict decoding error: unknown field \"spec.unknown\"";
    assert!(
        refused["message"].as_str().unwrap().ends_with(words),
        "{refused}"
    );
    for (given, expect) in [
        (json!({}), "spec.size: Required value"),
        (
            json!({"size": "2"}),
            "spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \"string\"",
        ),
        (
            json!({"size": 0}),
            "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1",
        ),
        (
            json!({"size": 1, "color": "green"}),
            "spec.color: Unsupported value: \"green\": supported values: \"red\", \"blue\"",
        ),
        (
            json!({"size": 1, "name": "A"}),
            "spec.name: Invalid value: \"A\": spec.name in body should match '^[a-z]+$'",
        ),
        (
            json!({"size": 1, "tags": ["a", "b", "c"]}),
            "spec.tags: Too many: 3: must have at most 2 items",
        ),
        (
            json!({"size": 1, "parts": [{"id": "a"}, {"id": "a"}]}),
            "spec.parts[1]: Duplicate value: {\"id\":\"a\"}",
        ),
    ] {
        let (code, refused) = client.json("POST", WIDGETS, &widget("b", &given));
        let expect = format!("Widget.example.com \"b\" is invalid: {expect}");
        assert_eq!(
            (code, refused["message"].as_str().unwrap()),
            (422, &*expect)
        );
    }
    assert_eq!(client.get(WIDGETS).1["items"].as_array().unwrap().len(), 1);
}

#[test]
fn an_open_schema_keeps_everything() {
    let client = Client::new();
    let mut open = definition();
    for version in open["spec"]["versions"].as_array_mut().unwrap() {
        version["schema"]["openAPIV3Schema"] =
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    }
    assert_eq!(client.json("POST", DEFINITIONS, &open).0, 201);
    let mut given = widget("a", &json!({"any": {"thing": [1]}}));
    given["alpha"] = "b".into();
    let strict = format!("{WIDGETS}?fieldValidation=Strict");
    let (code, made) = client.json("POST", &strict, &given);
    assert_eq!(
        (code, &made["alpha"], &made["spec"]),
        (201, &given["alpha"], &given["spec"])
    );
    let apply = "application/apply-patch+yaml";
    let path = format!("{WIDGETS}/b?fieldManager=me&fieldValidation=Strict");
    given["metadata"]["name"] = "b".into();
    let (code, applied) = client.send("PATCH", &path, apply, given.to_string().as_bytes());
    assert_eq!(
        (code, &applied["alpha"]),
        (201, &given["alpha"]),
        "{applied}"
    );
}

#[test]
fn all_kinds_are_discovered_at_once() {
    let client = with_definition();
    let accept =
        "application/json;v=v2;g=apidiscovery.k8s.io;as=APIGroupDiscoveryList,application/json";
    let headers = [("authorization", "Bearer secret"), ("accept", accept)];
    let all = client.raw("GET", "/apis", &headers, b"").content.json();
    assert_eq!(all["kind"], "APIGroupDiscoveryList");
    let groups = all["items"].as_array().unwrap();
    let group = groups
        .iter()
        .find(|it| it["metadata"]["name"] == "example.com")
        .unwrap();
    let widgets = &group["versions"][0]["resources"][0];
    assert_eq!(group["versions"][0]["version"], "v1");
    assert_eq!(
        (&widgets["resource"], &widgets["scope"]),
        (&json!("widgets"), &json!("Namespaced"))
    );
    assert_eq!(
        widgets["responseKind"],
        json!({"group": "example.com", "version": "v1", "kind": "Widget"})
    );
    assert_eq!(widgets["subresources"][1]["responseKind"]["kind"], "Scale");
    let core = client.raw("GET", "/api", &headers, b"").content.json();
    assert_eq!(core["items"][0]["metadata"]["name"], "");
    let plain = [
        ("authorization", "Bearer secret"),
        ("accept", "application/json"),
    ];
    assert_eq!(
        client.raw("GET", "/apis", &plain, b"").content.json()["kind"],
        "APIGroupList"
    );
}

#[test]
fn status_scale_and_generation_are_apart() {
    let client = with_definition();
    let one = format!("{WIDGETS}/a");
    let mut new = widget("a", &json!({"size": 2}));
    new["status"] = json!({"phase": "mine"});
    let (_, made) = client.json("POST", WIDGETS, &new);
    assert!(made["status"].is_null(), "{made}");
    new["status"] = json!({"phase": "Ready", "size": 2});
    new["spec"]["size"] = 9.into();
    new["metadata"]["annotations"] = json!({"by": "status"});
    let (_, told) = client.replace(&format!("{one}/status"), &new);
    assert!(told["metadata"]["annotations"].is_null(), "{told}");
    assert_eq!(
        (&told["spec"]["size"], &told["status"]["phase"]),
        (&json!(2), &json!("Ready"))
    );
    assert_eq!(told["metadata"]["generation"], 1);
    let scale = format!("{one}/scale");
    let (_, seen) = client.get(&scale);
    assert_eq!(
        (&seen["spec"]["replicas"], &seen["status"]["replicas"]),
        (&json!(2), &json!(2))
    );
    let merge = "application/merge-patch+json";
    let (code, _) = client.send("PATCH", &scale, merge, br#"{"spec": {"replicas": 4}}"#);
    assert_eq!(code, 200);
    let (_, scaled) = client.get(&one);
    assert_eq!(
        (&scaled["spec"]["size"], &scaled["metadata"]["generation"]),
        (&json!(4), &json!(2))
    );
    let (code, _) = client.send(
        "PATCH",
        &one,
        "application/strategic-merge-patch+json",
        b"{}",
    );
    assert_eq!(code, 415, "a custom resource has no strategic merge patch");
    let headers = [("authorization", "Bearer secret"), ("accept", TABLE)];
    let table = client.raw("GET", WIDGETS, &headers, b"").content.json();
    let names: Vec<_> = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].clone())
        .collect();
    assert_eq!(names, ["Name", "Size", "Part", "Age", "Colour"]);
    let cells = &table["rows"][0]["cells"];
    assert_eq!(
        (&cells[1], &cells[2], &cells[4]),
        (&json!(4), &Value::Null, &json!("red"))
    );
}

#[test]
fn versions_are_one_collection() {
    let client = with_definition();
    client.json("POST", WIDGETS, &widget("a", &json!({"size": 2})));
    let old = WIDGETS.replace("/v1/", "/v1beta1/");
    let auth = [("authorization", "Bearer secret")];
    let reply = client.raw("GET", &format!("{old}/a"), &auth, b"");
    assert_eq!(
        reply.warnings,
        ["299 - \"example.com/v1beta1 Widget is deprecated\""]
    );
    assert_eq!(reply.content.json()["apiVersion"], "example.com/v1beta1");
    let (_, list) = client.get(&old);
    assert_eq!(list["apiVersion"], "example.com/v1beta1");
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().build().unwrap();
    let _entered = runtime.enter();
    let watch = client.raw("GET", &format!("{old}?watch=1"), &auth, b"");
    let Content::Pieces(mut pieces) = watch.content else {
        panic!("a watch is a stream")
    };
    let line = runtime.block_on(pieces.next()).unwrap();
    let event: Value = serde_json::from_slice(&line).unwrap();
    assert_eq!(event["object"]["apiVersion"], "example.com/v1beta1");
    // A default that comes later is seen at once, without a new version.
    let mut changed = definition();
    let fields = "/spec/versions/1/schema/openAPIV3Schema/properties/spec/properties";
    changed.pointer_mut(fields).unwrap()["depth"] = json!({"type": "integer", "default": 7});
    client.replace(&format!("{DEFINITIONS}/widgets.example.com"), &changed);
    let (_, seen) = client.get(&format!("{WIDGETS}/a"));
    assert_eq!(
        (&seen["spec"]["depth"], &seen["metadata"]["resourceVersion"]),
        (&json!(7), &event["object"]["metadata"]["resourceVersion"])
    );
}

#[test]
fn a_definition_goes_after_its_objects() {
    let client = with_definition();
    let mut kept = widget("kept", &json!({"size": 1}));
    kept["metadata"]["finalizers"] = json!(["example.com/mine"]);
    client.json("POST", WIDGETS, &kept);
    client.json("POST", WIDGETS, &widget("b", &json!({"size": 1})));
    let one = format!("{DEFINITIONS}/widgets.example.com");
    let (code, going) = client.send("DELETE", &one, "", b"");
    assert_eq!(code, 200);
    assert_eq!(
        going["metadata"]["finalizers"],
        json!(["customresourcecleanup.apiextensions.k8s.io"])
    );
    let (_, left) = client.get(WIDGETS);
    assert_eq!(left["items"].as_array().unwrap().len(), 1);
    let (code, refused) = client.json("POST", WIDGETS, &widget("c", &json!({"size": 1})));
    assert_eq!(
        (code, &refused["message"]),
        (
            405,
            &json!("create not allowed while custom resource definition is terminating")
        )
    );
    let merge = "application/merge-patch+json";
    let path = format!("{WIDGETS}/kept");
    let (code, _) = client.send(
        "PATCH",
        &path,
        merge,
        br#"{"metadata": {"finalizers": null}}"#,
    );
    assert_eq!(code, 200);
    assert_eq!((client.get(&one).0, client.get(WIDGETS).0), (404, 404));
    assert_eq!(
        client.json("POST", DEFINITIONS, &definition()).0,
        201,
        "it can come again"
    );
}

#[test]
fn wrong_definitions_are_refused() {
    let client = Client::new();
    let version = "/spec/versions/1";
    let schema = "/spec/versions/1/schema/openAPIV3Schema";
    let rows: &[(&str, Value, &str)] = &[
        (
            "/metadata/name",
            json!("other"),
            "metadata.name: Invalid value: \"other\": must be spec.names.plural+\".\"+spec.group",
        ),
        (
            "/spec/scope",
            json!("Both"),
            "spec.scope: Unsupported value: \"Both\": supported values: \"Cluster\", \"Namespaced\"",
        ),
        (
            "/spec/names/kind",
            json!("1x"),
            "spec.names.kind: Invalid value: \"1x\": may have mixed case, but should otherwise match: a DNS-1035 label",
        ),
        (
            "/spec/names/listKind",
            json!("Widget"),
            "spec.names.listKind: Invalid value: \"Widget\": kind and listKind may not be the same",
        ),
        (
            &format!("{version}/storage"),
            json!(false),
            "must have exactly one version marked as storage version",
        ),
        (
            &format!("{version}/name"),
            json!("v1beta1"),
            "must contain unique version names",
        ),
        (
            &format!("{version}/deprecationWarning"),
            json!("old"),
            "deprecationWarning: Invalid value: \"old\": can only be set for deprecated versions",
        ),
        (
            &format!("{version}/selectableFields"),
            json!([{"jsonPath": "spec"}]),
            "jsonPath: Invalid value: \"spec\": is an invalid path: expected [ or . but got: spec",
        ),
        (
            "/spec/conversion",
            json!({"strategy": "Webhook"}),
            "spec.conversion.strategy: Unsupported value: \"Webhook\": supported values: \"None\"",
        ),
        (
            &format!("{schema}/type"),
            json!("string"),
            "spec.versions[1].schema.openAPIV3Schema.type: Invalid value: \"string\": must be object at the root",
        ),
        (
            &format!("{schema}/properties/spec"),
            json!({}),
            "spec.versions[1].schema.openAPIV3Schema.properties[spec].type: Required value: must not be empty for specified object fields",
        ),
        (
            &format!("{schema}/properties/spec"),
            json!({"type": "array"}),
            "properties[spec].items: Required value: must be specified",
        ),
        (
            &format!("{schema}/properties/spec"),
            json!({"type": "object", "$ref": "#/x"}),
            "properties[spec].$ref: Forbidden: $ref is not supported",
        ),
        (
            &format!("{schema}/properties/spec"),
            json!({"type": "object", "anyOf": [{"type": "object"}]}),
            "properties[spec].anyOf[0].type: Forbidden: must be empty to be structural",
        ),
        (
            &format!("{schema}/properties/spec"),
            json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "set"}),
            "properties[spec].items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with \
             x-kubernetes-list-type=set",
        ),
        (
            &format!("{schema}/properties/spec"),
            json!({"type": "object", "x-kubernetes-embedded-resource": true}),
            "properties[spec].properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without \
             x-kubernetes-preserve-unknown-fields",
        ),
        (
            &format!("{schema}/properties/spec"),
            json!({"type": "object", "x-kubernetes-map-type": "odd"}),
            "properties[spec].x-kubernetes-map-type: Unsupported value: \"odd\": supported values: \"atomic\", \"granular\"",
        ),
        (
            &format!("{schema}/properties/metadata"),
            json!({"type": "object", "properties": {"labels": {"type": "object"}}}),
            "must not specify anything other than name and generateName, but metadata is implicitly specified",
        ),
        (
            &format!("{version}/additionalPrinterColumns/0/type"),
            json!("text"),
            "spec.versions[1].additionalPrinterColumns[0].type: Invalid value: \"text\": must be one of boolean,date,integer,number,string",
        ),
        (
            &format!("{version}/subresources/scale/specReplicasPath"),
            json!(".size"),
            "should be a json path under .spec",
        ),
        (
            "/spec/group",
            json!("k8s.io"),
            "protected groups must have approval annotation \"api-approved.kubernetes.io\"",
        ),
    ];
    for (field, value, expect) in rows {
        let mut wrong = definition();
        *wrong.pointer_mut(field).unwrap_or(&mut Value::Null) = value.clone();
        if wrong.pointer(field).is_none() {
            let (parent, name) = field.rsplit_once('/').unwrap();
            wrong.pointer_mut(parent).unwrap()[name] = value.clone();
        }
        let (code, refused) = client.json("POST", DEFINITIONS, &wrong);
        let message = refused["message"].as_str().unwrap_or_default();
        assert!(
            code == 422 && message.contains(expect),
            "{field}: {refused}"
        );
    }
    client.json("POST", DEFINITIONS, &definition());
    let mut moved = definition();
    moved["spec"]["scope"] = "Cluster".into();
    let (code, refused) = client.replace(&format!("{DEFINITIONS}/widgets.example.com"), &moved);
    let message = refused["message"].as_str().unwrap_or_default();
    assert!(
        code == 422
            && message.contains("spec.scope: Invalid value: \"Cluster\": field is immutable"),
        "{refused}"
    );
    // Another plural for the same kind is stored, and not served.
    let mut second = definition();
    second["metadata"]["name"] = "gadgets.example.com".into();
    second["spec"]["names"] = json!({"plural": "gadgets", "kind": "Widget"});
    let (code, made) = client.json("POST", DEFINITIONS, &second);
    assert_eq!(
        (code, &made["status"]["conditions"][0]["reason"]),
        (201, &json!("ListKindConflict"))
    );
    assert_eq!(client.get("/apis/example.com/v1/gadgets").0, 404);
}

#[test]
fn controllers_do_not_take_a_custom_kind_for_their_own() {
    let client = Client::new();
    let mut knative = definition();
    knative["metadata"]["name"] = "services.example.com".into();
    knative["spec"]["names"] = json!({"plural": "services", "kind": "Service"});
    assert_eq!(client.json("POST", DEFINITIONS, &knative).0, 201);
    let before = client.0.store.revision();
    let mut service = widget(&"Not.A.Label".to_lowercase(), &json!({"size": 1}));
    service["kind"] = "Service".into();
    let path = WIDGETS.replace("widgets", "services");
    assert_eq!(client.json("POST", &path, &service).0, 201);
    assert!(client.0.store.list("Service").is_empty());
    assert!(client.0.store.changes_since(before).unwrap().is_empty());
}

#[test]
fn definitions_and_objects_outlive_the_server() {
    let client = with_definition();
    client.json("POST", WIDGETS, &widget("a", &json!({"size": 2})));
    let (_, definition) = client.get(&format!("{DEFINITIONS}/widgets.example.com"));
    let (_, object) = client.get(&format!("{WIDGETS}/a"));
    let again = Client::new();
    // The object comes first, as it may in a journal.
    again
        .0
        .store
        .restore(vec![object.clone(), definition], 100)
        .unwrap();
    assert_eq!(again.get(&format!("{WIDGETS}/a")).1, object);
}

/// A definition with this schema for `spec`.
fn with_schema(spec: &Value) -> Client {
    let client = Client::new();
    let mut definition = definition();
    for version in definition["spec"]["versions"].as_array_mut().unwrap() {
        version["schema"]["openAPIV3Schema"]["properties"]["spec"] = spec.clone();
    }
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let (code, answer) = client.json("POST", path, &definition);
    assert_eq!(code, 201, "{answer}");
    client
}

/// Each schema makes a validation take time or memory in proportion to the schema times the object.
#[test]
fn a_hostile_schema_costs_its_own_objects_only() {
    let numbers: Vec<_> = (0..20_000).collect();
    let many = |it: Value| vec![it; 1_000];
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let with = |field: &str, value: Value| {
        let mut schema = open.clone();
        schema[field] = value;
        schema
    };
    for (schema, spec) in [
        (
            json!({"type": "array", "items": {"type": "integer", "anyOf": many(json!({"minimum": 100_000}))}}),
            json!(numbers),
        ),
        (
            with(
                "allOf",
                many(json!({"anyOf": [{"required": ["x"]}]})).into(),
            ),
            json!({"large": "x".repeat(500_000)}),
        ),
        (
            json!({"type": "string", "pattern": "^([a-z]{1,50}[0-9]{1,50}){1,50}$"}),
            json!("a1".repeat(300_000)),
        ),
    ] {
        let client = with_schema(&schema);
        let widget = widget("w", &spec);
        let path = "/apis/example.com/v1/namespaces/default/widgets";
        let (code, answer) = client.json("POST", path, &widget);
        let message = answer["message"].as_str().unwrap();
        assert_eq!(code, 422, "{}", &message[..200]);
        assert!(
            message.contains("running out of cost budget") && message.len() < 16 << 20,
            "{}",
            message.len()
        );
        assert_eq!(client.get(&format!("{path}/w")).0, 404);
    }
}

#[test]
fn definitions_have_a_limit_together() {
    let client = Client::new();
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let text = "x".repeat(1_400_000);
    let large = |at: usize| {
        json!({
            "metadata": {"name": format!("t{at}s.example.com")},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"kind": format!("T{at}"), "plural": format!("t{at}s")},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
                    "openAPIV3Schema": {"type": "object", "description": text},
                }}],
            },
        })
    };
    let refused = (0..60).find_map(|at| {
        let (code, answer) = client.json("POST", path, &large(at));
        (code != 201).then_some((at, code, answer["message"].clone()))
    });
    let (at, code, message) = refused.unwrap();
    assert_eq!(
        (code, message),
        (500, "etcdserver: mvcc: database space exceeded".into())
    );
    assert!(at > 40, "{at}");
    // All else can be written, and one that goes makes room.
    assert_eq!(
        client
            .json("DELETE", &format!("{path}/t0s.example.com"), &json!({}))
            .0,
        200
    );
    assert_eq!(client.json("POST", path, &large(at)).0, 201);
    let (_, index) = client.get("/openapi/v3");
    assert!(index["paths"]["apis/example.com/v1"].is_object());
    let (_, document) = client.get("/openapi/v2");
    assert!(document["definitions"]["com.example.v1.T1"].is_object());
    assert!(
        document["definitions"]["io.k8s.api.core.v1.Pod"]["properties"]["spec"]["allOf"].is_array()
    );
}

/// Each version of a definition shows the fields and defaults of its own schema (`schemaCoercingDecoder`).
#[test]
fn versions_have_fields_of_their_own() {
    let client = Client::new();
    let version = |name: &str, fields: Value| {
        let spec = json!({"type": "object", "properties": fields});
        json!({
            "name": name, "served": true, "storage": name == "v1",
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
        })
    };
    let (text, number) = (json!({"type": "string"}), json!({"type": "integer"}));
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [
                version("v1", json!({"size": number, "color": text})),
                version("v1beta1", json!({"size": number, "shade": {"type": "string", "default": "dark"}})),
            ],
        },
    });
    assert_eq!(client.json("POST", DEFINITIONS, &definition).0, 201);
    let new = widget("a", &json!({"size": 1, "color": "red"}));
    assert_eq!(client.json("POST", WIDGETS, &new).0, 201);
    let old = WIDGETS.replace("v1/", "v1beta1/");
    let expected = json!({"size": 1, "shade": "dark"});
    let is_old = |it: &Value| {
        assert_eq!(
            (&it["spec"], &it["apiVersion"]),
            (&expected, &json!("example.com/v1beta1"))
        )
    };
    is_old(&client.get(&format!("{old}/a")).1);
    let (_, list) = client.get(&old);
    assert_eq!(list["items"][0]["spec"], expected);
    let headers = [("authorization", "Bearer secret")];
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().build().unwrap();
    runtime.block_on(async {
        let Content::Pieces(mut pieces) = client
            .raw("GET", &format!("{old}?watch=1"), &headers, b"")
            .content
        else {
            panic!("a watch is a stream");
        };
        let line: Value = serde_json::from_slice(&pieces.next().await.unwrap()).unwrap();
        is_old(&line["object"]);
    });
    // The stored version has all of its own, and none of the other's.
    assert_eq!(
        client.get(&format!("{WIDGETS}/a")).1["spec"],
        json!({"size": 1, "color": "red"})
    );
    let other = json!({"apiVersion": "example.com/v1beta1", "kind": "Widget", "metadata": {"name": "b"}, "spec": {"size": 2, "shade": "light"}});
    let (code, made) = client.json("POST", &old, &other);
    assert_eq!(
        (code, &made["spec"]["shade"]),
        (201, &json!("dark")),
        "it is stored in v1, which has none"
    );
    assert_eq!(
        client.get(&format!("{WIDGETS}/b")).1["spec"],
        json!({"size": 2})
    );
}

#[test]
fn an_object_says_its_kind() {
    let client = with_definition();
    let mut object = widget("a", &json!({"size": 1}));
    object.as_object_mut().unwrap().remove("kind");
    let (code, refused) = client.json("POST", WIDGETS, &object);
    let why = format!(
        "Widget in version \"v1\" cannot be handled as a Widget: Object 'Kind' is missing in '{object}'"
    );
    assert_eq!((code, &refused["message"]), (400, &json!(why)));
}

/// `null` is a value only of fields that are `nullable`: others get their default, or go.
#[test]
fn null_is_no_value_unless_the_schema_says_so() {
    let client = with_schema(&json!({"type": "object", "properties": {
        "plain": {"type": "array", "items": {"type": "string"}},
        "free": {"type": "string", "nullable": true},
        "color": {"type": "string", "default": "red"},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "sizes": {"type": "object", "additionalProperties": {"type": "integer", "default": 3}},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }}));
    let given = json!({
        "plain": null, "free": null, "color": null, "counts": {"a": null, "b": 1}, "sizes": {"a": null}, "open": {"a": null},
    });
    let (code, made) = client.json("POST", WIDGETS, &widget("a", &given));
    let kept = json!({
        "free": null, "color": "red", "counts": {"b": 1}, "sizes": {"a": 3}, "open": {"a": null},
    });
    assert_eq!((code, &made["spec"]), (201, &kept));
}

#[test]
fn an_integer_of_32_bits_has_its_range() {
    let size = json!({"type": "integer", "format": "int32"});
    let client = with_schema(&json!({"type": "object", "properties": {"size": size}}));
    let most = json!({"size": i32::MAX});
    assert_eq!(client.json("POST", WIDGETS, &widget("a", &most)).0, 201);
    let more = json!({"size": i64::from(i32::MAX) + 1});
    let (code, refused) = client.json("POST", WIDGETS, &widget("b", &more));
    let why = "Checked value must be of type integer with format int32 in spec.size";
    assert_eq!(code, 422);
    assert!(
        refused["message"].as_str().unwrap().ends_with(why),
        "{refused}"
    );
}

/// Items of lists say what they are, and the list has the name that the definition gives it.
#[test]
fn a_list_has_the_kind_of_its_definition() {
    let client = Client::new();
    let mut definition = definition();
    definition["spec"]["names"]["listKind"] = "Widgets".into();
    client.json("POST", DEFINITIONS, &definition);
    client.json("POST", WIDGETS, &widget("a", &json!({"size": 1})));
    for version in ["v1", "v1beta1"] {
        let path = WIDGETS.replace("/v1/", &format!("/{version}/"));
        let of = format!("example.com/{version}");
        let (_, list) = client.get(&path);
        let item = &list["items"][0];
        assert_eq!(
            (&list["kind"], &item["kind"]),
            (&json!("Widgets"), &json!("Widget"))
        );
        assert_eq!(
            (&list["apiVersion"], &item["apiVersion"]),
            (&json!(of), &json!(of))
        );
    }
}

#[test]
fn a_patch_of_a_custom_resource_keeps_its_kind() {
    let client = with_definition();
    client.json("POST", WIDGETS, &widget("a", &json!({"size": 1})));
    for (field, value, own) in [
        ("kind", "Other", "Widget"),
        ("apiVersion", "example.com/v1beta1", "example.com/v1"),
    ] {
        let patch = json!({field: value}).to_string();
        let path = format!("{WIDGETS}/a");
        let (code, refused) = client.send(
            "PATCH",
            &path,
            "application/merge-patch+json",
            patch.as_bytes(),
        );
        let cause = &refused["details"]["causes"][0];
        let why = format!("Invalid value: {value:?}: must be {own}");
        assert_eq!(
            (code, &cause["field"], &cause["message"]),
            (422, &json!(field), &json!(why))
        );
    }
}
