//! What `fieldValidation` says of fields that a body gives twice or that a kind does not have.

use crate::http::Client;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const TWICE: &str =
    "metadata: {name: a}\ndata:\n  k: a\n  k: b\n  l: c\n  l: d\nkind: ConfigMap\napiVersion: v1\n";
const APPLY: &str = "application/apply-patch+yaml";

fn write(method: &str, path: &str, sort: &str, body: &str) -> (u16, String, Vec<String>) {
    let client = Client::new();
    let headers = [("authorization", "Bearer secret"), ("content-type", sort)];
    let reply = client.raw(method, path, &headers, body.as_bytes());
    let (code, warnings) = (reply.code, reply.warnings);
    let body: serde_json::Value = match reply.content {
        sluice_api::answer::Content::Whole(bytes) => {
            serde_json::from_slice(&bytes.unwrap()).unwrap()
        }
        sluice_api::answer::Content::Pieces(_) => panic!("a write has one answer"),
    };
    let message = body["message"].as_str().unwrap_or_default().to_owned();
    (code, message, warnings)
}

#[test]
fn keys_that_yaml_gives_twice_are_told_with_their_lines() {
    let lines = "yaml: unmarshal errors:\n  line 4: key \"k\" already set in map\n  \
                 line 6: key \"l\" already set in map";
    let warned = [
        r#"299 - "line 4: key \"k\" already set in map""#,
        r#"299 - "line 6: key \"l\" already set in map""#,
    ];
    let odd = format!("{TWICE}odd: 1\n");
    for (method, path, sort, body, wrong) in [
        (
            "POST",
            MAPS.to_owned(),
            "application/yaml",
            &odd,
            format!(
                "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: {lines}, \
                 unknown field \"odd\""
            ),
        ),
        (
            "PATCH",
            format!("{MAPS}/a?fieldManager=m"),
            APPLY,
            &TWICE.to_owned(),
            format!("error strict decoding YAML: error converting YAML to JSON: {lines}"),
        ),
    ] {
        let and = if path.contains('?') { '&' } else { '?' };
        let strict = format!("{path}{and}fieldValidation=Strict");
        let (code, message, _) = write(method, &strict, sort, body);
        assert_eq!((code, message), (400, wrong));
        let (code, _, warnings) = write(method, &path, sort, body);
        assert_eq!(code, 201);
        assert!(
            warned.iter().all(|it| warnings.iter().any(|w| w == it)),
            "{warnings:?}"
        );
        let ignoring = format!("{path}{and}fieldValidation=Ignore");
        let (code, _, warnings) = write(method, &ignoring, sort, body);
        assert_eq!((code, warnings), (201, Vec::new()));
    }
}

#[test]
fn json_that_is_applied_is_yaml_too() {
    let path = format!("{MAPS}/a?fieldManager=m&fieldValidation=Strict");
    let body = r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "a", "k": "b"}}"#;
    let (code, message, _) = write("PATCH", &path, APPLY, body);
    assert_eq!(code, 400);
    assert!(
        message.ends_with("line 1: key \"k\" already set in map"),
        "{message}"
    );
}

/// Whatever `fieldValidation` says: nobody could own them.
#[test]
fn unknown_fields_cannot_be_applied() {
    let path =
        "/apis/apps/v1/namespaces/default/deployments/d?fieldManager=m&fieldValidation=Ignore";
    let body = r#"{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"odd": 1, "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i", "imagee": 1}]}}}}"#;
    let (code, message, _) = write("PATCH", path, APPLY, body);
    assert_eq!(code, 500);
    assert_eq!(
        message,
        "failed to create typed patch object (default/d; apps/v1, Kind=Deployment): errors:\n  \
         .spec.odd: field not declared in schema\n  \
         .spec.template.spec.containers[name=\"c\"].imagee: field not declared in schema"
    );
}
