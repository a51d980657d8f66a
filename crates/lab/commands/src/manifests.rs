//! Reads manifests and writes them to the lab's API.

use std::path::PathBuf;

use anyhow::bail;
use serde_json::Value;
use sluice_api::KINDS;
use sluice_cluster::client::{Client, Patch};
use sluice_config::Invalid;
use sluice_node::chain;

use crate::output::say;

/// Every object of files and folders, in the order in which they can be written. Nothing when one of them cannot be
/// read, or is of a kind that `serves` refuses and no CustomResourceDefinition among them brings.
pub(super) fn read(
    paths: &[PathBuf],
    serves: impl Fn(&Value) -> anyhow::Result<()>,
) -> anyhow::Result<Vec<Value>> {
    let (mut all, mut problems) = (Vec::new(), Vec::new());
    let read = paths
        .iter()
        .map(|it| anyhow::Ok((it, sluice_source::objects(it)?)));
    let read = read.collect::<anyhow::Result<Vec<_>>>()?;
    let objects = read.iter().flat_map(|(_, (written, _))| written);
    let brought: Vec<_> = objects.flat_map(|it| brought(&it.value)).collect();
    for (it, (written, wrong)) in read {
        problems.extend(wrong.iter().map(ToString::to_string));
        if written.is_empty() && wrong.is_empty() {
            problems.push(format!("{}: no manifests", it.display()));
        }
        for it in written {
            let own = (it.value["apiVersion"].clone(), it.value["kind"].clone());
            if let Err(error) = serves(&it.value)
                && !brought.contains(&own)
            {
                problems.push(it.problem("kind", error.to_string()).to_string());
            } else if it.value["metadata"]["name"]
                .as_str()
                .is_none_or(str::is_empty)
            {
                let problem = it.problem("metadata.name", "is required");
                problems.push(problem.to_string());
            }
            all.push(it.value);
        }
    }
    Invalid::check(problems)?;
    // Objects that others need come first.
    let rank = |it: &Value| match it["kind"].as_str() {
        Some("Namespace" | "CustomResourceDefinition") => 0,
        Some("Node" | "ServiceCIDR") => 1,
        Some("Service") => 2,
        _ => 3,
    };
    all.sort_by_key(rank);
    Ok(all)
}

/// The `apiVersion` and kind of each version of a CustomResourceDefinition.
fn brought(object: &Value) -> Vec<(Value, Value)> {
    let spec = &object["spec"];
    let group = spec["group"].as_str().unwrap_or_default();
    let versions = spec["versions"].as_array().into_iter().flatten();
    let versions = versions.filter(|_| object["kind"] == "CustomResourceDefinition");
    let named = versions.filter_map(|it| Some(format!("{group}/{}", it["name"].as_str()?)));
    named
        .map(|it| (it.into(), spec["names"]["kind"].clone()))
        .collect()
}

/// Refuses what a lab does not serve from its start.
pub(super) fn built_in(object: &Value) -> anyhow::Result<()> {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    let is_known = KINDS.of_kind(version, kind).is_some();
    if !is_known {
        bail!("there is no kind {kind} in {version}");
    }
    Ok(())
}

/// `sluice lab apply`.
pub(super) fn apply(client: &Client, paths: &[PathBuf], namespace: &str) -> anyhow::Result<()> {
    let objects = read(paths, |it| client.kind_of(it).map(drop))?;
    write(client, &objects, namespace, |line| say!("{line}"))
}

/// Writes objects by server-side apply. Those that are refused are named together, after the others are written.
pub(super) fn write(
    client: &Client,
    objects: &[Value],
    namespace: &str,
    told: impl Fn(&str),
) -> anyhow::Result<()> {
    let mut problems = Vec::new();
    for it in objects {
        let kind = client.kind_of(it)?;
        let metadata = &it["metadata"];
        let own = metadata["namespace"].as_str().unwrap_or(namespace);
        let name = metadata["name"].as_str().unwrap_or_default();
        let path = kind.path(Some(own), Some(name));
        match client.patch(&path, Patch::Apply, it) {
            Ok(_) => told(&format!("{}/{name} applied", kind.full_name())),
            Err(error) => {
                let why = chain(error.as_ref());
                problems.push(format!("{}/{name}: {why}", kind.full_name()));
            }
        }
    }
    Ok(Invalid::check(problems)?)
}
