//! `sluice lab describe`: an object, what belongs to it, and what happened to it.

use serde_json::{Value, json};
use sluice_cluster::client::{Client, Kind};
use sluice_config::yaml;

use super::objects::one;
use super::show::{Columns, aligned, cell, columns, encode, rows};
use crate::args::ObjectArgs;
use crate::output::{put, say};

pub(super) fn describe(client: &Client, args: &ObjectArgs) -> anyhow::Result<()> {
    let (kind, name, path) = one(client, args)?;
    let namespace = kind.namespaced.then_some(args.at.namespace.as_str());
    let mut object = client.get(&path)?;
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    put!("{}", yaml(&object));
    for (plural, query) in belonging(&kind, name, &object) {
        let related = client.kind(plural)?.path(namespace, None);
        let table = client.table(&format!("{related}?{query}"))?;
        let shown = Columns {
            wide: true,
            namespaces: namespace.is_none(),
        };
        let rows = rows(&table, shown);
        say!("---");
        match rows.len() {
            1 => say!("no {plural}"),
            _ => put!("{}", aligned(&rows)),
        }
    }
    say!("---");
    let events = client.get(&client.kind("events")?.path(namespace, None))?;
    let rows = happened(&events, &kind, name, &object["metadata"]["uid"]);
    match rows.len() {
        1 => say!("no events"),
        _ => columns(&rows),
    }
    Ok(())
}

/// Collections, and the query for those of their objects that belong to this one.
fn belonging(kind: &Kind, name: &str, object: &Value) -> Vec<(&'static str, String)> {
    let labelled = |selector: &str| format!("labelSelector={}", encode(selector));
    let spec = &object["spec"];
    match kind.kind.as_str() {
        "Service" => {
            let slices = labelled(&format!("kubernetes.io/service-name={name}"));
            let pods = equal(&spec["selector"]).map(|it| ("pods", labelled(&it.join(","))));
            let slices = ("endpointslices", slices);
            std::iter::once(slices).chain(pods).collect()
        }
        "Deployment" => ["replicasets", "pods"]
            .map(|it| (it, labelled(&sluice_api::selector_text(&spec["selector"]))))
            .to_vec(),
        "ReplicaSet" | "StatefulSet" | "DaemonSet" => {
            vec![(
                "pods",
                labelled(&sluice_api::selector_text(&spec["selector"])),
            )]
        }
        "Node" => {
            let on_it = encode(&format!("spec.nodeName={name}"));
            vec![("pods", format!("fieldSelector={on_it}"))]
        }
        _ => Vec::new(),
    }
}

/// `key=value` of each label, if there are any.
fn equal(labels: &Value) -> Option<Vec<String>> {
    let labels = labels.as_object().filter(|it| !it.is_empty())?;
    let one = |(key, value): (&String, &Value)| format!("{key}={}", cell(value));
    Some(labels.iter().map(one).collect())
}

/// Events about an object, below their header.
fn happened(events: &Value, kind: &Kind, name: &str, uid: &Value) -> Vec<[String; 5]> {
    let of_it = |it: &&Value| {
        let about = &it["involvedObject"];
        // kubelet names its Node by name.
        about["uid"] == *uid || (kind.kind == "Node" && about["uid"] == name)
    };
    let mut rows = vec![["TYPE", "REASON", "COUNT", "LAST SEEN", "MESSAGE"].map(str::to_owned)];
    let all = events["items"].as_array().into_iter().flatten();
    rows.extend(all.filter(of_it).map(|it| {
        [
            cell(&it["type"]),
            cell(&it["reason"]),
            cell(&it.get("count").cloned().unwrap_or(json!(1))),
            cell(&it["lastTimestamp"]),
            cell(&it["message"]),
        ]
    }));
    rows
}
