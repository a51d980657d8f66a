//! Commands that change objects.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::{Value, json};
use sluice_cluster::client::{Client, Kind, Patch};

use super::manifests;
use crate::args::{DeleteArgs, ObjectArgs, RolloutAction, RolloutArgs};
use crate::output::say;

/// How long `drain` waits for the pods to be gone.
const DRAIN: Duration = Duration::from_secs(120);

/// `KIND NAME ..` or `KIND/NAME ..` as kinds and names.
pub(super) fn named<'a>(
    client: &Client,
    words: &'a [String],
) -> anyhow::Result<Vec<(Arc<Kind>, &'a str)>> {
    if words.iter().any(|it| it.contains('/')) {
        let pairs = words.iter().map(|it| {
            let (of, name) = it
                .split_once('/')
                .with_context(|| format!("{it}: KIND/NAME"))?;
            Ok((client.kind(of)?, name))
        });
        return pairs.collect();
    }
    let (of, names) = words.split_first().context("name a kind")?;
    let of = client.kind(of)?;
    Ok(names.iter().map(|it| (of.clone(), it.as_str())).collect())
}

/// The only object that is named, and its path.
pub(super) fn one<'a>(
    client: &Client,
    args: &'a ObjectArgs,
) -> anyhow::Result<(Arc<Kind>, &'a str, String)> {
    let mut all = named(client, &args.object)?;
    let (Some((kind, name)), true) = (all.pop(), all.is_empty()) else {
        bail!("name one object: KIND NAME or KIND/NAME");
    };
    let path = kind.path(Some(&args.at.namespace), Some(name));
    Ok((kind, name, path))
}

pub(super) fn delete(client: &Client, args: &DeleteArgs) -> anyhow::Result<()> {
    let written;
    let mut doomed = Vec::new();
    if args.files.is_empty() {
        for (kind, name) in named(client, &args.object)? {
            doomed.push((kind, args.at.namespace.as_str(), name));
        }
    } else {
        written = manifests::read(&args.files, |it| client.kind_of(it).map(drop))?;
        for it in written.iter().rev() {
            let kind = client.kind_of(it)?;
            let namespace = it["metadata"]["namespace"].as_str();
            let namespace = namespace.unwrap_or(&args.at.namespace);
            let name = it["metadata"]["name"].as_str().unwrap_or_default();
            doomed.push((kind, namespace, name));
        }
    }
    if doomed.is_empty() {
        bail!("name what to delete: KIND NAME, or -f FILE");
    }
    for (kind, namespace, name) in doomed {
        client.delete(&kind.path(Some(namespace), Some(name)), args.grace_period)?;
        say!("{}/{name} deleted", kind.full_name());
    }
    Ok(())
}

pub(super) fn scale(client: &Client, args: &ObjectArgs, replicas: u32) -> anyhow::Result<()> {
    let (kind, name, path) = one(client, args)?;
    if !kind.scales {
        bail!("{} have no replicas", kind.plural);
    }
    let scale = json!({"spec": {"replicas": replicas}});
    client.patch(&format!("{path}/scale"), Patch::Merge, &scale)?;
    say!("{}/{name} scaled to {replicas}", kind.full_name());
    Ok(())
}

pub(super) fn rollout(client: &Client, args: &RolloutArgs) -> anyhow::Result<()> {
    let (kind, name, path) = one(client, &args.object)?;
    if !["Deployment", "StatefulSet", "DaemonSet"].contains(&kind.kind.as_str()) {
        bail!("{} have no rollout", kind.plural);
    }
    match args.action {
        RolloutAction::Restart => {
            let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.9fZ");
            // kubectl's annotation: any change of the template replaces the pods.
            let annotations = json!({"kubectl.kubernetes.io/restartedAt": now.to_string()});
            let template = json!({"metadata": {"annotations": annotations}});
            let spec = json!({"spec": {"template": template}});
            client.patch(&path, Patch::Merge, &spec)?;
            say!("{}/{name} restarted", kind.full_name());
            Ok(())
        }
        RolloutAction::Status => {
            client.until(args.timeout, |it| rolled_out(&it.get(&path)?))?;
            say!("{}/{name} is rolled out", kind.full_name());
            Ok(())
        }
    }
}

