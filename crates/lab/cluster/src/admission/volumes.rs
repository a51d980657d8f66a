//! Volumes of pods and their mounts (`ValidateVolumes`, `ValidateVolumeMounts` in `pkg/apis/core/validation`).

use std::collections::BTreeSet;

use serde_json::Value;
use sluice_api::Status;
use sluice_model::is_label;

use super::checked;

/// A field, and what is wrong with it.
type Problem = (String, String);

/// What a volume can be made from, in the order in which kube-apiserver looks for it (`validateVolumeSource`).
const KINDS: [&str; 30] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

/// Refuses wrong volumes and mounts, unless they were there before.
pub(super) fn admit(old: Option<&Value>, new: &Value) -> Result<(), Status> {
    let Some(path) = path(text(&new["kind"])) else {
        return Ok(());
    };
    let problems = check(path, new);
    if old.is_some_and(|it| check(path, it) == problems) {
        return Ok(());
    }
    checked(new, problems)
}

/// The path to the spec of an object's pods; `None` for kinds without. A StatefulSet's pods get more volumes, from its claims, and
/// are checked themselves.
fn path(kind: &str) -> Option<&'static str> {
    match kind {
        "Pod" => Some("spec"),
        "Deployment" | "ReplicaSet" | "DaemonSet" | "Job" => Some("spec.template.spec"),
        "CronJob" => Some("spec.jobTemplate.spec.template.spec"),
        _ => None,
    }
}

/// The errors in the volumes of the pod spec at `path` of an object.
fn check(path: &str, object: &Value) -> Vec<Problem> {
    let spec = path.split('.').fold(object, |it, field| &it[field]);
    let mut problems = Vec::new();
    let mut names = BTreeSet::new();
    for (at, volume) in items(&spec["volumes"]) {
        let path = format!("{path}.volumes[{at}]");
        let name = text(&volume["name"]);
        if name.is_empty() {
            problems.push((format!("{path}.name"), "Required value".to_owned()));
        } else if !is_label(name) {
            let why = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and \
                       end with an alphanumeric character";
            problems.push((
                format!("{path}.name"),
                format!("Invalid value: {name:?}: {why}"),
            ));
        } else if !names.insert(name) {
            problems.push((format!("{path}.name"), format!("Duplicate value: {name:?}")));
        }
        sources(&path, volume, &mut problems);
    }
    for list in ["initContainers", "containers"] {
        for (at, container) in items(&spec[list]) {
            let path = format!("{path}.{list}[{at}].volumeMounts");
            mounts(&path, &container["volumeMounts"], &names, &mut problems);
        }
    }
    problems
}

