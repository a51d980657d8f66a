//! Discovery of groups, versions and kinds, which kubectl asks for first.

mod aggregated;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::answer::{Answer, json_value};
use crate::resource::{Registry, Resource, Subresource};

/// The answer to a discovery path; `None` for other paths. `accept` is what the client accepts.
pub(crate) fn answer(registry: &Registry, path: &str, accept: Option<&str>) -> Option<Answer> {
    let parts: Vec<_> = path.trim_matches('/').split('/').collect();
    if let [root @ ("api" | "apis")] = parts.as_slice()
        && let Some(all) = aggregated::answer(registry, root, accept)
    {
        return Some(all);
    }
    let body = match parts.as_slice() {
        [""] => paths(registry),
        ["api"] => {
            json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})
        }
        ["api", version] => resources(registry, "", version)?,
        ["apis"] => {
            let groups = registry.groups();
            let named = groups.iter().filter(|(name, _)| !name.is_empty());
            let groups = named.map(|(name, versions)| group(name, versions));
            json!({
                "kind": "APIGroupList",
                "apiVersion": "v1",
                "groups": groups.collect::<Vec<_>>(),
            })
        }
        ["apis", name] => {
            let groups = registry.groups();
            let mut group = group(name, groups.get(name)?);
            group["kind"] = "APIGroup".into();
            group["apiVersion"] = "v1".into();
            group
        }
        ["apis", name, version] => resources(registry, name, version)?,
        _ => return None,
    };
    Some(json_value(&body))
}

fn group<T>(name: &str, versions: &[(&str, T)]) -> Value {
    let version = |it: &str| json!({"groupVersion": format!("{name}/{it}"), "version": it});
    let versions: Vec<_> = versions.iter().map(|(it, _)| version(it)).collect();
    json!({"name": name, "versions": versions, "preferredVersion": versions.first()})
}

/// The kinds of a group's version; `None` when it has none.
fn resources(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let kinds = registry.of_version(group, version);
    let entries = |it: &Resource| {
        let mut entries = entries(it);
        if let (None, Some(stored)) = (it.computed, registry.stored_as(it)) {
            entries[0]["storageVersionHash"] = storage_version(stored).into();
        }
        entries
    };
    Some(json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": kinds.first()?.api_version(),
        "resources": kinds.iter().flat_map(|it| entries(it)).collect::<Vec<_>>(),
    }))
}

/// What tells clients that objects are stored in another version (`discovery.StorageVersionHash` in
/// `k8s.io/apiserver/pkg/endpoints/discovery/storageversionhash.go`).
fn storage_version(stored: &Resource) -> String {
    let text = format!("{}/{}/{}", stored.group, stored.version, stored.kind);
    let hash = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    BASE64_STANDARD.encode(&hash.as_ref()[..8])
}

/// The discovery entries of a kind and its subresources.
fn entries(resource: &Resource) -> Vec<Value> {
    let mut whole = json!({
        "name": resource.plural,
        "singularName": resource.kind.to_lowercase(),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": resource.verbs(),
    });
    if !resource.short_names.is_empty() {
        whole["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        whole["categories"] = json!(resource.categories);
    }
    let part = |part: &str, api_version: &str, kind: &str, verbs: &[&str]| {
        let mut entry = json!({
            "name": format!("{}/{part}", resource.plural),
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": kind,
            "verbs": verbs,
        });
        if let Some((group, version)) = api_version.split_once('/') {
            entry["group"] = group.into();
            entry["version"] = version.into();
        }
        entry
    };
    let mut entries = vec![whole];
    let written = ["get", "patch", "update"];
    if resource.status == Subresource::Served {
        entries.push(part("status", "", &resource.kind, &written));
    }
    if resource.scale.is_some() {
        entries.push(part("scale", "autoscaling/v1", "Scale", &written));
    }
    let parts = resource.parts.iter();
    entries.extend(parts.map(|it| part(it.name, it.api_version, it.kind, it.verbs)));
    entries
}

fn paths(registry: &Registry) -> Value {
    let groups = registry.groups().into_iter();
    let groups = groups.filter(|(name, _)| !name.is_empty());
    let groups = groups.flat_map(|(name, versions)| {
        let versions = versions.into_iter();
        versions.map(move |(it, _)| format!("/apis/{name}/{it}"))
    });
    let fixed = ["/api", "/api/v1", "/apis"].map(str::to_owned);
    let rest = [
        "/healthz",
        "/livez",
        "/metrics",
        "/openapi/v2",
        "/openapi/v3",
        "/readyz",
        "/version",
    ];
    let rest = rest.map(str::to_owned);
    let paths: Vec<_> = fixed.into_iter().chain(groups).chain(rest).collect();
    json!({ "paths": paths })
}
