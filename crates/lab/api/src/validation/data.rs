//! ConfigMaps and Secrets, beside the rules of their schema (`ValidateConfigMap`, `ValidateSecret`,
//! `registry/core/secret/strategy.go`).

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use super::refuse;
use crate::body::{json_type, syntax};
use crate::resource::{Registry, Resource};
use crate::status::{Cause, Status};

/// Most bytes of all values.
const MOST: usize = 1024 * 1024;

/// What the types of Secrets require: one of the keys of each line.
const KEYS: [(&str, &[&str]); 6] = [
    ("kubernetes.io/dockercfg", &[".dockercfg"]),
    ("kubernetes.io/dockerconfigjson", &[".dockerconfigjson"]),
    ("kubernetes.io/basic-auth", &["username", "password"]),
    (SSH, &["ssh-privatekey"]),
    ("kubernetes.io/tls", &["tls.crt"]),
    ("kubernetes.io/tls", &["tls.key"]),
];

const SSH: &str = "kubernetes.io/ssh-auth";

/// The types whose value is an object in JSON.
const DOCKER: [(&str, &str); 2] = [
    ("kubernetes.io/dockercfg", ".dockercfg"),
    ("kubernetes.io/dockerconfigjson", ".dockerconfigjson"),
];

const ACCOUNT: &str = "kubernetes.io/service-account.name";

pub(crate) fn config_map(
    resource: &Resource,
    _: &Registry,
    _: Option<&Value>,
    new: &mut Value,
) -> Result<(), Status> {
    let mut causes = Vec::new();
    for (key, _) in entries(&new["data"]) {
        if !new["binaryData"][key].is_null() {
            let message = format!("Invalid value: {key:?}: duplicate of key present in binaryData");
            causes.push(Cause::new(format!("data[{key}]"), message));
        }
    }
    let texts = entries(&new["data"]).map(|(_, it)| it.as_str().map_or(0, str::len));
    let bytes = entries(&new["binaryData"]).map(|(_, it)| size(it));
    if texts.chain(bytes).sum::<usize>() > MOST {
        // The whole object, as the API writes it.
        causes.push(Cause::new("[]", too_long()));
    }
    refuse(resource, name(new), &causes)
}

/// Moves the `stringData` of a Secret into `data`.
pub(crate) fn merge_texts(new: &mut Value) {
    let texts = new.as_object_mut().and_then(|it| it.remove("stringData"));
    for (key, value) in texts.iter().flat_map(entries) {
        new["data"][key] = BASE64_STANDARD
            .encode(value.as_str().unwrap_or_default())
            .into();
    }
}

pub(crate) fn secret(
    resource: &Resource,
    _: &Registry,
    _: Option<&Value>,
    new: &mut Value,
) -> Result<(), Status> {
    let data = &new["data"];
    let mut causes = Vec::new();
    if entries(data).map(|(_, it)| size(it)).sum::<usize>() > MOST {
        causes.push(Cause::new("data", too_long()));
    }
    let kind = new["type"].as_str().unwrap_or_default();
    for (_, key) in DOCKER.iter().filter(|(it, _)| *it == kind) {
        let text = data[key]
            .as_str()
            .and_then(|it| BASE64_STANDARD.decode(it).ok());
        if let Some(why) = text.and_then(|it| no_object(&it)) {
            let message = format!("Invalid value: \"<secret contents redacted>\": {why}");
            causes.push(Cause::new(format!("data[{key}]"), message));
        }
    }
    if kind == SSH && data["ssh-privatekey"].as_str() == Some("") {
        causes.push(Cause::new("data[ssh-privatekey]", "Required value"));
    }
    for (_, keys) in KEYS.iter().filter(|(it, _)| *it == kind) {
        if !keys.iter().any(|it| data.get(it).is_some()) {
            let missing = keys
                .iter()
                .map(|it| Cause::new(format!("data[{it}]"), "Required value"));
            causes.extend(missing);
        }
    }
    let account = &new["metadata"]["annotations"][ACCOUNT];
    if kind == "kubernetes.io/service-account-token" && account.as_str().is_none_or(str::is_empty) {
        let field = format!("metadata.annotations[{ACCOUNT}]");
        causes.push(Cause::new(field, "Required value"));
    }
    refuse(resource, name(new), &causes)
}

/// Why bytes are no object in JSON, in the words of Go's decoder; `None`: they are.
fn no_object(bytes: &[u8]) -> Option<String> {
    let found = match serde_json::from_slice::<Value>(bytes) {
        Ok(Value::Object(_) | Value::Null) => return None,
        Ok(other) => json_type(&other),
        Err(error) => return Some(syntax::problem(bytes).unwrap_or_else(|| error.to_string())),
    };
    Some(format!(
        "json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
    ))
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn too_long() -> String {
    format!("Too long: may not be more than {MOST} bytes")
}

fn entries(map: &Value) -> impl Iterator<Item = (&String, &Value)> {
    map.as_object().into_iter().flatten()
}

/// The bytes that a value in base64 stands for.
fn size(value: &Value) -> usize {
    let text = value.as_str().unwrap_or_default();
    text.len() / 4 * 3 - text.bytes().rev().take_while(|it| *it == b'=').count()
}