/// Whether a workload's pods are all new and available, by kubectl's rules (`polymorphichelpers/rollout_status.go`).
pub(super) fn rolled_out(object: &Value) -> anyhow::Result<()> {
    let number = |it: &Value| it.as_u64().unwrap_or_default();
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let status = &object["status"];
    if number(&status["observedGeneration"]) < number(&object["metadata"]["generation"]) {
        bail!("{name}: the change is not seen yet");
    }
    // The items of a list do not say their kind.
    let (wanted, updated, available) = match status["desiredNumberScheduled"].as_u64() {
        Some(wanted) => (
            wanted,
            number(&status["updatedNumberScheduled"]),
            number(&status["numberAvailable"]),
        ),
        None => (
            object["spec"]["replicas"].as_u64().unwrap_or(1),
            number(&status["updatedReplicas"]),
            number(&status["availableReplicas"]),
        ),
    };
    let all = status["replicas"].as_u64().unwrap_or(updated);
    if updated < wanted || available < wanted || all > updated {
        bail!("{name}: {updated} of {wanted} pods are new, {available} available, {all} there");
    }
    Ok(())
}

pub(super) fn drain(client: &Client, node: &str) -> anyhow::Result<()> {
    cordon(client, node, true)?;
    let pods = || {
        let list = client.get(&format!("/api/v1/pods?fieldSelector=spec.nodeName={node}"))?;
        let items = list["items"].as_array().cloned().unwrap_or_default();
        // Pods of DaemonSets would come back at once.
        let stays = |it: &Value| {
            let owners = it["metadata"]["ownerReferences"].as_array();
            let mut owners = owners.into_iter().flatten();
            owners.any(|it| it["kind"] == "DaemonSet")
        };
        anyhow::Ok(
            items
                .into_iter()
                .filter(|it| !stays(it))
                .collect::<Vec<_>>(),
        )
    };
    for pod in pods()? {
        let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
        let metadata = &pod["metadata"];
        let (namespace, name) = (text(&metadata["namespace"]), text(&metadata["name"]));
        let eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
        });
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/eviction");
        match client.create(&path, &eviction) {
            // The pod was deleted since the list.
            Err(error) if error.to_string().contains("not found") => continue,
            other => drop(other?),
        }
        say!("pod/{name} evicted");
    }
    client.until(DRAIN, |_| match pods()?.len() {
        0 => Ok(()),
        left => bail!("{left} pods are still on {node}"),
    })?;
    say!("node/{node} drained");
    Ok(())
}

pub(super) fn uncordon(client: &Client, node: &str) -> anyhow::Result<()> {
    cordon(client, node, false)?;
    say!("node/{node} uncordoned");
    Ok(())
}

fn cordon(client: &Client, node: &str, unschedulable: bool) -> anyhow::Result<()> {
    let value = if unschedulable {
        json!(true)
    } else {
        Value::Null
    };
    let spec = json!({"spec": {"unschedulable": value}});
    client
        .patch(&format!("/api/v1/nodes/{node}"), Patch::Merge, &spec)
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workloads_are_known_without_their_kind() {
        let status = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        for (status, expected) in [
            (
                status(
                    "{\"desiredNumberScheduled\": 2, \"updatedNumberScheduled\": 2, \"numberAvailable\": 2}",
                ),
                true,
            ),
            (
                status(
                    "{\"desiredNumberScheduled\": 2, \"updatedNumberScheduled\": 2, \"numberAvailable\": 1}",
                ),
                false,
            ),
            (
                status("{\"replicas\": 3, \"updatedReplicas\": 3, \"availableReplicas\": 3}"),
                true,
            ),
            (
                status("{\"replicas\": 3, \"updatedReplicas\": 3, \"availableReplicas\": 2}"),
                false,
            ),
        ] {
            let spec = match status["replicas"].as_u64() {
                Some(replicas) => serde_json::json!({ "replicas": replicas }),
                None => serde_json::json!({}),
            };
            let object =
                serde_json::json!({"metadata": {"name": "it"}, "spec": spec, "status": status});
            assert_eq!(rolled_out(&object).is_ok(), expected, "{object}");
        }
    }
}
