//! Other resources for a Pod that runs (`podResizeStrategy` in `pkg/registry/core/pod/strategy.go`, `ValidatePodResize` in
//! `pkg/apis/core/validation/validation.go`).

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, ResourceRequirements};

use super::complete_pod;
use super::scheduler::quality;
use crate::FieldError;
use crate::field::Problems;

/// The Pod `old` with the resources of `new`, and nothing else of `new`.
///
/// # Errors
///
/// The fields that a resize must not change.
pub fn resize(old: &Pod, new: &Pod) -> Result<Pod, Vec<FieldError>> {
    let mut problems = Problems::default();
    let before = old.spec.clone().unwrap_or_default();
    let wanted = new.spec.clone().unwrap_or_default();
    let mut resized = old.clone();
    let spec = resized.spec.get_or_insert_default();
    let lists = [
        (
            "containers",
            &mut spec.containers,
            wanted.containers.as_slice(),
        ),
        (
            "initContainers",
            spec.init_containers.get_or_insert_default(),
            wanted.init_containers.as_deref().unwrap_or_default(),
        ),
    ];
    for (list, own, wanted) in lists {
        take(list, own, wanted, &mut problems);
    }
    spec.init_containers = spec.init_containers.take().filter(|it| !it.is_empty());
    spec.resources = wanted.resources;
    if !problems.found.is_empty() {
        return Err(problems.found);
    }
    complete_pod(&mut resized);
    let spec = resized.spec.clone().unwrap_or_default();
    if quality(&before) != quality(&spec) {
        let class = old.status.as_ref().and_then(|it| it.qos_class.as_deref());
        let why = "Pod QOS Class may not change as a result of resizing";
        problems.invalid("spec", format!("{:?}", class.unwrap_or_default()), why);
    }
    of_pod(
        before.resources.as_ref(),
        spec.resources.as_ref(),
        &mut problems,
    );
    let init = |it: &PodSpec| it.init_containers.clone().unwrap_or_default();
    let pairs = init(&before).into_iter().zip(init(&spec));
    for (at, (old, new)) in pairs.enumerate() {
        let path = format!("spec.initContainers[{at}]");
        removed(
            &path,
            "",
            old.resources.as_ref(),
            new.resources.as_ref(),
            &mut problems,
        );
        if fixed(&old) != fixed(&new) {
            let why = "only cpu and memory resources for init or sidecar containers are mutable";
            problems.forbidden(&*path, why);
        }
        let mut policies = old.resize_policy.iter().flatten();
        let is_sidecar = old.restart_policy.as_deref() == Some("Always");
        if old != new && !is_sidecar && policies.any(|it| it.restart_policy == "RestartContainer") {
            let why = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";
            problems.forbidden(&*path, why);
        }
    }
    for (at, (old, new)) in before.containers.iter().zip(&spec.containers).enumerate() {
        let path = format!("spec.containers[{at}]");
        removed(
            &path,
            "",
            old.resources.as_ref(),
            new.resources.as_ref(),
            &mut problems,
        );
        if fixed(old) != fixed(new) {
            problems.forbidden("spec", "only cpu and memory resources are mutable");
        }
    }
    if problems.found.is_empty() {
        Ok(resized)
    } else {
        Err(problems.found)
    }
}

/// Gives containers the resources and policies of those that are wanted, which are the same containers.
fn take(list: &str, own: &mut [Container], wanted: &[Container], problems: &mut Problems) {
    if own.len() != wanted.len() {
        let why = format!("{list} may not be added or removed on resize");
        problems.forbidden(format!("spec.{list}"), &why);
        return;
    }
    for (at, (own, wanted)) in own.iter_mut().zip(wanted).enumerate() {
        if own.name != wanted.name {
            let why = format!("{list} may not be renamed or reordered on resize");
            problems.forbidden(format!("spec.{list}[{at}].name"), &why);
        }
        own.resources.clone_from(&wanted.resources);
        own.resize_policy.clone_from(&wanted.resize_policy);
    }
}

/// The resources of the Pod as a whole.
fn of_pod(
    old: Option<&ResourceRequirements>,
    new: Option<&ResourceRequirements>,
    problems: &mut Problems,
) {
    if old.is_some() && new.is_none() {
        problems.forbidden("spec.resources", "pod-level resources cannot be removed");
        return;
    }
    removed("spec", "pod-level ", old, new, problems);
    if old.map(rest).unwrap_or_default() != new.map(rest).unwrap_or_default() {
        let why = "only cpu and memory resources are mutable at pod-level";
        problems.forbidden("spec", why);
    }
}

/// Refuses requests and limits that go.
fn removed(
    path: &str,
    level: &str,
    old: Option<&ResourceRequirements>,
    new: Option<&ResourceRequirements>,
    problems: &mut Problems,
) {
    let none = ResourceRequirements::default();
    let (old, new) = (old.unwrap_or(&none), new.unwrap_or(&none));
    for (field, old, new) in [
        ("requests", &old.requests, &new.requests),
        ("limits", &old.limits, &new.limits),
    ] {
        let is_kept = |name: &String| new.as_ref().is_some_and(|it| it.contains_key(name));
        if !old.iter().flatten().all(|(name, _)| is_kept(name)) {
            let why = format!("{level}resource {field} cannot be removed");
            problems.forbidden(format!("{path}.resources.{field}"), &why);
        }
    }
}

/// A container without the CPU and memory that a resize may change.
fn fixed(container: &Container) -> Container {
    Container {
        resources: Some(container.resources.as_ref().map(rest).unwrap_or_default()),
        ..container.clone()
    }
}

