//! HorizontalPodAutoscalers, quotas, role bindings, requests for certificates and policies of admission.

use jiff::Timestamp;
use serde_json::Value;

use super::age::{age, human};
use super::objects::name;
use super::{NONE, items, number, text};
use crate::selector::selector_text;

/// Most metrics that a cell shows.
const SHOWN: usize = 2;

pub(crate) fn autoscaler(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let target = &spec["scaleTargetRef"];
    let least = spec["minReplicas"].as_i64();
    vec![
        name(object),
        format!(
            "{}/{}",
            text(&target["kind"], ""),
            text(&target["name"], "")
        )
        .into(),
        metrics(spec, status).into(),
        least
            .map_or("<unset>".to_owned(), |it| it.to_string())
            .into(),
        number(&spec["maxReplicas"]).into(),
        number(&status["currentReplicas"]).into(),
        age(object, now),
    ]
}

/// Present and wanted value of each metric (`formatHPAMetrics`).
fn metrics(spec: &Value, status: &Value) -> String {
    let all: Vec<_> = items(&spec["metrics"]).enumerate().collect();
    let shown = all.iter().take(SHOWN).map(|(at, metric)| {
        let sort = text(&metric["type"], "");
        let field = match sort {
            "Resource" => "resource",
            "ContainerResource" => "containerResource",
            "Pods" => "pods",
            "Object" => "object",
            "External" => "external",
            _ => return "<unknown type>".to_owned(),
        };
        let (wanted, is) = (
            &metric[field]["target"],
            &status["currentMetrics"][*at][field]["current"],
        );
        let per_cent = |it: &Value| it.as_i64().map(|it| format!("{it}%"));
        let plain = |it: &Value| it.as_str().map(str::to_owned);
        let is_resource = field.to_lowercase().ends_with("resource");
        let average = plain(&wanted["averageValue"]);
        let (is, wanted) = match average {
            Some(wanted) => (plain(&is["averageValue"]), wanted),
            None if is_resource => {
                let wanted = per_cent(&wanted["averageUtilization"]);
                let is = per_cent(&is["averageUtilization"]);
                (is, wanted.unwrap_or_else(|| "<auto>".to_owned()))
            }
            None => (plain(&is["value"]), text(&wanted["value"], "0").to_owned()),
        };
        let is = is.unwrap_or_else(|| "<unknown>".to_owned());
        let is_average = !metric[field]["target"]["averageValue"].is_null();
        match sort {
            "Object" | "External" if is_average => format!("{is}/{wanted} (avg)"),
            _ if is_resource => format!("{}: {is}/{wanted}", text(&metric[field]["name"], "")),
            _ => format!("{is}/{wanted}"),
        }
    });
    let shown = shown.collect::<Vec<_>>().join(", ");
    match all.len() {
        0 => NONE.to_owned(),
        count if count > SHOWN => format!("{shown} + {} more...", count - SHOWN),
        _ => shown,
    }
}

pub(crate) fn quota(object: &Value, now: Timestamp) -> Vec<Value> {
    let status = &object["status"];
    let used = |wanted: bool| {
        let hard = status["hard"].as_object().into_iter().flatten();
        let hard = hard.filter(|(name, _)| name.starts_with("limits.") == wanted);
        let each = hard.map(|(name, most)| {
            let used = text(&status["used"][name], "0");
            format!("{name}: {used}/{}", text(most, "0"))
        });
        Value::from(each.collect::<Vec<_>>().join(", "))
    };
    vec![name(object), used(false), used(true), age(object, now)]
}

pub(crate) fn role_binding(object: &Value, now: Timestamp) -> Vec<Value> {
    let role = &object["roleRef"];
    let named = |kind: &str| {
        let subjects = items(&object["subjects"]).filter(|it| it["kind"] == kind);
        let subjects = subjects.map(|it| match it["namespace"].as_str() {
            Some(namespace) if kind == "ServiceAccount" => {
                format!("{namespace}/{}", text(&it["name"], ""))
            }
            _ => text(&it["name"], "").to_owned(),
        });
        Value::from(subjects.collect::<Vec<_>>().join(", "))
    };
    vec![
        name(object),
        format!("{}/{}", text(&role["kind"], ""), text(&role["name"], "")).into(),
        age(object, now),
        named("User"),
        named("Group"),
        named("ServiceAccount"),
    ]
}

pub(crate) fn certificate_request(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let has = |wanted: &str| items(&status["conditions"]).any(|it| it["type"] == wanted);
    let mut condition = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (_, true) => "Approved",
        _ => "Pending",
    }
    .to_owned();
    if has("Failed") {
        condition += ",Failed";
    }
    if !text(&status["certificate"], "").is_empty() {
        condition += ",Issued";
    }
    let seconds = spec["expirationSeconds"].as_i64();
    vec![
        name(object),
        age(object, now),
        text(&spec["signerName"], NONE).into(),
        text(&spec["username"], "").into(),
        seconds.map_or(NONE.to_owned(), human).into(),
        condition.into(),
    ]
}

pub(crate) fn admission_policy(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &object["spec"];
    let rules = items(&spec["validations"]).chain(items(&spec["mutations"]));
    let kind = match &spec["paramKind"] {
        Value::Null => "<unset>".to_owned(),
        it => format!("{}/{}", text(&it["apiVersion"], ""), text(&it["kind"], "")),
    };
    vec![
        name(object),
        rules.count().into(),
        kind.into(),
        age(object, now),
    ]
}

pub(crate) fn admission_binding(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &object["spec"];
    let parameter = &spec["paramRef"];
    let shown = match (parameter["name"].as_str(), &parameter["selector"]) {
        (Some(name), _) => format!("{}/{name}", text(&parameter["namespace"], "*")),
        (None, Value::Null) => "<unset>".to_owned(),
        (None, selector) => selector_text(selector),
    };
    vec![
        name(object),
        text(&spec["policyName"], "").into(),
        shown.into(),
        age(object, now),
    ]
}
