//! Discovery of all kinds in one answer (`apidiscovery.k8s.io/v2`), which clients since Kubernetes 1.26 ask for.

use std::sync::Arc;

use serde_json::{Value, json};

use super::entries;
use crate::answer::{Answer, Content, with_type};
use crate::resource::{Registry, Resource};

const TYPE: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The answer for `/api` or `/apis`; `None` when the client does not accept this form.
pub(super) fn answer(registry: &Registry, root: &str, accept: Option<&str>) -> Option<Answer> {
    let mut accepted = accept?.split(',');
    let is_this = |it: &str| {
        let given: Vec<_> = it.split(';').map(str::trim).collect();
        TYPE.split(';').all(|part| given.contains(&part))
    };
    accepted.find(|it| is_this(it))?;
    let groups = registry.groups();
    let groups = groups
        .iter()
        .filter(|(name, _)| name.is_empty() == (root == "api"));
    let items = groups.map(|(group, versions)| {
        let versions = versions.iter().map(|(it, kinds)| {
            let resources: Vec<_> = kinds.iter().map(|it| resource(it)).collect();
            json!({"version": it, "freshness": "Current", "resources": resources})
        });
        let versions: Vec<_> = versions.collect();
        json!({"metadata": {"name": group, "creationTimestamp": null}, "versions": versions})
    });
    let list = json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {},
        "items": items.collect::<Vec<_>>(),
    });
    Some(with_type(TYPE, Content::whole(list.to_string())))
}

fn resource(resource: &Arc<Resource>) -> Value {
    let mut entries = entries(resource).into_iter();
    let mut whole = entries.next().unwrap_or_default();
    let kind = |entry: &Value| {
        let or = |field: &str, own: &str| entry[field].as_str().unwrap_or(own).to_owned();
        json!({
            "group": or("group", &resource.group), "version": or("version", &resource.version),
            "kind": entry["kind"],
        })
    };
    let parts = entries.map(|it| {
        let name = it["name"].as_str().unwrap_or_default();
        let name = name.rsplit('/').next();
        json!({"subresource": name, "responseKind": kind(&it), "verbs": it["verbs"]})
    });
    let mut made = json!({
        "resource": resource.plural, "responseKind": kind(&whole),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": whole["singularName"], "verbs": whole["verbs"],
    });
    for field in ["shortNames", "categories"] {
        if !whole[field].is_null() {
            made[field] = whole[field].take();
        }
    }
    let parts: Vec<_> = parts.collect();
    if !parts.is_empty() {
        made["subresources"] = parts.into();
    }
    made
}
