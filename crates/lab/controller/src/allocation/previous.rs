//! Keeps the addresses and ports of a Service's previous version (`patchAllocatedValues`).

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::ServiceSpec;

/// Copies addresses and ports that the new version leaves out, so that a manifest without them can be applied again. Who
/// knows one of `clusterIP` and `clusterIPs` only has written both (`normalizeClusterIPs`).
pub(crate) fn adopt(spec: &mut ServiceSpec, old: Option<&ServiceSpec>) {
    if let Some(old) = old.filter(|it| needs_cluster_ip(it) && needs_cluster_ip(spec)) {
        if one(spec).is_empty() {
            spec.cluster_ip.clone_from(&old.cluster_ip);
        }
        if list(spec).is_empty() {
            spec.cluster_ips.clone_from(&old.cluster_ips);
        }
    }
    let is_changed = old.is_some_and(|it| one(spec) != one(it) && list(spec) == list(it));
    if is_changed || list(spec).is_empty() {
        let given = Some(one(spec)).filter(|it| !it.is_empty());
        spec.cluster_ips = given.map(|it| vec![it.to_owned()]);
    }
    if let Some(old) = old.filter(|it| needs_node_ports(it) && needs_node_ports(spec)) {
        let numbers = |it: &ServiceSpec| -> BTreeSet<i32> {
            it.ports
                .iter()
                .flatten()
                .filter_map(|it| it.node_port)
                .collect()
        };
        let used = &numbers(old) & &numbers(spec);
        let named = old
            .ports
            .iter()
            .flatten()
            .map(|it| (it.name.clone(), it.node_port));
        let named: BTreeMap<_, _> = named.collect();
        for port in spec.ports.iter_mut().flatten() {
            let had = named.get(&port.name).copied().flatten();
            if port.node_port.unwrap_or_default() == 0 && had.is_some_and(|it| !used.contains(&it))
            {
                port.node_port = had;
            }
        }
    }
    if let Some(old) = old.filter(|it| needs_health_check(it) && needs_health_check(spec))
        && spec.health_check_node_port.unwrap_or_default() == 0
    {
        spec.health_check_node_port = old.health_check_node_port;
    }
}

pub(super) fn one(spec: &ServiceSpec) -> &str {
    spec.cluster_ip.as_deref().unwrap_or_default()
}

pub(super) fn families_of(spec: &ServiceSpec) -> &[String] {
    spec.ip_families.as_deref().unwrap_or_default()
}

/// The addresses of a Service.
pub(super) fn list(spec: &ServiceSpec) -> &[String] {
    spec.cluster_ips.as_deref().unwrap_or_default()
}

pub(super) fn needs_cluster_ip(spec: &ServiceSpec) -> bool {
    spec.type_.as_deref() != Some("ExternalName")
}

pub(crate) fn needs_node_ports(spec: &ServiceSpec) -> bool {
    matches!(spec.type_.as_deref(), Some("NodePort" | "LoadBalancer"))
}

/// Whether load balancers ask each node whether it has endpoints.
pub(crate) fn needs_health_check(spec: &ServiceSpec) -> bool {
    spec.type_.as_deref() == Some("LoadBalancer")
        && spec.external_traffic_policy.as_deref() == Some("Local")
}
