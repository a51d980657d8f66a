//! What a CustomResourceDefinition demands of values: formats, defaults, embedded objects, and what may stay as it was.

use serde_json::{Value, json};

use crate::http::Client;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const NOTES: &str = "/apis/example.com/v1/namespaces/default/notes";

/// A definition of Notes whose `spec` has these fields.
fn definition(fields: &Value) -> Value {
    let spec = json!({"type": "object", "properties": fields});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "notes.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "notes", "kind": "Note"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
            }],
        },
    })
}

fn note(spec: &Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Note", "metadata": {"name": "a"}, "spec": spec})
}

fn with(fields: &Value) -> Client {
    let client = Client::new();
    let (code, made) = client.json("POST", DEFINITIONS, &definition(fields));
    assert_eq!(code, 201, "{made}");
    client
}

/// The message of a refusal, after `is invalid: `.
fn why(answer: &Value) -> &str {
    let message = answer["message"].as_str().unwrap_or_default();
    message
        .split_once("is invalid: ")
        .map_or(message, |(_, it)| it)
}

#[test]
fn formats_of_texts() {
    for (format, right, wrong) in [
        ("date-time", "2026-01-02T03:04:05.6Z", "2026-01-02 03:04:05"),
        (
            "date-time",
            "2026-01-02T03:04:05+01:00",
            "2026-13-02T03:04:05Z",
        ),
        ("date", "2026-02-28", "2026-02-30"),
        ("byte", "eA==", "eA"),
        ("ipv4", "10.0.0.1", "fd00::1"),
        ("ipv6", "fd00::1", "10.0.0.1"),
        ("cidr", "10.0.0.0/8", "10.0.0.0/40"),
        (
            "uuid",
            "0b7e3fd5-5d1f-4c1c-8d5c-6b1b9a0f9a11",
            "0b7e3fd5-5d1f",
        ),
        (
            "uuid4",
            "0b7e3fd5-5d1f-4c1c-8d5c-6b1b9a0f9a11",
            "0b7e3fd5-5d1f-3c1c-8d5c-6b1b9a0f9a11",
        ),
        ("email", "Ann <ann@example.com>", "ann"),
        ("hostname", "a-b.example", "a_b.example"),
        ("uri", "https://example.com/a?b=c", "example.com"),
        ("mac", "02:00:00:00:00:01", "02:00:00"),
        ("duration", "1h30m", "an hour"),
        ("duration", "22 seconds", "1h30"),
        ("hexcolor", "#ff00aa", "#ff00a"),
        ("k8s-short-name", "a-b", "a.b"),
    ] {
        let client = with(&json!({"it": {"type": "string", "format": format}}));
        let (code, refused) = client.json("POST", NOTES, &note(&json!({"it": wrong})));
        let expect = format!(
            "spec.it: Invalid value: {wrong:?}: spec.it in body must be of type {format}: {wrong:?}"
        );
        assert_eq!((code, why(&refused)), (422, &*expect));
        assert_eq!(
            refused["details"]["causes"][0]["reason"],
            "FieldValueTypeInvalid"
        );
        let (code, made) = client.json("POST", NOTES, &note(&json!({"it": right})));
        assert_eq!(code, 201, "{format}: {made}");
    }
    let client = with(&json!({"it": {"type": "string", "format": "license-plate"}}));
    assert_eq!(
        client
            .json("POST", NOTES, &note(&json!({"it": "anything"})))
            .0,
        201
    );
}

