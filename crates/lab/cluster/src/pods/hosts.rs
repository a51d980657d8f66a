//! `/etc/hosts` of a pod, as kubelet writes it (`ensureHostsFile`, `pkg/kubelet/kubelet_pods.go`).

use std::fs;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::Pod;

use super::fields::Own;
use super::resolver::DOMAIN;
use crate::enter;

/// The names that every pod has.
const LOCAL: &str = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\nff02::1\tip6-allnodes\n\
                     ff02::2\tip6-allrouters\n";

/// The text of the file. A pod with the network of its node has this machine's names.
pub(super) fn text(own: &Own<'_>) -> String {
    let spec = own.pod.spec.as_ref();
    let mut text = "# Kubernetes-managed hosts file.\n".to_owned();
    if spec.and_then(|it| it.host_network) == Some(true) {
        text += &fs::read_to_string("/etc/hosts").unwrap_or_else(|_| LOCAL.to_owned());
    } else {
        text += LOCAL;
        let subdomain = spec.and_then(|it| it.subdomain.as_deref());
        text += &names(
            &own.addresses.map(Vec::from).unwrap_or_default(),
            &hostname(own.pod),
            subdomain.filter(|it| !it.is_empty()),
            own.namespace(),
        );
    }
    for alias in spec
        .and_then(|it| it.host_aliases.as_ref())
        .into_iter()
        .flatten()
    {
        let names = alias.hostnames.clone().unwrap_or_default();
        text += &format!("{}\t{}\n", alias.ip, names.join("\t"));
    }
    text
}

/// The hostname of a pod.
pub(super) fn hostname(pod: &Pod) -> String {
    let spec = pod.spec.as_ref();
    let of_host = spec.filter(|it| it.host_network == Some(true));
    let node = of_host.and_then(|it| it.node_name.as_deref());
    let named = spec.and_then(|it| it.hostname.as_deref());
    enter::hostname(
        node,
        named,
        pod.metadata.name.as_deref().unwrap_or_default(),
    )
}

fn names(addresses: &[IpAddr], host: &str, subdomain: Option<&str>, namespace: &str) -> String {
    let full = subdomain.map(|it| format!("{host}.{it}.{namespace}.svc.{DOMAIN}\t"));
    let full = full.unwrap_or_default();
    let lines = addresses.iter().map(|it| format!("{it}\t{full}{host}\n"));
    lines.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_knows_its_own_name() {
        let pod = json!({
            "metadata": {"name": "web-0", "namespace": "shop"},
            "spec": {
                "containers": [], "subdomain": "web",
                "hostAliases": [{"ip": "192.0.2.1", "hostnames": ["a", "b"]}],
            },
        });
        let own = Own {
            pod: &serde_json::from_value(pod).unwrap(),
            addresses: Some(["10.0.0.2", "fd00::2"].map(|it| it.parse().unwrap())),
            node_addresses: None,
        };
        let text = text(&own);
        let end = "10.0.0.2\tweb-0.web.shop.svc.cluster.local\tweb-0\n\
                   fd00::2\tweb-0.web.shop.svc.cluster.local\tweb-0\n192.0.2.1\ta\tb\n";
        assert!(text.ends_with(end), "{text}");
        assert!(text.contains("127.0.0.1\tlocalhost\n"), "{text}");
    }
}
