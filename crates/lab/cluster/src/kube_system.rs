//! The objects that a cluster has in `kube-system`: the cluster's DNS, and the agent of each node.
//!
//! ```text
//! Service kube-dns ─▶ Deployment coredns: `sluice dns` in pods ◀─┐
//!                                                                ├─ ConfigMap coredns: the Corefile
//! DaemonSet sluice: a pod per node that is the node's agent  ◀───┘
//! ```
//!
//! Names and labels are kubeadm's, so that commands of tutorials find them.

use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::{Value, json};
use sluice_api::{Status, Store};
use sluice_lab::Cluster;

use crate::nodes::MIRROR;
use crate::own_service;

/// The namespace of all of them.
pub(crate) const NAMESPACE: &str = "kube-system";

/// The name of the Deployment, and of the ConfigMap with the Corefile.
const DNS: &str = "coredns";

/// The number of the cluster's DNS Service in each range of ClusterIPs, as kubeadm chooses it.
const NUMBER: u8 = 10;

/// kubeadm's Corefile without `health`, whose port pods of a node's network often have.
pub(crate) const COREFILE: &str = "\
.:53 {
    errors
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
    prometheus :9153
    forward . /etc/resolv.conf {
       max_concurrent 1000
    }
    cache 30
    loop
    reload
    loadbalance
}
";

/// Creates the objects in a new lab. Whoever changes or deletes them later is left alone.
pub(crate) fn make(store: &Store, cidrs: &[IpNet]) -> Result<(), Status> {
    for it in [service(cidrs), config_map(), deployment(), daemon_set()] {
        store.create(it)?;
    }
    Ok(())
}

/// The Corefile in an object, if that is the ConfigMap of the cluster's DNS.
pub(crate) fn corefile(object: &Value) -> Option<&str> {
    let metadata = &object["metadata"];
    let is_own = object["kind"] == "ConfigMap"
        && metadata["namespace"] == NAMESPACE
        && metadata["name"] == DNS;
    object["data"]["Corefile"].as_str().filter(|_| is_own)
}

fn labels() -> Value {
    json!({"k8s-app": "kube-dns"})
}

fn service(cidrs: &[IpNet]) -> Value {
    let ips = cidrs.iter().map(|it| own_service::nth_of(it, NUMBER));
    let ips: Vec<String> = ips.map(|it: IpAddr| it.to_string()).collect();
    let port = |name: &str, port: u16, protocol: &str| json!({"name": name, "port": port, "protocol": protocol, "targetPort": port});
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": "kube-dns", "namespace": NAMESPACE,
            "labels": {
                "k8s-app": "kube-dns",
                "kubernetes.io/cluster-service": "true",
                "kubernetes.io/name": "CoreDNS",
            },
            "annotations": {"prometheus.io/port": "9153", "prometheus.io/scrape": "true"},
        },
        "spec": {
            "clusterIP": ips[0],
            "clusterIPs": ips,
            "ipFamilyPolicy": "PreferDualStack",
            "selector": labels(),
            "ports": [port("dns", 53, "UDP"), port("dns-tcp", 53, "TCP"), port("metrics", 9153, "TCP")],
        },
    })
}

fn config_map() -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": DNS, "namespace": NAMESPACE},
        "data": {"Corefile": COREFILE},
    })
}

/// One pod: agents answer the pods of their nodes, and it answers when one of them does not.
fn deployment() -> Value {
    let [server, _] = Cluster::lan_addresses();
    let port = |name: &str, port: u16, protocol: &str| json!({"name": name, "containerPort": port, "protocol": protocol});
    let of_api = |name: &str, value: String| json!({"name": name, "value": value});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": DNS, "namespace": NAMESPACE, "labels": labels()},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels()},
            "template": {
                "metadata": {"labels": labels()},
                "spec": {
                    "priorityClassName": "system-cluster-critical",
                    "dnsPolicy": "Default",
                    "tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"}],
                    "containers": [{
                        "name": DNS,
                        "image": "sluice-dns",
                        "command": ["sluice", "dns"],
                        "args": ["--conf", "/etc/coredns/Corefile"],
                        // It starts before a node's rules lead to the Service `kubernetes`.
                        "env": [
                            of_api("KUBERNETES_SERVICE_HOST", server.to_string()),
                            of_api("KUBERNETES_SERVICE_PORT", own_service::PORT.to_string()),
                        ],
                        "ports": [port("dns", 53, "UDP"), port("dns-tcp", 53, "TCP"), port("metrics", 9153, "TCP")],
                        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}},
                        "volumeMounts": [{"name": "config-volume", "mountPath": "/etc/coredns", "readOnly": true}],
                    }],
                    "volumes": [{
                        "name": "config-volume",
                        "configMap": {"name": DNS, "items": [{"key": "Corefile", "path": "Corefile"}]},
                    }],
                },
            },
        },
    })
}

fn daemon_set() -> Value {
    let labels = json!({"app.kubernetes.io/name": "sluice"});
    // Tutorials find the agents of Services by kube-proxy's label.
    let of_pods = json!({"app.kubernetes.io/name": "sluice", "k8s-app": "kube-proxy"});
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": "sluice", "namespace": NAMESPACE, "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": of_pods, "annotations": {MIRROR: "true"}},
                "spec": {
                    "priorityClassName": "system-node-critical",
                    "hostNetwork": true,
                    "dnsPolicy": "Default",
                    "automountServiceAccountToken": false,
                    "terminationGracePeriodSeconds": 10,
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [{
                        "name": "sluice",
                        "image": "sluice",
                        "ports": [{"name": "healthz", "containerPort": 10256, "protocol": "TCP"}],
                        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "healthz"}},
                    }],
                },
            },
        },
    })
}
