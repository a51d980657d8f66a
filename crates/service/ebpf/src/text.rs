//! Elements of maps as JSON, for `sluice render`.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::{Map, Value, json};
use sluice_bpf_abi as abi;
use sluice_plan::Frontend;

use crate::object::{AddressKind, Key, Object, pool_name};

/// All maps, each a list of elements.
#[must_use]
pub fn maps(objects: &BTreeMap<Key, Object>) -> String {
    let mut maps: Map<String, Value> = Map::new();
    for (key, object) in objects {
        let list = maps.entry(map(key)).or_insert_with(|| json!([]));
        if let Value::Array(list) = list {
            list.push(element(key, object));
        }
    }
    let text = serde_json::to_string_pretty(&Value::Object(maps));
    text.expect("addresses and numbers are JSON") + "\n"
}

/// The name of a key's map.
fn map(key: &Key) -> &'static str {
    match key {
        Key::Node => "NODE",
        Key::Source(..) => "SOURCES",
        Key::Endpoint(..) => "ENDPOINTS",
        Key::Member(..) => "MEMBERS",
        Key::Maglev(..) => "MAGLEV",
        Key::Address(..) => "ADDRESSES",
        Key::Frontend(_) => "FRONTENDS",
    }
}

/// One element of a map as `render` shows it.
pub(crate) fn element(key: &Key, object: &Object) -> Value {
    match (key, object) {
        (Key::Source([high, low], net), _) => {
            json!({"list": format!("{high:08x}{low:08x}"), "range": net})
        }
        (Key::Member(service, scope, addr), Object::Member(slot)) => json!({
            "service": service, "pool": pool_name(*scope), "endpoint": addr, "slot": slot,
        }),
        (Key::Maglev(service, scope, chunk), Object::Maglev(slots)) => json!({
            "service": service, "pool": pool_name(*scope), "part": chunk, "slots": slots.slots.to_vec(),
        }),
        (Key::Address(kind, ip), _) => json!({
            "address": ip,
            "is": match kind {
                AddressKind::ClusterIp => "ClusterIP",
                AddressKind::NodePorts => "address with NodePorts",
            },
        }),
        (Key::Endpoint(service, slot), Object::Endpoint(endpoint)) => json!({
            "service": service,
            "slot": slot,
            "address": IpAddr::from(endpoint.addr),
            "port": endpoint.port,
            "may_be_its_own_client": endpoint.flags & abi::endpoint_flags::HAIRPIN != 0,
        }),
        (Key::Frontend(frontend), Object::Frontend(value)) => {
            let treatments = ["node", "local_pod", "other"]
                .into_iter()
                .zip(value.treatments);
            let treatments: Map<String, Value> = treatments
                .map(|(client, it)| (client.to_owned(), treatment(abi::Treatment(it)).into()))
                .collect();
            let [high, low] = value.sources;
            json!({
                "frontend": frontend.to_string(),
                "service": value.service,
                "endpoints": value.cluster.count,
                "local_endpoints": value.local.count,
                "clients": treatments,
                "affinity_seconds": value.affinity_seconds,
                "maglev_size": value.maglev_size,
                "sources": (value.sources != [0; 2]).then(|| format!("{high:08x}{low:08x}")),
            })
        }
        (_, Object::Node(node)) => settings(node),
        _ => unreachable!("{key} has the value of another map"),
    }
}

/// An entry of the map of frontends in words.
pub(crate) fn frontend(frontend: &Frontend, value: &abi::Frontend) -> String {
    let [node, pods, others, _] = value.treatments.map(|it| treatment(abi::Treatment(it)));
    format!(
        "{frontend} has {} endpoints, {} of them on this node; clients of the node: {node}; of its pods: {pods}; \
         others: {others}",
        value.cluster.count, value.local.count
    )
}

fn treatment(treatment: abi::Treatment) -> String {
    let verdict = match treatment.verdict() {
        abi::Verdict::Drop => return "drop".to_owned(),
        abi::Verdict::Reject => return "reject".to_owned(),
        abi::Verdict::Cluster => "any endpoint",
        abi::Verdict::Local => "an endpoint of this node",
    };
    let masquerade = match treatment.0 {
        it if it & abi::Treatment::MASQUERADE != 0 => ", masqueraded",
        it if it & abi::Treatment::MASQUERADE_AS_CLUSTER_IP != 0 => {
            ", masqueraded as clients of ClusterIPs are"
        }
        _ => "",
    };
    format!("{verdict}{masquerade}")
}

fn settings(node: &abi::Node) -> Value {
    let families = node.families.iter().map(|it| {
        let cidr = |cidr: &abi::Cidr| {
            let addr = IpAddr::from(cidr.addr);
            let mapped = if addr.is_ipv4() { 96 } else { 0 };
            format!("{addr}/{}", cidr.length.saturating_sub(mapped))
        };
        let count = it.cidr_count as usize;
        json!({
            "node_ip": IpAddr::from(it.node_ip),
            "pods": (it.pods != abi::Cidr::NOTHING).then(|| cidr(&it.pods)),
            "masquerades_at_cluster_ips": {
                "node": it.masquerades_cluster_ips[0] != 0,
                "local_pod": it.masquerades_cluster_ips[1] != 0,
                "other": it.masquerades_cluster_ips[2] != 0,
            },
            "service_cidrs": it.service_cidrs[..count].iter().map(cidr).collect::<Vec<_>>(),
        })
    });
    json!({ "families": families.collect::<Vec<_>>() })
}
