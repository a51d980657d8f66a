//! OpenAPI, as far as kubectl needs it: that the server validates fields itself.
//!
//! The document of version 2 is the types as JSON. As protobuf, which kubectl before 1.25 asks for, it is empty: kubectl
//! then leaves validation to the server, and patches by the types it was built with. The documents of version 3 name the kinds and the
//! parameters `fieldValidation` and `dryRun`, which kubectl looks for before it uses them, and the
//! types of the objects, for `kubectl explain` and `diff`.

mod v2;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::answer::{Answer, Content, json_text, json_value, with_type};
use crate::resource::{Registry, Resource};
use crate::schema::components;

/// The form of version 2 that kubectl asks for, spelled as kube-apiserver answers: Go's reader
/// of media types takes no `@`.
const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// The answer to an OpenAPI path; `None` for other paths. `accept` is what the client accepts.
pub(crate) fn answer(registry: &Registry, path: &str, accept: Option<&str>) -> Option<Answer> {
    let path = path.strip_prefix("/openapi/")?;
    match path {
        "v2" if !accept.is_some_and(|it| it.contains("proto-openapi.spec.v2")) => {
            Some(json_text(Content::whole(v2::document(registry))))
        }
        // An empty protobuf message has no bytes.
        "v2" => Some(with_type(PROTOBUF, Content::whole(Bytes::new()))),
        "v3" => Some(json_value(&index(registry))),
        _ => {
            let path = path.strip_prefix("v3/")?;
            let (group, version) = match path.strip_prefix("api/") {
                Some(version) => ("", version),
                None => path.strip_prefix("apis/")?.split_once('/')?,
            };
            let kinds = registry.of_version(group, version);
            (!kinds.is_empty()).then(|| json_value(&document(&kinds)))
        }
    }
}

fn index(registry: &Registry) -> Value {
    let mut paths = Map::new();
    let groups = registry.groups();
    for (_, kinds) in groups.values().flatten() {
        let Some(it) = kinds.first() else { continue };
        let root = if it.group.is_empty() { "api" } else { "apis" };
        let path = format!("{root}/{}", it.api_version());
        // kubectl keeps the document of a hash.
        let mut hash = DefaultHasher::new();
        kinds.iter().for_each(|it| {
            let published = it.published.as_ref();
            (&it.plural, published.map(|it| it.hash)).hash(&mut hash);
        });
        let hash = format!("{}-{:x}", env!("CARGO_PKG_VERSION"), hash.finish());
        let url = format!("/openapi/v3/{path}?hash={hash}");
        paths.insert(path, json!({"serverRelativeURL": url}));
    }
    json!({ "paths": paths })
}

fn document(kinds: &[&Arc<Resource>]) -> Value {
    let mut paths = Map::new();
    let mut schemas = components(kinds.iter().map(|it| &it.schema));
    for it in kinds {
        let path = path(it);
        for (suffix, verb, method) in [
            ("", "list", "get"),
            ("", "create", "post"),
            ("/{name}", "patch", "patch"),
        ] {
            if it.verbs().contains(&verb) {
                let methods = paths.entry(format!("{path}{suffix}"));
                let methods = methods.or_insert_with(|| json!({}));
                methods[method] = operation(it, verb);
            }
        }
        if let Some(schema) = &it.published {
            let group: Vec<_> = it.group.rsplit('.').collect();
            let name = format!("{}.{}.{}", group.join("."), it.version, it.kind);
            schemas.insert(name, schema.schema.clone());
        }
    }
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.36.0"},
        "paths": paths,
        "components": {"schemas": schemas},
    })
}

fn path(resource: &Resource) -> String {
    let root = match resource.group.as_str() {
        "" => "/api",
        _ => "/apis",
    };
    let version = resource.api_version();
    let namespace = if resource.namespaced {
        "/namespaces/{namespace}"
    } else {
        ""
    };
    format!("{root}/{version}{namespace}/{}", resource.plural)
}

fn operation(resource: &Resource, verb: &str) -> Value {
    let kind = json!({"group": resource.group, "version": resource.version, "kind": resource.kind});
    let mut made = json!({
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": if verb == "create" { "post" } else { verb },
        "x-kubernetes-group-version-kind": kind,
    });
    if verb != "list" {
        let parameter = |it| json!({"name": it, "in": "query", "schema": {"type": "string", "uniqueItems": true}});
        made["parameters"] = ["dryRun", "fieldValidation"].map(parameter).into();
    }
    made
}
