//! Defaults of Services (`pkg/apis/core/v1/defaults.go`).

use k8s_openapi::api::core::v1::{ClientIPConfig, Service, SessionAffinityConfig};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// Default timeout of session affinity in seconds.
const AFFINITY_SECONDS: i32 = 10_800;

/// Sets the fields that kube-apiserver sets.
pub fn set_defaults(service: &mut Service) {
    let spec = service.spec.get_or_insert_default();
    let kind = spec
        .type_
        .get_or_insert_with(|| "ClusterIP".to_owned())
        .clone();
    let affinity = spec
        .session_affinity
        .get_or_insert_with(|| "None".to_owned());
    match affinity.as_str() {
        "ClientIP" => {
            let config = spec
                .session_affinity_config
                .get_or_insert_with(SessionAffinityConfig::default);
            let client = config.client_ip.get_or_insert_with(ClientIPConfig::default);
            client.timeout_seconds.get_or_insert(AFFINITY_SECONDS);
        }
        _ => spec.session_affinity_config = None,
    }
    for port in spec.ports.iter_mut().flatten() {
        port.protocol.get_or_insert_with(|| "TCP".to_owned());
        let is_missing = match &port.target_port {
            None | Some(IntOrString::Int(0)) => true,
            Some(IntOrString::String(it)) => it.is_empty(),
            Some(IntOrString::Int(_)) => false,
        };
        if is_missing {
            port.target_port = Some(IntOrString::Int(port.port));
        }
    }
    let cluster = || "Cluster".to_owned();
    if kind == "ExternalName" {
        // Nobody is told of one (`defaultOnReadInternalTrafficPolicy` in `pkg/registry/core/service/storage`).
        spec.internal_traffic_policy = None;
    } else {
        spec.internal_traffic_policy.get_or_insert_with(cluster);
    }
    let has_external_ips = spec.external_ips.as_ref().is_some_and(|it| !it.is_empty());
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer") || has_external_ips {
        spec.external_traffic_policy.get_or_insert_with(cluster);
    }
    if kind == "LoadBalancer" {
        spec.allocate_load_balancer_node_ports.get_or_insert(true);
    }
}
