//! `/etc/resolv.conf` of a pod, as kubelet writes it (`pkg/kubelet/network/dns`).

use k8s_openapi::api::core::v1::{Pod, PodDNSConfig};

use crate::names::NAMESERVERS;

/// The domain of the cluster.
pub(super) const DOMAIN: &str = "cluster.local";

/// The text of the file; `None` for a pod that uses its node's.
pub(super) fn text(pod: &Pod) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let host_network = spec.host_network == Some(true);
    let config = spec.dns_config.as_ref();
    let (mut servers, mut search, mut options) = (Vec::new(), Vec::new(), Vec::new());
    match spec.dns_policy.as_deref().unwrap_or("ClusterFirst") {
        "ClusterFirst" if host_network => return None,
        "ClusterFirst" | "ClusterFirstWithHostNet" => {
            let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
            servers.extend(NAMESERVERS.map(str::to_owned));
            search.push(format!("{namespace}.svc.{DOMAIN}"));
            search.push(format!("svc.{DOMAIN}"));
            search.push(DOMAIN.to_owned());
            options.push("ndots:5".to_owned());
        }
        "None" => {}
        _ => return None,
    }
    if let Some(config) = config {
        add(config, &mut servers, &mut search, &mut options);
    }
    let lines = servers.iter().map(|it| format!("nameserver {it}\n"));
    let mut text: String = lines.collect();
    for (word, values) in [("search", search), ("options", options)] {
        if !values.is_empty() {
            text += &format!("{word} {}\n", values.join(" "));
        }
    }
    Some(text)
}

/// Adds `dnsConfig`. A resolver uses the last of equal options.
fn add(
    config: &PodDNSConfig,
    servers: &mut Vec<String>,
    search: &mut Vec<String>,
    options: &mut Vec<String>,
) {
    let new = |list: &Vec<String>, it: &String| !list.contains(it);
    for it in config.nameservers.iter().flatten() {
        if new(servers, it) {
            servers.push(it.clone());
        }
    }
    for it in config.searches.iter().flatten() {
        if new(search, it) {
            search.push(it.clone());
        }
    }
    let words = config.options.iter().flatten().filter_map(|it| {
        let name = it.name.as_ref()?;
        let value = it.value.as_ref();
        Some(value.map_or_else(|| name.clone(), |value| format!("{name}:{value}")))
    });
    options.extend(words);
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(spec: &Value, expected: Option<&str>) {
        let metadata = json!({"name": "cart", "namespace": "shop"});
        let pod = json!({"metadata": metadata, "spec": spec});
        let pod: Pod = serde_json::from_value(pod).expect("a pod");
        assert_eq!(text(&pod).as_deref(), expected, "{spec}");
    }

    #[test]
    fn the_policy_decides() {
        let cluster = "nameserver 169.254.20.10\nnameserver fd00:169:254:20::10\n\
                       search shop.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n";
        let containers = json!([]);
        check(&json!({"containers": containers}), Some(cluster));
        let host = json!({"containers": containers, "hostNetwork": true});
        check(&host, None);
        let own = json!({
            "containers": containers,
            "dnsPolicy": "None",
            "dnsConfig": {
                "nameservers": ["192.0.2.1"], "searches": ["lan"], "options": [{"name": "ndots", "value": "2"}],
            },
        });
        let expected = "nameserver 192.0.2.1\nsearch lan\noptions ndots:2\n";
        check(&own, Some(expected));
    }
}