fn items(list: &Value) -> impl Iterator<Item = (usize, &Value)> {
    list.as_array().into_iter().flatten().enumerate()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Checks what a volume is made from. Of several sources, all but the first are refused.
fn sources(path: &str, volume: &Value, problems: &mut Vec<Problem>) {
    for kind in KINDS.iter().filter(|it| volume[**it].is_object()).skip(1) {
        let why = "Forbidden: may not specify more than 1 volume type";
        problems.push((format!("{path}.{kind}"), why.to_owned()));
    }
    for (kind, name) in [("configMap", "name"), ("secret", "secretName")] {
        source(&format!("{path}.{kind}"), &volume[kind], name, problems);
    }
    files(
        &format!("{path}.downwardAPI"),
        &volume["downwardAPI"]["items"],
        problems,
    );
    for (at, it) in items(&volume["projected"]["sources"]) {
        let path = format!("{path}.projected.sources[{at}]");
        for kind in ["configMap", "secret"] {
            source(&format!("{path}.{kind}"), &it[kind], "name", problems);
        }
        files(
            &format!("{path}.downwardAPI"),
            &it["downwardAPI"]["items"],
            problems,
        );
        let token = &it["serviceAccountToken"];
        if token.is_object() {
            relative(
                &format!("{path}.serviceAccountToken.path"),
                text(&token["path"]),
                problems,
            );
        }
    }
}

fn source(path: &str, source: &Value, name: &str, problems: &mut Vec<Problem>) {
    if source.is_object() && text(&source[name]).is_empty() {
        problems.push((format!("{path}.{name}"), "Required value".to_owned()));
    }
    files(path, &source["items"], problems);
}

fn files(path: &str, list: &Value, problems: &mut Vec<Problem>) {
    for (at, item) in items(list) {
        relative(
            &format!("{path}.items[{at}].path"),
            text(&item["path"]),
            problems,
        );
    }
}

/// Refuses a path that is not below its volume.
fn relative(field: &str, path: &str, problems: &mut Vec<Problem>) {
    let why = if path.is_empty() {
        "Required value".to_owned()
    } else if path.starts_with('/') {
        format!("Invalid value: {path:?}: must be a relative path")
    } else if path.split('/').any(|it| it == "..") {
        format!("Invalid value: {path:?}: must not contain '..'")
    } else if path.starts_with("..") {
        format!("Invalid value: {path:?}: must not start with '..'")
    } else {
        return;
    };
    problems.push((field.to_owned(), why));
}

fn mounts(path: &str, list: &Value, volumes: &BTreeSet<&str>, problems: &mut Vec<Problem>) {
    let mut places = BTreeSet::new();
    for (at, mount) in items(list) {
        let path = format!("{path}[{at}]");
        let (name, place) = (text(&mount["name"]), text(&mount["mountPath"]));
        if name.is_empty() {
            problems.push((format!("{path}.name"), "Required value".to_owned()));
        } else if !volumes.contains(name) {
            problems.push((format!("{path}.name"), format!("Not found: {name:?}")));
        }
        if place.is_empty() {
            problems.push((format!("{path}.mountPath"), "Required value".to_owned()));
        } else if !places.insert(place) {
            let why = format!("Invalid value: {place:?}: must be unique");
            problems.push((format!("{path}.mountPath"), why));
        }
        for field in ["subPath", "subPathExpr"] {
            let below = text(&mount[field]);
            if !below.is_empty() {
                relative(&format!("{path}.{field}"), below, problems);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn found(volumes: &Value, mounts: &Value) -> String {
        let container = json!({"name": "c", "volumeMounts": mounts});
        let pod = json!({"spec": {"containers": [container], "volumes": volumes}});
        let problems = check("spec", &pod).into_iter();
        let problems = problems.map(|(field, why)| format!("{field}: {why}"));
        problems.collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn volumes_have_names_and_files_stay_below_them() {
        let item = |path: &str| json!([{"key": "k", "path": path}]);
        for (volume, expected) in [
            (json!({"name": "v", "emptyDir": {}}), ""),
            (
                json!({"name": "v", "configMap": {"name": "c"}, "emptyDir": {}, "hostPath": null}),
                "spec.volumes[0].configMap: Forbidden: may not specify more than 1 volume type",
            ),
            (
                json!({"emptyDir": {}}),
                "spec.volumes[0].name: Required value",
            ),
            (
                json!({"name": "V", "emptyDir": {}}),
                "spec.volumes[0].name: Invalid value: \"V\": a lowercase RFC 1123 label",
            ),
            (
                json!({"name": "v", "configMap": {}}),
                "spec.volumes[0].configMap.name: Required value",
            ),
            (
                json!({"name": "v", "secret": {}}),
                "spec.volumes[0].secret.secretName: Required value",
            ),
            (
                json!({"name": "v", "configMap": {"name": "c", "items": item("/a")}}),
                "spec.volumes[0].configMap.items[0].path: Invalid value: \"/a\": must be a relative path",
            ),
            (
                json!({"name": "v", "secret": {"secretName": "c", "items": item("a/../b")}}),
                "spec.volumes[0].secret.items[0].path: Invalid value: \"a/../b\": must not contain '..'",
            ),
            (
                json!({"name": "v", "downwardAPI": {"items": item("..x")}}),
                "spec.volumes[0].downwardAPI.items[0].path: Invalid value: \"..x\": must not start with '..'",
            ),
            (
                json!({"name": "v", "projected": {"sources": [{"serviceAccountToken": {}}, {"secret": {}}]}}),
                "spec.volumes[0].projected.sources[0].serviceAccountToken.path: Required value; \
                 spec.volumes[0].projected.sources[1].secret.name: Required value",
            ),
        ] {
            let found = found(&json!([volume]), &json!([]));
            assert!(
                found.starts_with(expected) && found.is_empty() == expected.is_empty(),
                "{found}"
            );
        }
        let twice = json!([{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}}]);
        assert_eq!(
            found(&twice, &json!([])),
            "spec.volumes[1].name: Duplicate value: \"v\""
        );
    }

    #[test]
    fn mounts_name_a_volume_and_a_place() {
        let volumes = json!([{"name": "v", "emptyDir": {}}]);
        let base = "spec.containers[0].volumeMounts[0]";
        for (mount, expected) in [
            (json!({"name": "v", "mountPath": "/a"}), String::new()),
            (
                json!({"name": "w", "mountPath": "/a"}),
                format!("{base}.name: Not found: \"w\""),
            ),
            (
                json!({"name": "v"}),
                format!("{base}.mountPath: Required value"),
            ),
            (
                json!({"name": "v", "mountPath": "/a", "subPath": "../b"}),
                format!("{base}.subPath: Invalid value: \"../b\": must not contain '..'"),
            ),
        ] {
            assert_eq!(found(&volumes, &json!([mount])), expected);
        }
        let mount = json!({"name": "v", "mountPath": "/a"});
        assert_eq!(
            found(&volumes, &json!([mount, mount])),
            "spec.containers[0].volumeMounts[1].mountPath: Invalid value: \"/a\": must be unique"
        );
    }
}