#[test]
fn a_whole_number_has_one_form() {
    let client = with(&json!({"count": {"type": "integer"}, "share": {"type": "number"}}));
    let body = note(&json!({"count": 0, "share": 0})).to_string();
    let body = body
        .replace("\"count\":0", "\"count\":1e2")
        .replace("\"share\":0", "\"share\":5.0");
    let (code, made) = client.send("POST", NOTES, "application/json", body.as_bytes());
    assert_eq!(
        (code, made["spec"].to_string()),
        (201, r#"{"count":100,"share":5}"#.to_owned())
    );
    let mut new = note(&json!({"count": 1.5}));
    new["metadata"]["name"] = "b".into();
    let (code, refused) = client.json("POST", NOTES, &new);
    let expect = "spec.count: Invalid value: \"number\": spec.count in body must be of type integer: \"number\"";
    assert_eq!((code, why(&refused)), (422, expect));
}

#[test]
fn a_default_is_a_right_value() {
    let place = "spec.validation.openAPIV3Schema.properties[spec].properties[it]";
    for (schema, expect) in [
        (
            json!({"type": "string", "default": 5}),
            format!(
                "{place}.default: Invalid value: \"integer\":  in body must be of type string: \"integer\""
            ),
        ),
        (
            json!({"type": "integer", "minimum": 3, "default": 1}),
            format!(
                "{place}.default: Invalid value: 1:  in body should be greater than or equal to 3"
            ),
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "default": {"a": 1}}),
            format!(
                "{place}.default.a: Invalid value: \"integer\": a in body must be of type string: \"integer\""
            ),
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "default": {"b": "c"}}),
            format!(
                "{place}.default: Invalid value: {{\"b\":\"c\"}}: must not have unknown fields"
            ),
        ),
        (
            json!({"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer", "default": "x"}}}}),
            format!(
                "{place}.items.properties[n].default: Invalid value: \"string\":  in body must be of type integer: \"string\""
            ),
        ),
    ] {
        let client = Client::new();
        let (code, refused) = client.json("POST", DEFINITIONS, &definition(&json!({"it": schema})));
        assert_eq!((code, why(&refused)), (422, &*expect));
    }
    let fields = json!({"it": {"type": "object", "default": {}, "properties": {"a": {"type": "string", "default": "b"}}}});
    let (code, made) = with(&fields).json("POST", NOTES, &note(&json!({})));
    assert_eq!((code, &made["spec"]), (201, &json!({"it": {"a": "b"}})));
}

#[test]
fn an_embedded_object_says_what_it_is() {
    let embedded = json!({
        "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
    });
    let client = with(&json!({"it": embedded}));
    for (it, expect) in [
        (
            json!({}),
            "[spec.it.apiVersion: Required value, spec.it.kind: Required value]",
        ),
        (
            json!({"apiVersion": "a/b/c", "kind": ""}),
            "[spec.it.apiVersion: Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c, spec.it.kind: Invalid value: \
             \"\": must not be empty]",
        ),
        (
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a": "b c"}}}),
            "spec.it.metadata.labels: Invalid value: \"b c\": a valid label must be an empty string or consist of alphanumeric \
             characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or \
             'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
        ),
    ] {
        let (code, refused) = client.json("POST", NOTES, &note(&json!({"it": it})));
        assert_eq!((code, why(&refused)), (422, expect));
    }
    let it = json!({"apiVersion": "v1", "kind": "Pod", "spec": {"any": 1}});
    assert_eq!(client.json("POST", NOTES, &note(&json!({"it": it}))).0, 201);
}

#[test]
fn what_was_accepted_before_may_stay() {
    let parts = json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"],
        "items": {"type": "object", "properties": {"id": {"type": "string"}, "size": {"type": "integer"}}, "required": ["id"]},
    });
    let client =
        with(&json!({"size": {"type": "integer"}, "color": {"type": "string"}, "parts": parts}));
    let old = json!({"size": 5, "color": "red", "parts": [{"id": "a", "size": 5}, {"id": "b", "size": 1}]});
    let (_, mut made) = client.json("POST", NOTES, &note(&old));
    let mut strict = definition(&json!({
        "size": {"type": "integer", "maximum": 3}, "color": {"type": "string"}, "parts": parts,
    }));
    let version = &mut strict["spec"]["versions"][0];
    let spec = &mut version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
    spec["parts"]["items"]["properties"]["size"]["maximum"] = 3.into();
    let (code, changed) = client.replace(&format!("{DEFINITIONS}/notes.example.com"), &strict);
    assert_eq!(code, 200, "{changed}");
    let put = |object: &Value| {
        let (code, answer) = client.replace(&format!("{NOTES}/a"), object);
        (
            code,
            if code == 200 {
                String::new()
            } else {
                why(&answer).to_owned()
            },
        )
    };
    made["spec"]["color"] = "blue".into();
    made["spec"]["parts"] = json!([{"id": "b", "size": 2}, {"id": "a", "size": 5}]);
    assert_eq!(
        put(&made),
        (200, String::new()),
        "both wrong values are as they were"
    );
    made["spec"]["size"] = 6.into();
    let most = "Invalid value: 6: spec.size in body should be less than or equal to 3";
    assert_eq!(put(&made), (422, format!("spec.size: {most}")));
    made["spec"]["size"] = 5.into();
    made["spec"]["parts"][0]["size"] = 9.into();
    let most = "Invalid value: 9: spec.parts[0].size in body should be less than or equal to 3";
    assert_eq!(put(&made), (422, format!("spec.parts[0].size: {most}")));
    let mut other = note(&json!({"size": 5}));
    other["metadata"]["name"] = "b".into();
    assert_eq!(
        client.json("POST", NOTES, &other).0,
        422,
        "a new object has no old values"
    );
}
