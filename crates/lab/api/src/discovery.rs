//! Discovery of groups, versions and kinds, which kubectl asks for first.

use serde_json::{Value, json};

use crate::answer::{Answer, json_value};
use crate::resource::{KINDS, Resource, Subresource};

/// The verbs of every kind.
const VERBS: [&str; 8] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

/// The answer to a discovery path; `None` for other paths.
pub(crate) fn answer(path: &str) -> Option<Answer> {
    let parts: Vec<_> = path.trim_matches('/').split('/').collect();
    let body = match parts.as_slice() {
        [""] => paths(),
        ["api"] => {
            json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})
        }
        ["api", "v1"] => resources(""),
        ["apis"] => json!({
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": groups().into_iter().map(group).collect::<Vec<_>>(),
        }),
        ["apis", name] if groups().contains(name) => {
            let mut group = group(name);
            group["kind"] = "APIGroup".into();
            group["apiVersion"] = "v1".into();
            group
        }
        ["apis", name, "v1"] if groups().contains(name) => resources(name),
        _ => return None,
    };
    Some(json_value(&body))
}

/// Every API group but the core group.
pub(crate) fn groups() -> Vec<&'static str> {
    let mut groups: Vec<_> = KINDS
        .iter()
        .map(|it| it.group)
        .filter(|it| !it.is_empty())
        .collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}

fn group(name: &str) -> Value {
    let version = json!({"groupVersion": format!("{name}/v1"), "version": "v1"});
    json!({"name": name, "versions": [version], "preferredVersion": version})
}

fn resources(group: &str) -> Value {
    let version = match group {
        "" => "v1".to_owned(),
        group => format!("{group}/v1"),
    };
    let kinds = KINDS.iter().filter(|it| it.group == group);
    json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": version,
        "resources": kinds.flat_map(entries).collect::<Vec<_>>(),
    })
}

/// The discovery entries of a kind and its subresources.
fn entries(resource: &Resource) -> Vec<Value> {
    let mut whole = json!({
        "name": resource.plural,
        "singularName": resource.kind.to_lowercase(),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": VERBS,
    });
    if !resource.short_names.is_empty() {
        whole["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        whole["categories"] = json!(resource.categories);
    }
    let part = |part: &str, group: &str, kind: &str, verbs: &[&str]| {
        let mut entry = json!({
            "name": format!("{}/{part}", resource.plural),
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": kind,
            "verbs": verbs,
        });
        if !group.is_empty() {
            entry["group"] = group.into();
            entry["version"] = "v1".into();
        }
        entry
    };
    let mut entries = vec![whole];
    let written = ["get", "patch", "update"];
    if resource.status == Subresource::Served {
        entries.push(part("status", "", resource.kind, &written));
    }
    if resource.scale == Subresource::Served {
        entries.push(part("scale", "autoscaling", "Scale", &written));
    }
    if resource.kind == "Pod" {
        entries.push(part("binding", "", "Binding", &["create"]));
        entries.push(part("eviction", "policy", "Eviction", &["create"]));
        entries.push(part("log", "", "Pod", &["get"]));
    }
    entries
}

fn paths() -> Value {
    let groups = groups().into_iter().map(|it| format!("/apis/{it}/v1"));
    let fixed = ["/api", "/api/v1", "/apis"].map(str::to_owned);
    let rest = [
        "/healthz",
        "/livez",
        "/openapi/v2",
        "/openapi/v3",
        "/readyz",
        "/version",
    ];
    let rest = rest.map(str::to_owned);
    let paths: Vec<_> = fixed.into_iter().chain(groups).chain(rest).collect();
    json!({ "paths": paths })
}
