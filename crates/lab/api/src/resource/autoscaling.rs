//! HorizontalPodAutoscalers of `autoscaling/v1`, which are stored as those of `autoscaling/v2`
//! (`pkg/apis/autoscaling/v1/conversion.go`).
//!
//! Version 1 has a single metric of its own, the utilisation of the CPU. All else is in annotations.

use serde_json::{Map, Value, json};

/// The annotations of version 1, and where version 2 has their content.
const ANNOTATIONS: [(&str, &str, &str); 4] = [
    ("metrics", "spec", "metrics"),
    ("behavior", "spec", "behavior"),
    ("current-metrics", "status", "currentMetrics"),
    ("conditions", "status", "conditions"),
];

fn annotation(name: &str) -> String {
    format!("autoscaling.alpha.kubernetes.io/{name}")
}

fn part<'a>(object: &'a mut Value, name: &str) -> Option<&'a mut Map<String, Value>> {
    object.get_mut(name)?.as_object_mut()
}

/// Turns an object of `autoscaling/v1` into one of v2: fields that v1 lacks come from its annotations.
pub(super) fn store(object: &mut Value) {
    let annotations = object.pointer_mut("/metadata/annotations");
    let annotations = annotations.and_then(Value::as_object_mut);
    let mut texts = Vec::new();
    for (name, of, field) in ANNOTATIONS {
        let text = annotations
            .as_deref()
            .and_then(|it| it.get(&annotation(name)));
        let value = text.and_then(|it| serde_json::from_str(it.as_str()?).ok());
        texts.extend(value.map(|it: Value| (of, field, it)));
    }
    if let Some(all) = annotations {
        all.retain(|key, _| {
            !ANNOTATIONS
                .iter()
                .any(|(name, ..)| *key == annotation(name))
        });
    }
    for (of, field, value) in texts {
        if let Some(part) = part(object, of) {
            part.insert(field.to_owned(), value);
        }
    }
    for (of, field, list, about) in [
        (
            "spec",
            "targetCPUUtilizationPercentage",
            "metrics",
            "target",
        ),
        (
            "status",
            "currentCPUUtilizationPercentage",
            "currentMetrics",
            "current",
        ),
    ] {
        let Some(part) = part(object, of) else {
            continue;
        };
        let Some(per_cent) = part.remove(field).filter(|it| !it.is_null()) else {
            continue;
        };
        let mut value = json!({"averageUtilization": per_cent});
        if about == "target" {
            value["type"] = "Utilization".into();
        }
        let metric = json!({"type": "Resource", "resource": {"name": "cpu", about: value}});
        let all = part.entry(list).or_insert_with(|| json!([]));
        if let Some(all) = all.as_array_mut().filter(|it| !it.iter().any(is_cpu)) {
            all.insert(0, metric);
        }
    }
}

/// Turns an object of `autoscaling/v2` into one of v1: fields that v1 lacks become annotations.
pub(super) fn show(object: &mut Value) {
    if let Some(spec) = part(object, "spec") {
        let metrics = spec.get_mut("metrics").and_then(Value::as_array_mut);
        let cpu = metrics.and_then(|it| Some(it.remove(it.iter().position(is_cpu)?)));
        if let Some(cpu) = cpu {
            let target = &cpu["resource"]["target"]["averageUtilization"];
            spec.insert("targetCPUUtilizationPercentage".to_owned(), target.clone());
        }
    }
    if let Some(status) = part(object, "status") {
        let metrics = status.get("currentMetrics").and_then(Value::as_array);
        let cpu = metrics.and_then(|it| it.iter().find(|it| is_cpu(it)));
        let current = cpu.map(|it| it["resource"]["current"]["averageUtilization"].clone());
        if let Some(current) = current.filter(|it| !it.is_null()) {
            status.insert("currentCPUUtilizationPercentage".to_owned(), current);
        }
    }
    for (name, of, field) in ANNOTATIONS {
        let value = part(object, of).and_then(|it| it.remove(field));
        let is_empty = |it: &Value| it.is_null() || it.as_array().is_some_and(Vec::is_empty);
        if let Some(value) = value.filter(|it| !is_empty(it)) {
            object["metadata"]["annotations"][annotation(name)] = value.to_string().into();
        }
    }
}

/// The rules of scaling that a behavior does not give (`GenerateHPAScaleUpRules`, `GenerateHPAScaleDownRules` in
/// `pkg/apis/autoscaling/v2/defaults.go`).
pub(super) fn default_behavior(object: &mut Value) {
    let Some(behavior) = part(object, "spec").and_then(|it| it.get_mut("behavior")) else {
        return;
    };
    let policy =
        |kind: &str, value: u32| json!({"type": kind, "value": value, "periodSeconds": 15});
    let percent = policy("Percent", 100);
    for (direction, rules) in [
        (
            "scaleUp",
            json!({"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [policy("Pods", 4), percent]}),
        ),
        (
            "scaleDown",
            json!({"selectPolicy": "Max", "policies": [percent]}),
        ),
    ] {
        let given = &mut behavior[direction];
        let mut whole = rules;
        if let (Some(whole), Some(given)) = (whole.as_object_mut(), given.as_object()) {
            whole.extend(given.clone());
        }
        *given = whole;
    }
}

/// Whether a metric is the utilisation of the CPU, which version 1 has as a number.
fn is_cpu(metric: &Value) -> bool {
    let resource = &metric["resource"];
    let of = |field: &str| !resource[field]["averageUtilization"].is_null();
    metric["type"] == "Resource" && resource["name"] == "cpu" && (of("target") || of("current"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_between_the_versions() {
        let pods = json!({"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue"}}});
        let cpu = |about: &str, value: Value| json!({"type": "Resource", "resource": {"name": "cpu", about: value}});
        let target = json!({"type": "Utilization", "averageUtilization": 70});
        let new = json!({
            "metadata": {"annotations": {"a": "b"}},
            "spec": {
                "maxReplicas": 3, "behavior": {"scaleUp": {"selectPolicy": "Max"}},
                "metrics": [cpu("target", target), pods],
            },
            "status": {
                "conditions": [{"type": "AbleToScale"}],
                "currentMetrics": [cpu("current", json!({"averageUtilization": 5, "averageValue": "1m"}))],
            },
        });
        let mut old = new.clone();
        show(&mut old);
        assert_eq!(
            old["spec"],
            json!({"maxReplicas": 3, "targetCPUUtilizationPercentage": 70})
        );
        assert_eq!(old["status"], json!({"currentCPUUtilizationPercentage": 5}));
        assert_eq!(old["metadata"]["annotations"].as_object().unwrap().len(), 5);
        store(&mut old);
        assert_eq!(old, new);
    }
}
