//! Services, EndpointSlices, Endpoints, IPAddresses and ServiceCIDRs.

use jiff::Timestamp;
use serde_json::Value;

use super::age::age;
use super::objects::name;
use super::{NONE, items, joined, labels, number, text};

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

pub(crate) fn cidr(object: &Value, now: Timestamp) -> Vec<Value> {
    let cidrs = joined(items(&object["spec"]["cidrs"]).filter_map(Value::as_str));
    vec![name(object), cidrs.into(), age(object, now)]
}

pub(crate) fn address(object: &Value, now: Timestamp) -> Vec<Value> {
    let parent = &object["spec"]["parentRef"];
    let place = ["group", "resource", "namespace", "name"].map(|it| text(&parent[it], ""));
    let parent = match place {
        [_, _, _, ""] => NONE.to_owned(),
        ["", resource, namespace, name] => format!("{resource}/{namespace}/{name}"),
        [group, resource, namespace, name] => format!("{resource}.{group}/{namespace}/{name}"),
    };
    vec![name(object), parent.into(), age(object, now)]
}