/// Resources but CPU and memory.
fn rest(resources: &ResourceRequirements) -> ResourceRequirements {
    let mut rest = resources.clone();
    for list in [&mut rest.limits, &mut rest.requests] {
        if let Some(all) = list {
            all.retain(|name, _| name != "cpu" && name != "memory");
        }
        *list = list.take().filter(|it| !it.is_empty());
    }
    rest
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::Typed;

    fn pod(spec: &Value) -> Pod {
        let mut pod = Pod::read(&json!({"spec": spec})).unwrap();
        complete_pod(&mut pod);
        pod
    }

    /// What is wrong, a line for each, or the resources of the first container.
    fn resized(old: &Value, new: &Value) -> String {
        match resize(&pod(old), &pod(new)) {
            Ok(pod) => pod.write()["spec"]["containers"][0]["resources"].to_string(),
            Err(found) => {
                let lines: Vec<_> = found.iter().map(ToString::to_string).collect();
                lines.join("\n")
            }
        }
    }

    #[test]
    fn cpu_and_memory_change() {
        let with =
            |resources: Value| json!({"containers": [{"name": "a", "resources": resources}]});
        let small = with(json!({"requests": {"cpu": "1"}}));
        let two = json!({"containers": [small["containers"][0], {"name": "b"}]});
        let renamed =
            json!({"containers": [{"name": "b", "resources": {"requests": {"cpu": "1"}}}]});
        let mut policy = small.clone();
        policy["containers"][0]["resizePolicy"] =
            json!([{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]);
        let class = "spec: Invalid value: \"Burstable\": Pod QOS Class may not change as a result of resizing";
        let mutable = "spec: Forbidden: only cpu and memory resources are mutable";
        for (new, expected) in [
            (with(json!({"requests": {"cpu": "2"}})), r#"{"requests":{"cpu":"2"}}"#.to_owned()),
            // What is limited is requested.
            (
                with(json!({"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}})),
                r#"{"limits":{"memory":"1Gi"},"requests":{"cpu":"1","memory":"1Gi"}}"#.to_owned(),
            ),
            (
                with(json!({"limits": {"cpu": "1", "memory": "1Gi"}})),
                class.to_owned(),
            ),
            (
                with(json!({})),
                format!("{class}\nspec.containers[0].resources.requests: Forbidden: resource requests cannot be removed"),
            ),
            (
                with(json!({"requests": {"cpu": "1", "ephemeral-storage": "1Gi"}})),
                mutable.to_owned(),
            ),
            (policy, mutable.to_owned()),
            (
                two,
                "spec.containers: Forbidden: containers may not be added or removed on resize".to_owned(),
            ),
            (
                renamed,
                "spec.containers[0].name: Forbidden: containers may not be renamed or reordered on resize".to_owned(),
            ),
        ] {
            assert_eq!(resized(&small, &new), expected, "{new}");
        }
    }

    #[test]
    fn init_containers_and_the_pod_have_rules_of_their_own() {
        let with = |init: Value, whole: Value| json!({"containers": [{"name": "a"}], "initContainers": [init], "resources": whole});
        let whole = json!({"requests": {"cpu": "2"}});
        let init = |cpu: &str| {
            let policy = json!([{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]);
            json!({"name": "i", "resources": {"requests": {"cpu": cpu}}, "resizePolicy": policy})
        };
        let mut sidecars = [init("1"), init("2")].map(|it| with(it, whole.clone()));
        for (new, expected) in [
            (
                with(init("2"), whole.clone()),
                "spec.initContainers[0]: Forbidden: non-sidecar init containers with a resize policy of RestartContainer \
                 cannot be resized",
            ),
            (
                with(init("1"), Value::Null),
                "spec.resources: Forbidden: pod-level resources cannot be removed",
            ),
            (
                with(
                    init("1"),
                    json!({"requests": {"cpu": "2", "ephemeral-storage": "1Gi"}}),
                ),
                "spec: Forbidden: only cpu and memory resources are mutable at pod-level",
            ),
            (with(init("1"), json!({"requests": {"cpu": "3"}})), "null"),
        ] {
            assert_eq!(
                resized(&with(init("1"), whole.clone()), &new),
                expected,
                "{new}"
            );
        }
        for it in &mut sidecars {
            it["initContainers"][0]["restartPolicy"] = "Always".into();
        }
        assert_eq!(resized(&sidecars[0], &sidecars[1]), "null");
    }

    #[test]
    fn a_pod_has_a_class() {
        let of = |containers: Value, whole: Value| {
            let pod = pod(&json!({"containers": containers, "resources": whole}));
            pod.status.unwrap().qos_class.unwrap()
        };
        let limited = |cpu: &str| json!({"name": "a", "resources": {"limits": {"cpu": cpu, "memory": "1Gi"}}});
        let requested = json!({"name": "b", "resources": {"requests": {"memory": "1Gi"}}});
        let nothing = json!({"name": "c", "resources": {"limits": {"ephemeral-storage": "1Gi"}}});
        for (containers, whole, expected) in [
            (
                json!([limited("1"), limited("2")]),
                Value::Null,
                "Guaranteed",
            ),
            (json!([limited("1"), nothing]), Value::Null, "Burstable"),
            (json!([limited("0")]), Value::Null, "Burstable"),
            (json!([requested]), Value::Null, "Burstable"),
            (json!([nothing]), Value::Null, "BestEffort"),
            (
                json!([nothing]),
                limited("1")["resources"].clone(),
                "Burstable",
            ),
            (json!([limited("1")]), json!({}), "BestEffort"),
        ] {
            assert_eq!(
                of(containers.clone(), whole.clone()),
                expected,
                "{containers} {whole}"
            );
        }
    }
}
