//! Services, EndpointSlices, Endpoints, IPAddresses, Ingresses and NetworkPolicies.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use super::age::age;
use super::objects::{name, or_default};
use super::{NONE, items, joined, labels, number, text};
use crate::selector::selector_text;

/// Most items that a cell shows.
const SHOWN: usize = 3;

pub(crate) fn service(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &object["spec"];
    let sort = text(&spec["type"], "ClusterIP");
    let cluster_ip = match sort {
        "ExternalName" => NONE,
        _ => text(&spec["clusterIP"], NONE),
    };
    vec![
        name(object),
        sort.into(),
        cluster_ip.into(),
        external(object, sort).into(),
        ports(&spec["ports"]).into(),
        age(object, now),
        labels(&spec["selector"]).into(),
    ]
}

fn external(service: &Value, sort: &str) -> String {
    let spec = &service["spec"];
    let own = items(&spec["externalIPs"]).filter_map(Value::as_str);
    match sort {
        "ExternalName" => text(&spec["externalName"], NONE).to_owned(),
        "LoadBalancer" => {
            let given = items(&service["status"]["loadBalancer"]["ingress"]);
            let given = given.map(|it| text(&it["ip"], text(&it["hostname"], "")));
            match joined(given.chain(own)).as_str() {
                NONE => "<pending>".to_owned(),
                all => all.to_owned(),
            }
        }
        _ => joined(own),
    }
}

fn ports(ports: &Value) -> String {
    let ports = items(ports).map(|it| {
        let protocol = text(&it["protocol"], "TCP");
        match number(&it["nodePort"]) {
            0 => format!("{}/{protocol}", number(&it["port"])),
            node_port => format!("{}:{node_port}/{protocol}", number(&it["port"])),
        }
    });
    let ports: Vec<_> = ports.collect();
    joined(ports.iter().map(String::as_str))
}

pub(crate) fn endpoints(object: &Value, now: Timestamp) -> Vec<Value> {
    let mut all = Vec::new();
    for subset in items(&object["subsets"]) {
        for address in items(&subset["addresses"]) {
            let ip = text(&address["ip"], "");
            let before = all.len();
            all.extend(items(&subset["ports"]).map(|it| {
                let host = if ip.contains(':') {
                    format!("[{ip}]")
                } else {
                    ip.to_owned()
                };
                format!("{host}:{}", number(&it["port"]))
            }));
            if all.len() == before {
                all.push(ip.to_owned());
            }
        }
    }
    vec![name(object), shortened(&all, NONE).into(), age(object, now)]
}

pub(crate) fn slice(object: &Value, now: Timestamp) -> Vec<Value> {
    let ports = items(&object["ports"]).map(|it| match number(&it["port"]) {
        0 => "*".to_owned(),
        port => port.to_string(),
    });
    let addresses = items(&object["endpoints"]).flat_map(|it| items(&it["addresses"]));
    let addresses = addresses.filter_map(Value::as_str).map(str::to_owned);
    let (ports, addresses): (Vec<_>, Vec<_>) = (ports.collect(), addresses.collect());
    vec![
        name(object),
        object["addressType"].clone(),
        shortened(&ports, "<unset>").into(),
        shortened(&addresses, "<unset>").into(),
        age(object, now),
    ]
}

/// The first items, and the number of those left out.
fn shortened(all: &[String], none: &str) -> String {
    let shown = all
        .iter()
        .take(SHOWN)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(",");
    match all.len() {
        0 => none.to_owned(),
        count if count > SHOWN => format!("{shown} + {} more...", count - SHOWN),
        _ => shown,
    }
}

pub(crate) fn ingress(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let hosts = items(&spec["rules"]).filter_map(|it| it["host"].as_str());
    let hosts: Vec<_> = hosts.map(str::to_owned).collect();
    let given = items(&status["loadBalancer"]["ingress"]);
    let given: BTreeSet<_> = given
        .map(|it| text(&it["ip"], text(&it["hostname"], "")))
        .collect();
    let given: Vec<_> = given.into_iter().collect();
    let has_tls = items(&spec["tls"]).next().is_some();
    vec![
        name(object),
        text(&spec["ingressClassName"], NONE).into(),
        shortened(&hosts, "*").into(),
        given.join(",").into(),
        if has_tls { "80, 443" } else { "80" }.into(),
        age(object, now),
    ]
}

pub(crate) fn ingress_class(object: &Value, now: Timestamp) -> Vec<Value> {
    let is_default = "ingressclass.kubernetes.io/is-default-class";
    let of = &object["spec"]["parameters"];
    let parameters = match (text(&of["kind"], ""), of["apiGroup"].as_str()) {
        ("", _) => NONE.to_owned(),
        (kind, None) => format!("{kind}/{}", text(&of["name"], "")),
        (kind, Some(group)) => format!("{kind}.{group}/{}", text(&of["name"], "")),
    };
    vec![
        or_default(object, is_default).into(),
        object["spec"]["controller"].clone(),
        parameters.into(),
        age(object, now),
    ]
}

pub(crate) fn network_policy(object: &Value, now: Timestamp) -> Vec<Value> {
    let selector = selector_text(&object["spec"]["podSelector"]);
    vec![
        name(object),
        text(&selector.into(), NONE).into(),
        age(object, now),
    ]
}

pub(crate) fn address(object: &Value, _: Timestamp) -> Vec<Value> {
    let parent = &object["spec"]["parentRef"];
    let place = ["group", "resource", "namespace", "name"].map(|it| text(&parent[it], ""));
    let parent = match place {
        [_, _, _, ""] => NONE.to_owned(),
        ["", resource, namespace, name] => format!("{resource}/{namespace}/{name}"),
        [group, resource, namespace, name] => format!("{resource}.{group}/{namespace}/{name}"),
    };
    vec![name(object), parent.into()]
}
