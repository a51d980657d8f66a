//! OpenAPI, as far as kubectl needs it: that the server validates fields itself.
//!
//! The document of version 2 is empty: kubectl before 1.25 then leaves validation to the server,
//! and patches by the types it was built with. The documents of version 3 name the kinds and the
//! parameters `fieldValidation` and `dryRun`, which kubectl looks for before it uses them.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::answer::{Answer, Content, json_value, with_type};
use crate::discovery::groups;
use crate::resource::{KINDS, Resource};

/// The only form of version 2 that kubectl asks for, spelled as kube-apiserver answers: Go's reader
/// of media types takes no `@`.
const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// The answer to an OpenAPI path; `None` for other paths.
pub(crate) fn answer(path: &str) -> Option<Answer> {
    let path = path.strip_prefix("/openapi/")?;
    match path {
        // An empty protobuf message has no bytes.
        "v2" => Some(with_type(PROTOBUF, Content::whole(Bytes::new()))),
        "v3" => Some(json_value(&index())),
        _ => {
            let version = path.strip_prefix("v3/")?;
            let group = match version {
                "api/v1" => "",
                other => other.strip_prefix("apis/")?.strip_suffix("/v1")?,
            };
            (group.is_empty() || groups().contains(&group)).then(|| json_value(&document(group)))
        }
    }
}

fn index() -> Value {
    let versions = groups().into_iter().map(|it| format!("apis/{it}/v1"));
    let versions = versions.chain(["api/v1".to_owned()]);
    let paths: Map<_, _> = versions
        .map(|it| {
            let url = format!("/openapi/v3/{it}?hash={}", env!("CARGO_PKG_VERSION"));
            (it, json!({"serverRelativeURL": url}))
        })
        .collect();
    json!({ "paths": paths })
}

fn document(group: &str) -> Value {
    let kinds = KINDS.iter().filter(|it| it.group == group);
    let paths: Map<_, _> = kinds.map(|it| (path(it), operations(it))).collect();
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.36.0"},
        "paths": paths,
        "components": {"schemas": {}},
    })
}

fn path(resource: &Resource) -> String {
    let root = match resource.group {
        "" => "/api/v1".to_owned(),
        group => format!("/apis/{group}/v1"),
    };
    let namespace = if resource.namespaced {
        "/namespaces/{namespace}"
    } else {
        ""
    };
    format!("{root}{namespace}/{}/{{name}}", resource.plural)
}

fn operations(resource: &Resource) -> Value {
    let kind = json!({"group": resource.group, "version": "v1", "kind": resource.kind});
    let parameters = ["dryRun", "fieldValidation"].map(
        |it| json!({"name": it, "in": "query", "schema": {"type": "string", "uniqueItems": true}}),
    );
    json!({
        "patch": {
            "parameters": parameters,
            "responses": {"200": {"description": "OK"}},
            "x-kubernetes-action": "patch",
            "x-kubernetes-group-version-kind": kind,
        },
    })
}
