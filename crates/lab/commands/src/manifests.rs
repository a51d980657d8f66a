//! Reads manifests and writes them to the lab's API.

use std::path::PathBuf;

use crate::output::say;
use serde_json::Value;
use sluice_cluster::client::{Client, Patch, kind, path};
use sluice_config::Invalid;

/// Every object of files and folders, in the order in which they can be written. Nothing when one of them cannot be
/// read.
pub(super) fn read(paths: &[PathBuf]) -> anyhow::Result<Vec<Value>> {
    let (mut all, mut problems) = (Vec::new(), Vec::new());
    for it in paths {
        let (written, wrong) = sluice_source::objects(it)?;
        problems.extend(wrong.iter().map(ToString::to_string));
        if written.is_empty() && wrong.is_empty() {
            problems.push(format!("{}: no manifests", it.display()));
        }
        for it in written {
            let name = it.value["kind"].as_str().unwrap_or_default();
            if let Err(error) = kind(name) {
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
        Some("Namespace") => 0,
        Some("Node" | "ServiceCIDR") => 1,
        Some("Service") => 2,
        _ => 3,
    };
    all.sort_by_key(rank);
    Ok(all)
}

/// `sluice lab apply`.
pub(super) fn apply(client: &Client, paths: &[PathBuf], namespace: &str) -> anyhow::Result<()> {
    let objects = read(paths)?;
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
        let resource = kind(it["kind"].as_str().unwrap_or_default())?;
        let metadata = &it["metadata"];
        let own = metadata["namespace"].as_str().unwrap_or(namespace);
        let name = metadata["name"].as_str().unwrap_or_default();
        let path = path(resource, Some(own), Some(name));
        match client.patch(&path, Patch::Apply, it) {
            Ok(_) => told(&format!("{}/{name} applied", resource.full_name())),
            Err(error) => problems.push(format!("{}/{name}: {error:#}", resource.full_name())),
        }
    }
    Ok(Invalid::check(problems)?)
}
